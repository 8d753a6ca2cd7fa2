//! Istio config and services to Envoy resources.
//!
//! Everything here is a pure function of a key and of what it reads through `Cx`; every read is recorded. No clock,
//! environment, randomness, lock or socket is named in this crate.

pub mod published;
pub mod resource;
pub mod type_url;

pub use published::Published;
pub use resource::{Resource, ResourceSet};
pub use type_url::TypeUrl;
