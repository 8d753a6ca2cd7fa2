//! Messages and their JSON mapping against Istio's definitions and recorded configuration.

mod crds;
mod json;
mod recorded;
mod shared;
mod wire;
