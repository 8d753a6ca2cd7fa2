//! The kinds that travel as MCP resources: how each is spelled on the wire, and what message its spec is.

use std::fmt;

use model::kinds::Kind;

/// The type of the mesh configuration. Its only resource is the message itself, without an envelope and without a name.
pub const MESH_CONFIG: &str = "core/v1alpha1/MeshConfig";

/// The message of the mesh configuration.
pub const MESH_CONFIG_MESSAGE: &str = "istio.mesh.v1alpha1.MeshConfig";

/// What the spec of a kind of the Gateway API is: JSON as a message.
pub(crate) const JSON: &str = "google.protobuf.Struct";

/// Each kind that travels, with the message that its spec is. Istio's kinds come first: the types that istiod's own client
/// asks for.
const KINDS: &[(Kind, &str)] = &[
    (
        Kind::AuthorizationPolicy,
        "istio.security.v1beta1.AuthorizationPolicy",
    ),
    (
        Kind::DestinationRule,
        "istio.networking.v1alpha3.DestinationRule",
    ),
    (Kind::EnvoyFilter, "istio.networking.v1alpha3.EnvoyFilter"),
    (Kind::Gateway, "istio.networking.v1alpha3.Gateway"),
    (
        Kind::PeerAuthentication,
        "istio.security.v1beta1.PeerAuthentication",
    ),
    (Kind::ProxyConfig, "istio.networking.v1beta1.ProxyConfig"),
    (
        Kind::RequestAuthentication,
        "istio.security.v1beta1.RequestAuthentication",
    ),
    (Kind::ServiceEntry, "istio.networking.v1alpha3.ServiceEntry"),
    (Kind::Sidecar, "istio.networking.v1alpha3.Sidecar"),
    (Kind::Telemetry, "istio.telemetry.v1alpha1.Telemetry"),
    (
        Kind::TrafficExtension,
        "istio.extensions.v1alpha1.TrafficExtension",
    ),
    (
        Kind::VirtualService,
        "istio.networking.v1alpha3.VirtualService",
    ),
    (Kind::WasmPlugin, "istio.extensions.v1alpha1.WasmPlugin"),
    (
        Kind::WorkloadEntry,
        "istio.networking.v1alpha3.WorkloadEntry",
    ),
    (
        Kind::WorkloadGroup,
        "istio.networking.v1alpha3.WorkloadGroup",
    ),
    (Kind::GatewayClass, JSON),
    (Kind::KubeGateway, JSON),
    (Kind::ListenerSet, JSON),
    (Kind::HttpRoute, JSON),
    (Kind::GrpcRoute, JSON),
    (Kind::TlsRoute, JSON),
    (Kind::TcpRoute, JSON),
    (Kind::UdpRoute, JSON),
    (Kind::ReferenceGrant, JSON),
    (Kind::BackendTlsPolicy, JSON),
];

/// A type of MCP resources: a kind in one of its versions. All versions of a kind mean the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Spelling {
    /// The kind.
    pub kind: Kind,
    /// One of [`Kind::versions`].
    pub version: &'static str,
}

impl Spelling {
    /// The type that istiod has for a kind: its preferred version.
    pub fn preferred(kind: Kind) -> Self {
        Self {
            kind,
            version: kind.versions()[0],
        }
    }

    /// Reads a type from the wire; `None` where no resource of it travels.
    pub fn parse(type_url: &str) -> Option<Self> {
        let mut parts = type_url.splitn(3, '/');
        let (group, version, name) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = Kind::find(group, name)?;
        message(kind)?;
        let mut versions = kind.versions().iter();
        let version = *versions.find(|known| **known == version)?;
        Some(Self { kind, version })
    }

    /// Whether the version is the preferred one of the kind.
    pub fn is_preferred(self) -> bool {
        self == Self::preferred(self.kind)
    }

    /// The message that the spec of an object is.
    pub fn message(self) -> Option<&'static str> {
        message(self.kind)
    }
}

impl fmt::Display for Spelling {
    /// The type on the wire.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, version } = self;
        write!(f, "{}/{version}/{}", kind.group(), kind.name())
    }
}

/// The kinds that travel, Istio's first.
pub fn all() -> impl Iterator<Item = Kind> {
    KINDS.iter().map(|(kind, _)| *kind)
}

/// The kinds that a stock istiod asks its sources for.
pub fn of_istio() -> impl Iterator<Item = Kind> {
    let istio = KINDS.iter().filter(|(_, message)| *message != JSON);
    istio.map(|(kind, _)| *kind)
}

/// The message that the spec of a kind is; `None` for kinds that do not travel, Secrets among them.
pub fn message(kind: Kind) -> Option<&'static str> {
    let mut rows = KINDS.iter();
    rows.find(|row| row.0 == kind).map(|row| row.1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{KINDS, MESH_CONFIG_MESSAGE, Spelling, all, of_istio};

    #[test]
    fn every_spelling_is_read_as_it_is_written() {
        for kind in all() {
            for version in kind.versions() {
                let spelling = Spelling { kind, version };
                assert_eq!(Spelling::parse(&spelling.to_string()), Some(spelling));
            }
            assert!(Spelling::preferred(kind).is_preferred());
        }
        assert_eq!(
            all().collect::<BTreeSet<_>>().len(),
            KINDS.len(),
            "no kind stands twice"
        );
    }

    #[test]
    fn what_does_not_travel_has_no_spelling() {
        for type_url in [
            "",
            "networking.istio.io/v1",
            "networking.istio.io/v9/VirtualService",
            "networking.istio.io/v1/VirtualService/",
            "networking.istio.io/v1/HTTPRoute",
            "core/v1alpha1/MeshConfig",
            "/v1/Secret",
            "extensions.higress.io/v1alpha1/WasmPlugin",
            "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        ] {
            assert_eq!(Spelling::parse(type_url), None, "{type_url}");
        }
    }

    #[test]
    fn every_message_is_known() {
        let messages = KINDS.iter().map(|row| row.1).chain([MESH_CONFIG_MESSAGE]);
        for message in messages {
            let known = proto_istio::descriptors().get_message_by_name(message);
            assert!(known.is_some(), "{message}");
        }
        assert_eq!(of_istio().count(), 15);
    }
}
