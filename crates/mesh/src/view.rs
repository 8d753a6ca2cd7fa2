//! What is known of proxies before anything is made for them: who they are, and what their workloads serve.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use incr::keyed_hash;
use model::node::Node;
use model::service::{Port, Service};

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
    use std::collections::BTreeSet;

    use super::*;

    /// The hashes of proxies that differ in what a client can say.
    #[test]
    fn whatever_a_client_says_is_hashed() {
        const EACH: usize = 500;
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
