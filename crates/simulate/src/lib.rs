//! Where a request goes: a walk through the resources of a proxy, as Envoy would take it.
//!
//! Listener by the destination, filter chain by what is known of the connection, virtual host by authority, route by
//! what it matches, then clusters and their endpoints. A walk is a pure function of the resources and the call: where
//! Envoy would throw dice (weights, percentages), every side is reported. Besides it says whether the proxy's RBAC filters, which
//! AuthorizationPolicies become, let the request pass, and which passwords, tokens and services are asked for. Other filters are
//! passed by.

mod access;
mod call;
mod chain;
mod cluster;
mod listener;
mod location;
mod matcher;
mod notes;
mod path;
mod policy;
mod resources;
mod route;
mod steps;
mod tls;
mod virtual_host;
mod walk;

pub use access::Asked;
pub use call::{Call, Client, Entry, Protocol, Tls};
pub use cluster::{Destination, Endpoint, Health};
pub use location::{Location, Type};
pub use policy::Verdict;
pub use resources::{Resources, Unreadable};
pub use walk::{End, Part, Refusal, Step, Walk, walk};
