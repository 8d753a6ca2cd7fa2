//! Istio config and services to Envoy resources.
//!
//! Everything here is a pure function of a key and of what it reads through `Cx`; every read is recorded. No clock,
//! environment, randomness, lock or socket is named in this crate.

pub mod authn;
pub mod authz;
pub mod capabilities;
pub mod clusters;
pub mod destination_rule;
pub mod ecds;
pub mod endpoints;
pub mod envoy_filter;
pub mod findings;
pub mod gateways;
mod hosts;
pub mod json;
pub mod jwt;
mod label_names;
pub mod limits;
pub mod listeners;
pub mod name_table;
pub mod node;
pub mod policy_target;
pub mod proxy;
pub mod roots;
pub mod routes;
pub mod scope;
pub mod secrets;
pub mod security;
pub mod services;
mod shared;
pub mod telemetry;
pub mod traffic_extension;
pub mod view;
pub mod virtual_service;

pub use roots::TypeSet;
pub use view::{View, ViewOf, Viewed};

#[cfg(test)]
mod recorded;
