//! Knative's Ingresses: what they become, and that nothing they say harms others.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod cases;
mod incremental;
mod limits;
mod tables;
mod world;
