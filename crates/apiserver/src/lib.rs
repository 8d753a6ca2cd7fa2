//! The Kubernetes API over an embedded store with history.
//!
//! [`store`] keeps objects and what was done to them; [`api`] answers requests; [`http`] is the way in for clients and
//! [`source`] the way out to generation. One process, one file: whoever needs several machines runs a real Kubernetes.

pub mod access;
pub mod api;
pub mod apply;
pub mod audit;
pub mod definitions;
pub mod fields;
pub mod forward;
pub mod http;
mod ledger;
pub mod limits;
pub mod local;
mod names;
pub mod object;
pub mod patch;
pub mod pki;
pub mod protobuf;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod source;
pub mod status;
pub mod store;
pub mod this_machine;
