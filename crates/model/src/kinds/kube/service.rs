//! `Service`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Condition, IntOrString};
use crate::labels::Labels;

/// What a Service asks for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// `ClusterIP` (also when empty), `NodePort`, `LoadBalancer`, `ExternalName`.
    #[serde(rename = "type")]
    pub service_type: Arc<str>,
    /// The primary virtual IP; `None` for a headless service; empty while not assigned.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Arc<str>,
    /// Virtual IPs of both families; the first equals `clusterIP`.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Box<[Arc<str>]>,
    /// Further addresses that route to the service.
    #[serde(rename = "externalIPs")]
    pub external_ips: Box<[Arc<str>]>,
    /// The target of an `ExternalName` service.
    pub external_name: Arc<str>,
    /// Labels of the pods behind it.
    pub selector: Labels,
    /// Ports.
    pub ports: Vec<ServicePort>,
    /// `Local` or `Cluster` (also when empty).
    pub internal_traffic_policy: Arc<str>,
    /// `Local` or `Cluster` (also when empty).
    pub external_traffic_policy: Arc<str>,
    /// `PreferSameZone`, `PreferSameNode`, `PreferClose` or empty.
    pub traffic_distribution: Arc<str>,
    /// Endpoints count as ready while they are not.
    pub publish_not_ready_addresses: bool,
    /// `SingleStack`, `PreferDualStack`, `RequireDualStack`.
    pub ip_family_policy: Arc<str>,
    /// `IPv4`, `IPv6`, in order of preference.
    pub ip_families: Box<[Arc<str>]>,
    /// `ClientIP` or `None`.
    pub session_affinity: Arc<str>,
    /// The address asked of the load balancer.
    #[serde(rename = "loadBalancerIP")]
    pub load_balancer_ip: Arc<str>,
    /// Who provides the load balancer.
    pub load_balancer_class: Arc<str>,
}

/// One port of a Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Its name; may be empty where there is only one.
    pub name: Arc<str>,
    /// `TCP` (also when empty), `UDP`, `SCTP`.
    pub protocol: Arc<str>,
    /// What it speaks: `http`, `kubernetes.io/h2c`, ...
    pub app_protocol: Option<Arc<str>>,
    /// The port clients dial.
    pub port: i32,
    /// The port of the pod; the same as `port` where absent.
    pub target_port: Option<IntOrString>,
    /// The port on every node; 0 where there is none.
    pub node_port: i32,
}

/// What became of a Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Addresses of the load balancer.
    pub load_balancer: LoadBalancerStatus,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// Addresses that a load balancer got.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// One for each address.
    pub ingress: Vec<LoadBalancerIngress>,
}

/// One address of a load balancer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// IP address; empty where the load balancer has a name.
    pub ip: Arc<str>,
    /// Host name.
    pub hostname: Arc<str>,
}
