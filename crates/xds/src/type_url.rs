//! The xDS types that are served.

use std::fmt;

/// A type of resource. The order is the order of pushing: clusters before their endpoints, listeners before their
/// routes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TypeUrl {
    /// Clusters.
    Cluster,
    /// Endpoints of EDS clusters, named after their cluster.
    Endpoint,
    /// Listeners.
    Listener,
    /// Route configurations, named by the listeners that use them.
    Route,
    /// TLS secrets.
    Secret,
    /// Extension configurations (ECDS).
    Extension,
    /// The DNS name table of Istio's agent.
    NameTable,
}

impl TypeUrl {
    /// Every type, in the order of pushing.
    pub const ALL: [TypeUrl; 7] = [
        TypeUrl::Cluster,
        TypeUrl::Endpoint,
        TypeUrl::Listener,
        TypeUrl::Route,
        TypeUrl::Secret,
        TypeUrl::Extension,
        TypeUrl::NameTable,
    ];

    /// The URL on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            TypeUrl::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            TypeUrl::Endpoint => {
                "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
            }
            TypeUrl::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            TypeUrl::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            TypeUrl::Secret => {
                "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
            }
            TypeUrl::Extension => "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
            TypeUrl::NameTable => "type.googleapis.com/istio.networking.nds.v1.NameTable",
        }
    }

    /// The short name of metrics and debug pages: `CDS`, `EDS`, ...
    pub fn short(self) -> &'static str {
        match self {
            TypeUrl::Cluster => "CDS",
            TypeUrl::Endpoint => "EDS",
            TypeUrl::Listener => "LDS",
            TypeUrl::Route => "RDS",
            TypeUrl::Secret => "SDS",
            TypeUrl::Extension => "ECDS",
            TypeUrl::NameTable => "NDS",
        }
    }

    /// Reads a URL from the wire.
    pub fn parse(url: &str) -> Option<TypeUrl> {
        TypeUrl::ALL.into_iter().find(|t| t.as_str() == url)
    }

    /// Whether an empty subscription means every resource.
    pub fn wildcard(self) -> bool {
        matches!(
            self,
            TypeUrl::Cluster | TypeUrl::Listener | TypeUrl::NameTable
        )
    }
}

impl fmt::Display for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}
