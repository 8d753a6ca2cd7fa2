//! What applies to a workload: authentication, authorization, tokens, telemetry, extensions and patches, each read once
//! from its objects into values that listeners and clusters are made of.
//!
//! Everything here is a pure function of a key and of what it reads through `Cx`; every read is recorded. Nothing here
//! knows which resources a proxy gets.

pub mod authn;
pub mod authz;
pub mod edge;
pub mod envoy_filter;
pub mod filters;
pub mod jwt;
pub mod provider_cluster;
pub mod security;
pub mod telemetry;
pub mod traffic_extension;
