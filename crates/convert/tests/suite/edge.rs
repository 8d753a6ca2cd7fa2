//! Ingresses with annotations: what they become, and that nothing they say harms others.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod canaries;
mod cases;
mod closed;
mod https;
mod incremental;
mod owners;
mod tables;
mod world;
