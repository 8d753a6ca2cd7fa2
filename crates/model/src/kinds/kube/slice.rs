//! `EndpointSlice`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A part of the endpoints of a Service, which the label `kubernetes.io/service-name` names.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: Arc<str>,
    /// The endpoints.
    pub endpoints: Vec<SliceEndpoint>,
    /// The ports that each endpoint has.
    pub ports: Vec<EndpointPort>,
}

/// One endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceEndpoint {
    /// Addresses; consumers use the first only.
    pub addresses: Vec<Arc<str>>,
    /// Whether it takes traffic.
    pub conditions: EndpointConditions,
    /// Host name of the pod, for headless names.
    pub hostname: Option<Arc<str>>,
    /// The pod.
    pub target_ref: Option<TargetRef>,
    /// The node it runs on.
    pub node_name: Option<Arc<str>>,
    /// The zone it runs in.
    pub zone: Option<Arc<str>>,
}

/// Whether an endpoint takes traffic; absent is not known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointConditions {
    /// Ready; absent counts as ready.
    pub ready: Option<bool>,
    /// Serving, also while it shuts down.
    pub serving: Option<bool>,
    /// Shutting down.
    pub terminating: Option<bool>,
}

/// The object behind an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef {
    /// `Pod`, `WorkloadEntry`, ...
    pub kind: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// A port of all endpoints of a slice.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// Name of the service port.
    pub name: Option<Arc<str>>,
    /// Number; absent is every port.
    pub port: Option<i32>,
    /// `TCP` (also when absent), `UDP`, `SCTP`.
    pub protocol: Option<Arc<str>>,
    /// What it speaks.
    pub app_protocol: Option<Arc<str>>,
}
