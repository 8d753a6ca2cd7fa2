//! Messages and their JSON mapping against Istio's definitions and recorded configuration.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod crds;
mod json;
mod recorded;
mod shared;
mod wire;
