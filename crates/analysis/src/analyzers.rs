//! The analyzers. Each module holds those about one subject; `registry` names them.

pub(crate) mod annotations;
pub(crate) mod authentication;
pub(crate) mod authorization;
mod certificate;
pub mod clusters;
pub(crate) mod conditions;
pub(crate) mod deployment;
pub(crate) mod deprecation;
pub(crate) mod destination_rule;
pub(crate) mod envoy_filter;
pub(crate) mod external_control_plane;
pub(crate) mod gateway;
pub(crate) mod gateway_conflict;
pub(crate) mod ingress;
pub(crate) mod injection;
pub(crate) mod kube_gateway;
pub(crate) mod mesh_networks;
pub(crate) mod policy;
pub(crate) mod route;
pub(crate) mod service;
pub(crate) mod service_entry;
pub(crate) mod shared_host;
pub(crate) mod sidecar;
pub(crate) mod telemetry;
pub(crate) mod virtual_service;
pub(crate) mod webhook;
