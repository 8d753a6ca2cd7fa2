//! The xDS types that are served, and how streams treat each: one table.

use std::fmt;

/// What a subscription without names asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nameless {
    /// Every resource of the type.
    Everything,
    /// No resource: other resources name them.
    Nothing,
}

/// When a delta client is told that a resource is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// Whenever it had it or asks for it.
    Told,
    /// Only when it asks for it.
    ToldWhenAsked,
    /// Never: what is in use must not vanish.
    NotTold,
}

/// A row of the table.
struct Row {
    url: &'static str,
    short: &'static str,
    label: &'static str,
    nameless: Nameless,
    /// Whether state-of-the-world clients drop what a response lacks.
    whole: bool,
    removal: Removal,
    /// Whether pushes wait until new clusters are ready.
    after_clusters: bool,
    /// The types whose resources name those of this one: what is gone stays with the client until they let go of it.
    named_by: &'static [TypeUrl],
}

/// What most types have.
const NAMED: Row = Row {
    url: "",
    short: "",
    label: "",
    nameless: Nameless::Nothing,
    whole: false,
    removal: Removal::Told,
    after_clusters: false,
    named_by: &[],
};

/// Declares the types, in the order of pushing, each with its row.
macro_rules! types {
    ($($(#[$doc:meta])* $name:ident: $row:expr,)*) => {
        /// A type of resource. The order is the order of pushing: clusters before their endpoints, listeners before
        /// their routes.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum TypeUrl {
            $($(#[$doc])* $name,)*
        }

        impl TypeUrl {
            /// Every type, in the order of pushing.
            pub const ALL: [TypeUrl; [$(TypeUrl::$name),*].len()] = [$(TypeUrl::$name),*];

            const fn row(self) -> &'static Row {
                match self {
                    $(TypeUrl::$name => {
                        const ROW: Row = $row;
                        &ROW
                    })*
                }
            }
        }
    };
}

types! {
    /// Clusters.
    Cluster: Row {
        url: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
        short: "CDS",
        label: "cds",
        nameless: Nameless::Everything,
        whole: true,
        named_by: &[TypeUrl::Listener, TypeUrl::Route],
        ..NAMED
    },
    /// Endpoints of EDS clusters, named after their cluster.
    Endpoint: Row {
        url: "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        short: "EDS",
        label: "eds",
        named_by: &[TypeUrl::Cluster, TypeUrl::Listener, TypeUrl::Route],
        ..NAMED
    },
    /// Listeners.
    Listener: Row {
        url: "type.googleapis.com/envoy.config.listener.v3.Listener",
        short: "LDS",
        label: "lds",
        nameless: Nameless::Everything,
        whole: true,
        after_clusters: true,
        ..NAMED
    },
    /// Route configurations, named by the listeners that use them. Envoy drops them with their listener, and logs an
    /// error if told earlier.
    Route: Row {
        url: "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        short: "RDS",
        label: "rds",
        removal: Removal::ToldWhenAsked,
        after_clusters: true,
        ..NAMED
    },
    /// TLS secrets.
    Secret: Row {
        url: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        short: "SDS",
        label: "sds",
        ..NAMED
    },
    /// Extension configurations (ECDS). Istio: pilot/pkg/xds/delta.go neverRemoveDelta, 1.32.
    Extension: Row {
        url: "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
        short: "ECDS",
        label: "ecds",
        removal: Removal::NotTold,
        ..NAMED
    },
    /// The DNS name table of Istio's agent.
    NameTable: Row {
        url: "type.googleapis.com/istio.networking.nds.v1.NameTable",
        short: "NDS",
        label: "nds",
        nameless: Nameless::Everything,
        ..NAMED
    },
    /// The roots that Istio's agent trusts.
    ProxyConfig: Row {
        url: "type.googleapis.com/istio.mesh.v1alpha1.ProxyConfig",
        short: "PCDS",
        label: "pcds",
        nameless: Nameless::Everything,
        ..NAMED
    },
}

impl TypeUrl {
    /// The URL on the wire.
    pub const fn as_str(self) -> &'static str {
        self.row().url
    }

    /// The short name for people: `CDS`, `EDS`, ...
    pub const fn short(self) -> &'static str {
        self.row().short
    }

    /// The short name as a label of metrics: `cds`, `eds`, ...
    pub const fn label(self) -> &'static str {
        self.row().label
    }

    /// Reads a URL from the wire.
    pub fn parse(url: &str) -> Option<TypeUrl> {
        TypeUrl::ALL.into_iter().find(|t| t.as_str() == url)
    }

    /// Reads a short name, in capitals or not.
    pub fn parse_short(short: &str) -> Option<TypeUrl> {
        let mut all = TypeUrl::ALL.into_iter();
        all.find(|t| t.short().eq_ignore_ascii_case(short))
    }

    /// Whether a subscription without names means every resource.
    pub fn wildcard(self) -> bool {
        self.row().nameless == Nameless::Everything
    }

    /// Whether responses in state of the world must hold all that is asked for: clients drop what they lack.
    pub const fn whole(self) -> bool {
        self.row().whole
    }

    /// When a delta client is told that a resource is gone.
    pub const fn removal(self) -> Removal {
        self.row().removal
    }

    /// Whether pushes of the type wait until new clusters are ready.
    pub const fn waits_for_clusters(self) -> bool {
        self.row().after_clusters
    }

    /// The types whose resources name those of this one: what is gone stays with the client until they let go of it.
    pub const fn named_by(self) -> &'static [TypeUrl] {
        self.row().named_by
    }
}

impl fmt::Display for TypeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::TypeUrl;

    #[test]
    fn no_two_types_share_a_name() {
        for name in [TypeUrl::as_str, TypeUrl::short, TypeUrl::label] {
            let names: BTreeSet<&str> = TypeUrl::ALL.into_iter().map(name).collect();
            assert_eq!(names.len(), TypeUrl::ALL.len());
            assert!(!names.contains(""));
        }
        for ty in TypeUrl::ALL {
            assert_eq!(TypeUrl::parse(ty.as_str()), Some(ty));
            assert_eq!(TypeUrl::parse_short(ty.label()), Some(ty));
            assert_eq!(ty.label(), ty.short().to_lowercase());
        }
    }
}
