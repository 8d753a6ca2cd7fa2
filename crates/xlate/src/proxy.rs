//! From what a proxy says of itself to its view.

use std::sync::Arc;

use incr::Cx;
use model::node::Node;
use store::Snapshot;

use crate::view::{Families, View};

/// The view of a proxy.
pub fn view_of(cx: &Cx<'_, Snapshot>, node: &Node) -> View {
    let _ = cx;
    View {
        role: node.role,
        namespace: node.namespace.clone(),
        labels: node.labels.clone(),
        locality: node.locality.clone(),
        network: node.network.clone(),
        cluster: node.cluster.clone(),
        dns_domain: node.dns_domain.clone(),
        families: Families {
            v4: node.addresses.iter().any(|a| a.is_ipv4()),
            v6: node.addresses.iter().any(|a| a.is_ipv6()),
        },
        interception: Default::default(),
        version: node.version,
        extensions: node.extensions.clone(),
        targets: Arc::from([]),
        metadata: Default::default(),
    }
}
