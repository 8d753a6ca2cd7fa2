//! The kinds of Kubernetes that services, endpoints, certificates and ingress are read from.
//!
//! Only the fields that are read have a place here: Kubernetes has many more, and reading one of its objects never
//! complains about them. Kinds without a `spec` (EndpointSlice, Secret, ConfigMap, webhook configurations) keep their top-level fields in the
//! type that stands for the spec.

mod cluster;
mod config;
mod deployment;
mod ingress;
mod node;
mod pod;
mod service;
mod slice;
mod workload;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use cluster::{
    CustomResourceDefinition, DefinitionNames, MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration, Webhook, WebhookClient, WebhookService,
};
pub use config::{Base64, ConfigMap, Secret};
pub use deployment::{Deployment, PodTemplate, TemplateMeta};
pub use ingress::{
    ANY_HOST, Ingress, IngressBackend, IngressClass, IngressPath, IngressPaths, IngressPort,
    IngressRule, IngressServiceBackend, IngressTls, PathType, ResourceRef, is_host,
    is_protecting_annotation, misspelt_prefix, www,
};
pub(crate) use ingress::{PREFIXES, is_canary_annotation, is_true};
pub use node::{NamespaceSpec, Node, NodeAddress, NodeInfo, NodeStatus};
pub use pod::{
    Container, ContainerPort, EnvVar, Pod, PodCondition, PodIp, PodStatus, SecurityContext,
};
pub use service::{LoadBalancerIngress, LoadBalancerStatus, Service, ServicePort, ServiceStatus};
pub use slice::{EndpointConditions, EndpointPort, EndpointSlice, SliceEndpoint, TargetRef};
pub use workload::{WorkloadKind, workload_of};

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

/// One statement about an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What is stated: `Accepted`, `Programmed`, ...
    #[serde(rename = "type")]
    pub condition: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// Why, in one word.
    pub reason: Arc<str>,
    /// Why, in a sentence.
    pub message: Arc<str>,
}
