//! Clusters as sources, over the API that this project has itself.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod api;
mod follow;
mod mirror;
