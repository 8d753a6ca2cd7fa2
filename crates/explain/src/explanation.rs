//! What is found out, as it is shown and as it goes over the wire.

use model::{AnyObject, Kind, Origin};
use serde::{Deserialize, Serialize};

/// What would become of a resource without an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// It would not be there.
    Gone,
    /// It would be another one.
    Different,
    /// It would be there; it is not as long as the object is.
    Added,
}

/// An object, and where it was read from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedObject {
    /// Its kind, `VirtualService`.
    pub kind: String,
    /// The API group of the kind; empty for the core group.
    pub group: String,
    /// Empty for kinds of cluster scope.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The remote cluster that it is in; empty for the configured one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// `file:line`, or `source@revision`.
    pub at: String,
    /// What objects of its kind do, in a few words.
    pub role: String,
    /// What would become of the resource without it.
    pub without: Effect,
    /// The fields of the resource that would be others without it; at the top, as JSON names them.
    pub fields: Vec<String>,
    /// The inputs through which it was read.
    pub read_as: Vec<String>,
}

impl NamedObject {
    pub(crate) fn new(object: &AnyObject, without: Effect) -> Self {
        let key = object.key();
        let meta = object.meta();
        let at = match &meta.origin {
            origin @ Origin::Source(_) if !meta.resource_version.is_empty() => {
                format!("{origin}@{}", meta.resource_version)
            }
            origin => origin.to_string(),
        };
        Self {
            kind: key.kind.name().to_owned(),
            group: key.kind.group().to_owned(),
            namespace: key.name.namespace.to_string(),
            name: key.name.name.to_string(),
            cluster: key.name.cluster.map(|c| c.to_string()).unwrap_or_default(),
            at,
            role: role(key.kind).to_owned(),
            without,
            fields: Vec::new(),
            read_as: Vec::new(),
        }
    }

    /// Kind, namespace and name: `VirtualService shop/carts`.
    pub fn title(&self) -> String {
        let mut title = match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        };
        if !self.cluster.is_empty() {
            title.push_str(&format!(" (cluster {})", self.cluster));
        }
        title
    }
}

/// What the mesh settings have to do with a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Settings {
    /// With Istio's default mesh config it would be the same.
    Default,
    /// With Istio's default mesh config it would be another one, or not there.
    Matter,
    /// There was no time left to find out.
    Unchecked,
}

/// The objects that made a resource.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The type of the resource: `cluster`.
    pub r#type: String,
    /// Its name.
    pub resource: String,
    /// The part that is explained, as a JSON pointer: `/virtualHosts/0`. Empty for all of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The objects without which it would be another one or gone; these come first.
    pub objects: Vec<NamedObject>,
    /// Whether the mesh settings shape it.
    pub mesh_settings: Settings,
    /// Objects that were taken away to see what happens.
    pub checked: usize,
    /// Objects that could have a say in it: those which were read.
    pub candidates: usize,
}

/// The resources that an object takes part in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Participation {
    /// The object.
    pub object: NamedObject,
    /// By type, then name.
    pub resources: Vec<Touched>,
}

/// A resource that an object takes part in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Touched {
    /// Its type: `cluster`.
    pub r#type: String,
    /// Its name.
    pub resource: String,
    /// What would become of it without the object.
    pub without: Effect,
}

/// What objects of a kind do.
fn role(kind: Kind) -> &'static str {
    match kind {
        Kind::VirtualService
        | Kind::HttpRoute
        | Kind::GrpcRoute
        | Kind::TlsRoute
        | Kind::TcpRoute
        | Kind::UdpRoute => "routes",
        Kind::DestinationRule | Kind::XBackendTrafficPolicy => "traffic policy",
        Kind::Gateway | Kind::KubeGateway | Kind::ListenerSet | Kind::GatewayClass => "gateway",
        Kind::Ingress | Kind::IngressClass => "ingress",
        Kind::ServiceEntry | Kind::Service | Kind::ServiceImport | Kind::ServiceExport => "service",
        Kind::XBackend => "backend",
        Kind::Sidecar => "scope",
        Kind::WorkloadEntry | Kind::EndpointSlice => "endpoints",
        Kind::Pod | Kind::WorkloadGroup | Kind::Deployment => "workload",
        Kind::EnvoyFilter => "patch",
        Kind::ProxyConfig => "proxy settings",
        Kind::AuthorizationPolicy => "authorization",
        Kind::PeerAuthentication => "mutual TLS",
        Kind::RequestAuthentication => "authentication",
        Kind::Telemetry => "telemetry",
        Kind::WasmPlugin | Kind::TrafficExtension | Kind::HigressWasmPlugin => "extension",
        Kind::Node => "locality",
        Kind::Namespace | Kind::XMesh => "scope",
        Kind::Secret | Kind::ConfigMap | Kind::BackendTlsPolicy => "TLS",
        Kind::ReferenceGrant => "permission",
        Kind::McpBridge | Kind::Http2Rpc => "registry",
        Kind::MutatingWebhook | Kind::ValidatingWebhook | Kind::CustomResourceDefinition => "API",
    }
}
