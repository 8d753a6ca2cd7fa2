//! Where a request goes: a walk through the resources of a proxy, as Envoy would take it.
//!
//! Listener by the destination, filter chain by what is known of the connection, virtual host by authority, route by
//! what it matches, then clusters and their endpoints. A walk is a pure function of the resources and the call: where
//! Envoy would throw dice (weights, percentages), every side is told. Filters other than the routing ones are passed by:
//! a walk says where a request is sent, not whether a policy lets it pass.

mod call;
mod chain;
mod cluster;
mod listener;
mod location;
mod matcher;
mod notes;
mod path;
mod resources;
mod route;
mod virtual_host;
mod walk;

pub use call::{Call, Entry, Protocol, Tls};
pub use cluster::{Destination, Endpoint, Health};
pub use location::{Location, Type};
pub use resources::{Resources, Unreadable};
pub use walk::{End, Part, Refusal, Step, Walk, walk};
