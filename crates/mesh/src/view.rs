//! What generation knows of a proxy: proxies with equal views share every derived set.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use incr::keyed_hash;
use model::labels::Labels;
use model::names::{ClusterId, Namespace, Network};
use model::node::{Identity, Interception, IstioVersion, Node, Role};
use model::service::{Locality, Port, Service};

/// The IP families a proxy has addresses of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Families {
    /// Has an IPv4 address.
    pub v4: bool,
    /// Has an IPv6 address.
    pub v6: bool,
}

/// A port of a service that the proxy's own workload serves.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServiceTarget {
    /// The service.
    pub service: Arc<Service>,
    /// Its port.
    pub port: Port,
    /// The port of the workload behind it.
    pub target_port: u16,
}

/// Everything about a proxy that may change what it gets, and nothing else: no id, no name, no single address
/// unless something generated depends on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Traits {
    /// Role.
    pub role: Role,
    /// Namespace of the proxy.
    pub namespace: Namespace,
    /// Labels, for selectors.
    pub labels: Labels,
    /// Locality, of the node itself or of its endpoints.
    pub locality: Locality,
    /// Network.
    pub network: Network,
    /// Cluster.
    pub cluster: ClusterId,
    /// DNS domain (`shop.svc.cluster.local`).
    pub dns_domain: Arc<str>,
    /// IP families.
    pub families: Families,
    /// How traffic reaches it.
    pub interception: Interception,
    /// Stated Istio version; `None` counts as the newest.
    pub version: Option<IstioVersion>,
    /// Extensions the proxy has; `None` where it does not say and Istio's own proxy is assumed.
    pub extensions: Option<Arc<BTreeSet<Arc<str>>>>,
    /// Its addresses, where something generated depends on them: it is not intercepted, or it serves a service without
    /// an address of its own. Else empty.
    pub addresses: Arc<[IpAddr]>,
    /// The name of the service it belongs to, by its own word; for tracing.
    pub service_cluster: Arc<str>,
    /// The service ports its workload serves, oldest service first; empty for gateways unless something needs them.
    pub targets: Arc<[ServiceTarget]>,
    /// Who its proxies have proven to be, which decides the secrets they may read.
    pub identity: Option<Identity>,
    /// Metadata keys that generation reads (`DNS_CAPTURE`, `HTTP10`, `MESH_ID`, ...) by name: texts as they are,
    /// other values as JSON. Which keys there are says `policy::proxy`.
    pub metadata: Labels,
}

/// The [`Traits`] of proxies, with their hash: a view is looked up far more often than it is made. Nothing in it can be
/// changed, so the hash stays right.
#[derive(Clone)]
pub struct View {
    traits: Traits,
    /// Over all traits, with the key of the process: whoever picks them cannot make views collide.
    hash: u64,
}

impl View {
    /// The view of proxies that are such.
    pub fn new(traits: Traits) -> Self {
        let hash = keyed_hash(&traits);
        Self { traits, hash }
    }
}

impl Deref for View {
    type Target = Traits;

    fn deref(&self) -> &Traits {
        &self.traits
    }
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.traits == other.traits
    }
}

impl Eq for View {}

impl Hash for View {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.traits.fmt(f)
    }
}

impl Traits {
    /// Whether the proxy can load the extension of that name (`istio.stats`, `envoy.filters.http.router`). Proxies
    /// that do not say are taken for Istio's own.
    pub fn has_extension(&self, name: &str) -> bool {
        self.extensions
            .as_ref()
            .is_none_or(|known| known.contains(name))
    }

    /// A metadata value: a text as it is, any other value as JSON.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key)
    }

    /// Whether a metadata value says yes: `true` or `1`, in quotes or not.
    pub fn metadata_flag(&self, key: &str) -> bool {
        matches!(
            self.metadata.get(key),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True")
        )
    }
}

/// A connected proxy as a key: equal where id and everything it said are equal.
#[derive(Clone)]
pub struct ProxyKey {
    node: Arc<Node>,
    /// Over all that it said, with the key of the process.
    hash: u64,
}

impl ProxyKey {
    /// The key of a proxy. Hashes all that it said: make it once, and keep it.
    pub fn new(node: Arc<Node>) -> Self {
        let hash = keyed_hash(&*node);
        Self { node, hash }
    }

    /// What the proxy said of itself.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl PartialEq for ProxyKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node) || self.hash == other.hash && self.node == other.node
    }
}

impl Eq for ProxyKey {}

impl Hash for ProxyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for ProxyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyKey").field(&self.node).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits() -> Traits {
        Traits {
            role: Role::Sidecar,
            namespace: "shop".into(),
            labels: Labels::default(),
            locality: Locality::default(),
            network: "".into(),
            cluster: "".into(),
            dns_domain: "shop.svc.cluster.local".into(),
            families: Families::default(),
            interception: Interception::default(),
            version: None,
            extensions: None,
            addresses: Arc::from([]),
            service_cluster: "".into(),
            targets: Arc::from([]),
            identity: None,
            metadata: Labels::default(),
        }
    }

    /// The hashes of views and of as many proxies that differ in what a client can say in any number of ways.
    #[test]
    fn whatever_a_client_says_is_hashed() {
        const EACH: usize = 500;
        let mut views = Vec::new();
        for n in 0..EACH {
            let text = format!("x{n}");
            let with = |change: &dyn Fn(&mut Traits)| {
                let mut traits = traits();
                change(&mut traits);
                View::new(traits)
            };
            views.extend([
                with(&|t| t.service_cluster = text.as_str().into()),
                with(&|t| t.dns_domain = text.as_str().into()),
                with(&|t| t.network = text.as_str().into()),
                with(&|t| t.cluster = text.as_str().into()),
                with(&|t| t.locality.region = text.as_str().into()),
                with(&|t| t.extensions = Some(Arc::new([text.as_str().into()].into()))),
                with(&|t| {
                    t.version = Some(IstioVersion {
                        major: 1,
                        minor: 1,
                        patch: n as u16,
                    });
                }),
            ]);
        }
        let hashes: BTreeSet<u64> = views.iter().map(|v| v.hash).collect();
        assert_eq!(hashes.len(), views.len());

        let node = |n: usize| {
            let fields = [(
                "KEY".to_owned(),
                prost_types::Value {
                    kind: Some(prost_types::value::Kind::NumberValue(n as f64)),
                },
            )];
            crate::node::from_envoy(&proto_envoy::envoy::config::core::v3::Node {
                id: "sidecar~10.0.0.1~a.shop~shop.svc.cluster.local".into(),
                metadata: Some(prost_types::Struct {
                    fields: fields.into(),
                }),
                ..Default::default()
            })
        };
        let keys = (0..EACH).map(|n| ProxyKey::new(Arc::new(node(n).unwrap())));
        let hashes: BTreeSet<u64> = keys.map(|k| k.hash).collect();
        assert_eq!(hashes.len(), EACH);
    }
}
