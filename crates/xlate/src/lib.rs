//! What Envoy gets: a module for each type of resource, over what there is (`mesh`) and what applies (`policy`).
//!
//! Everything here is a pure function of a key and of what it reads through `Cx`; every read is recorded. No clock,
//! environment, randomness, lock or socket is named in this crate.

pub mod clusters;
pub mod ecds;
pub mod endpoints;
pub mod filled;
pub mod findings;
mod grpc;
mod hashed;
mod judged;
pub mod listeners;
mod load_assignment;
pub mod name_table;
mod proxy_headers;
pub mod roots;
pub mod routes;
pub mod secrets;
mod shared;
pub mod trust_bundle;
pub mod view;
pub mod wants;

pub use load_assignment::select::always_sends_unhealthy;
pub use roots::{TypeSet, UnsupportedRole, supported};
pub use view::{View, ViewOf, Viewed};
