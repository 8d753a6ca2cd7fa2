//! What Envoy would refuse is closed or left out here, the smallest part of a resource that is safe, before it is sent.
//!
//! Resources become [`Resource`]s here, and nowhere else in this crate: what is made elsewhere is judged, once when it is
//! encoded. What breaks nothing stays as it is, byte for byte. What is closed answers 503 or refuses connections, and
//! is reported with the resource: a value that Envoy would refuse is known only here, after everything that configuration
//! says has come together. What an object says is checked where it is read, by `validate`; this is the last gate.

mod assignment;
mod cluster;
mod extension;
mod filled;
mod listener;
mod origin;
mod route;

pub(crate) use assignment::assignment;
pub(crate) use cluster::{cluster, grpc_cluster};
pub(crate) use extension::{added, extension};
pub(crate) use filled::filled;
pub(crate) use listener::{grpc_listener, listener};
pub(crate) use origin::{finding, of_rule, rule_of};
pub(crate) use route::{beginning, closed, closed_route, closes_all, configuration, head};
