//! What generation knows of a proxy: proxies with equal views share every derived set.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::labels::Labels;
use model::names::{ClusterId, Namespace, Network};
use model::node::{Identity, Interception, IstioVersion, Node, Role};
use model::service::{Locality, Port, Service};
use store::Snapshot;

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
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
    /// other values as JSON. Which keys there are says [`crate::proxy`].
    pub metadata: Labels,
}

impl Hash for View {
    /// Of what tells views apart nearly always: hashing the services of every target on each look-up costs more than
    /// the rare collision.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.role, &self.namespace, &self.labels).hash(state);
        (&self.metadata, &self.addresses, self.targets.len()).hash(state);
    }
}

impl View {
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
#[derive(Clone, Debug)]
pub struct ProxyKey(pub Arc<Node>);

impl PartialEq for ProxyKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || *self.0 == *other.0
    }
}

impl Eq for ProxyKey {}

impl Hash for ProxyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

/// The view of a connected proxy. Reads the services its addresses serve, so a proxy moves to another view when they
/// change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewOf(pub ProxyKey);

impl Query<Snapshot> for ViewOf {
    type Value = Arc<View>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<View> {
        Arc::new(crate::proxy::view_of(cx, &self.0.0))
    }
}
