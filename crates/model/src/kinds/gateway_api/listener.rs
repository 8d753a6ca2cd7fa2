//! `GatewayClass`, `Gateway` and `ListenerSet`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::labels::Labels;

use super::reference::{
    GatewayRef, LabelSelector, LocalObjectRef, ObjectRef, ParametersRef, SecretRef,
    UseDefaultGateways, group,
};

/// Who implements Gateways of a class.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayClass {
    /// `domain/path` of the controller.
    pub controller_name: Arc<str>,
    /// More settings.
    pub parameters_ref: Option<ParametersRef>,
    /// For people.
    pub description: Option<Arc<str>>,
}

/// Where traffic enters the mesh.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gateway {
    /// Its class.
    pub gateway_class_name: Arc<str>,
    /// What it listens on.
    pub listeners: Vec<Listener>,
    /// Addresses asked for.
    #[serde(default)]
    pub addresses: Vec<GatewayAddress>,
    /// What the machinery behind it is made with.
    pub infrastructure: Option<Infrastructure>,
    /// Which ListenerSets may add to it.
    pub allowed_listeners: Option<AllowedListeners>,
    /// TLS that holds for all listeners.
    pub tls: Option<GatewayTls>,
    /// Whether routes may attach without naming it.
    #[serde(default)]
    pub default_scope: UseDefaultGateways,
}

/// An address asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayAddress {
    /// `IPAddress`, `Hostname`, or a name of the implementation.
    #[serde(rename = "type", default = "ip_address")]
    pub address_type: Arc<str>,
    /// The address; any where absent.
    pub value: Option<Arc<str>>,
}

fn ip_address() -> Arc<str> {
    "IPAddress".into()
}

/// What the machinery behind a Gateway is made with.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Infrastructure {
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// More settings.
    pub parameters_ref: Option<LocalObjectRef>,
}

/// Which ListenerSets may add to a Gateway.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowedListeners {
    /// Those of which namespaces; none where absent.
    pub namespaces: Option<RouteNamespaces>,
}

/// More listeners for a Gateway.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenerSet {
    /// The Gateway.
    pub parent_ref: GatewayRef,
    /// What it adds.
    pub listeners: Vec<Listener>,
}

/// One thing that a Gateway listens on.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listener {
    /// Unique within the object.
    pub name: Arc<str>,
    /// Hosts it serves; every one where absent.
    pub hostname: Option<Arc<str>>,
    /// Port.
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP`, `UDP`, or a name of the implementation.
    pub protocol: Arc<str>,
    /// How TLS is met.
    pub tls: Option<ListenerTls>,
    /// Which routes may attach.
    #[serde(default)]
    pub allowed_routes: AllowedRoutes,
}

impl Listener {
    /// Whether its option says that TLS passes by its server name, between networks.
    ///
    /// Istio: pilot/pkg/serviceregistry/kube/conversion.go IsAutoPassthrough, 1.32.
    pub fn is_auto_passthrough(&self) -> bool {
        let option = "gateway.istio.io/listener-protocol";
        let option = self.tls.as_ref().and_then(|tls| tls.options.get(option));
        option.is_some_and(|option| &**option == "auto-passthrough")
    }

    /// Whether it meets TLS on the port for traffic between networks, which labels of its object can state.
    pub fn has_network_port(&self, labels: &Labels) -> bool {
        let port = labels
            .get("networking.istio.io/gatewayPort")
            .unwrap_or("15443");
        self.tls.is_some() && self.port.to_string() == port
    }
}

/// How a listener meets TLS.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenerTls {
    /// Whether it ends here.
    #[serde(default)]
    pub mode: TlsMode,
    /// Certificates to show.
    #[serde(default)]
    pub certificate_refs: Vec<SecretRef>,
    /// Settings of the implementation.
    #[serde(default)]
    pub options: BTreeMap<Arc<str>, Arc<str>>,
}

/// Whether TLS ends at a listener.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum TlsMode {
    /// It does.
    #[default]
    Terminate,
    /// It goes through to the backend.
    Passthrough,
}

/// Which routes may attach to a listener.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AllowedRoutes {
    /// Of which namespaces.
    #[serde(default)]
    pub namespaces: RouteNamespaces,
    /// Of which kinds; those that fit the protocol where empty.
    #[serde(default)]
    pub kinds: Vec<RouteGroupKind>,
}

/// Namespaces of which objects may attach.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteNamespaces {
    /// Which.
    pub from: Option<FromNamespaces>,
    /// Their labels, for `Selector`.
    pub selector: Option<LabelSelector>,
}

/// Which namespaces may attach; where absent, `Same` for routes and `None` for ListenerSets.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum FromNamespaces {
    /// All.
    All,
    /// Those that a selector selects.
    Selector,
    /// That of the Gateway.
    #[default]
    Same,
    /// None.
    None,
}

/// A kind of route.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteGroupKind {
    /// Group.
    #[serde(default = "group")]
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
}

/// TLS that holds for all listeners of a Gateway.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayTls {
    /// Towards backends.
    pub backend: Option<BackendTls>,
    /// Towards clients.
    pub frontend: Option<FrontendTls>,
}

/// TLS of a Gateway towards backends.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendTls {
    /// The certificate it shows to them.
    pub client_certificate_ref: Option<SecretRef>,
}

/// TLS of a Gateway towards clients.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FrontendTls {
    /// For ports without settings of their own.
    pub default: ClientTls,
    /// For single ports.
    #[serde(default)]
    pub per_port: Vec<FrontendPortTls>,
}

/// TLS towards clients of one port.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FrontendPortTls {
    /// The port.
    pub port: u16,
    /// Its settings.
    pub tls: ClientTls,
}

/// TLS towards clients.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTls {
    /// How their certificates are checked; not at all where absent.
    pub validation: Option<CertificateValidation>,
}

/// How certificates of clients are checked.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CertificateValidation {
    /// Authorities that are trusted.
    pub ca_certificate_refs: Vec<ObjectRef>,
    /// What becomes of clients without a valid one.
    #[serde(default)]
    pub mode: ValidationMode,
}

/// What becomes of clients without a valid certificate.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum ValidationMode {
    /// They are refused.
    #[default]
    AllowValidOnly,
    /// They are let in.
    AllowInsecureFallback,
}
