//! Clusters as sources, over the API that this project has itself.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod api;
mod fake;
mod follow;
mod kinds;
mod mirror;
mod objects;
