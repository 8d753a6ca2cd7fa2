//! Short names of kinds, as kubectl takes them.

use super::Kind;

/// `(kind, short names)` of those that have short names.
const SHORT_NAMES: &[(Kind, &[&str])] = &[
    (Kind::DestinationRule, &["dr"]),
    (Kind::Gateway, &["gw"]),
    (Kind::ServiceEntry, &["se"]),
    (Kind::VirtualService, &["vs"]),
    (Kind::WorkloadEntry, &["we"]),
    (Kind::WorkloadGroup, &["wg"]),
    (Kind::AuthorizationPolicy, &["ap"]),
    (Kind::PeerAuthentication, &["pa"]),
    (Kind::RequestAuthentication, &["ra"]),
    (Kind::Telemetry, &["telemetry"]),
    (Kind::BackendTlsPolicy, &["btlspolicy"]),
    (Kind::GatewayClass, &["gc"]),
    (Kind::KubeGateway, &["gtw"]),
    (Kind::ListenerSet, &["lset"]),
    (Kind::ReferenceGrant, &["refgrant"]),
    (Kind::Service, &["svc"]),
    (Kind::Pod, &["po"]),
    (Kind::Node, &["no"]),
    (Kind::Namespace, &["ns"]),
    (Kind::ConfigMap, &["cm"]),
    (Kind::Ingress, &["ing"]),
    (Kind::Deployment, &["deploy"]),
    (Kind::CustomResourceDefinition, &["crd", "crds"]),
    (Kind::XBackend, &["xbackend"]),
    (Kind::XBackendTrafficPolicy, &["xbtrafficpolicy"]),
    (Kind::XMesh, &["mesh"]),
    (Kind::InferencePool, &["infpool"]),
    (Kind::ServiceExport, &["svcex"]),
    (Kind::ServiceImport, &["svcim"]),
    (Kind::KnativeIngress, &["kingress", "king"]),
];

impl Kind {
    /// The short names: `vs` of a VirtualService.
    pub fn short_names(self) -> &'static [&'static str] {
        match SHORT_NAMES.iter().find(|(kind, _)| *kind == self) {
            Some((_, names)) => names,
            None => &[],
        }
    }
}
