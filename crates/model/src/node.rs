//! A proxy as it introduces itself.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::labels::Labels;
use crate::names::{ClusterId, Namespace, Network};
use crate::service::Locality;

/// What kind of proxy asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Beside a workload.
    Sidecar,
    /// A gateway. Istio: `router`.
    Router,
    /// An ambient waypoint.
    Waypoint,
    /// The ambient node proxy.
    Ztunnel,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::Sidecar, Role::Router, Role::Waypoint, Role::Ztunnel];

    /// The first part of the id of such proxies.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Sidecar => "sidecar",
            Role::Router => "router",
            Role::Waypoint => "waypoint",
            Role::Ztunnel => "ztunnel",
        }
    }

    /// Reads the first part of an id.
    pub fn parse(text: &str) -> Option<Self> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How traffic reaches a sidecar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Interception {
    /// `REDIRECT`: iptables redirection.
    #[default]
    Redirect,
    /// `TPROXY`: transparent proxying.
    Tproxy,
    /// `NONE`: no interception; applications dial the proxy.
    None,
}

/// The Istio version a proxy states; stock Envoys state none and count as the newest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IstioVersion {
    /// Major.
    pub major: u16,
    /// Minor.
    pub minor: u16,
    /// Patch.
    pub patch: u16,
}

/// Who a proxy has proven to be.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Namespace of its service account.
    pub namespace: Namespace,
    /// Name of its service account.
    pub service_account: Arc<str>,
}

impl Identity {
    /// The identity in a token `sa:NAMESPACE:NAME`, which proves nothing: for tests alone.
    pub fn of_test_token(token: &str) -> Option<Self> {
        let (namespace, name) = token.strip_prefix("sa:")?.split_once(':')?;
        (!namespace.is_empty() && !name.is_empty()).then(|| Self {
            namespace: namespace.into(),
            service_account: name.into(),
        })
    }
}

/// What a proxy says of itself in `Node`: id `role~ip~name.namespace~dns-domain` and metadata.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// The whole id, unique per proxy.
    pub id: Arc<str>,
    /// Role.
    pub role: Role,
    /// Name of the workload instance (pod).
    pub name: Arc<str>,
    /// Namespace.
    pub namespace: Namespace,
    /// DNS domain, `shop.svc.cluster.local`.
    pub dns_domain: Arc<str>,
    /// Its addresses, the primary one first.
    pub addresses: Arc<[IpAddr]>,
    /// Labels.
    pub labels: Labels,
    /// Locality.
    pub locality: Locality,
    /// Network.
    pub network: Network,
    /// Cluster.
    pub cluster: ClusterId,
    /// The name of the service it belongs to, by its own word (`--service-cluster`).
    pub service_cluster: Arc<str>,
    /// The whole metadata, for what is read rarely.
    pub metadata: Arc<serde_json::Map<String, serde_json::Value>>,
    /// Stated version, if any.
    pub version: Option<IstioVersion>,
    /// Names of the extensions the proxy has, from `node.extensions`; `None` where the proxy does not say.
    pub extensions: Option<Arc<BTreeSet<Arc<str>>>>,
    /// Who it has proven to be; nothing it says of itself.
    pub identity: Option<Identity>,
    /// Envoy's own version from `user_agent_build_version`, if stated.
    pub envoy_version: Option<(u32, u32, u32)>,
}
