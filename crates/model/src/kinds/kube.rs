//! The kinds of Kubernetes that services, endpoints, certificates and ingress are read from.
//!
//! Only the fields that are read have a place here: Kubernetes has many more, and reading one of its objects never
//! complains about them. Kinds without a `spec` (EndpointSlice, Secret, ConfigMap) keep their top-level fields in the
//! type that stands for the spec.

mod config;
mod ingress;
mod node;
mod pod;
mod service;
mod slice;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use config::{Base64, ConfigMap, Secret};
pub use ingress::{
    Ingress, IngressBackend, IngressClass, IngressPath, IngressPaths, IngressPort, IngressRule,
    IngressServiceBackend, IngressTls, PathType, ResourceRef,
};
pub use node::{NamespaceSpec, Node, NodeAddress, NodeStatus};
pub use pod::{Container, ContainerPort, Pod, PodCondition, PodIp, PodStatus};
pub use service::{LoadBalancerIngress, LoadBalancerStatus, Service, ServicePort, ServiceStatus};
pub use slice::{EndpointConditions, EndpointPort, EndpointSlice, SliceEndpoint, TargetRef};

/// A port by number or by name, as `targetPort` holds it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A name, or a number in quotes.
    String(Arc<str>),
}

impl IntOrString {
    /// The number, also one in quotes; `None` for a name.
    pub fn number(&self) -> Option<i32> {
        match self {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(text) => text.parse().ok(),
        }
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(number) => write!(f, "{number}"),
            IntOrString::String(text) => f.write_str(text),
        }
    }
}
