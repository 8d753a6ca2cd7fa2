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
        interception: crate::node::interception(node),
        version: node.version,
        extensions: node.extensions.clone(),
        targets: Arc::from([]),
        metadata: metadata(node),
    }
}

/// Metadata that differs from proxy to proxy without any effect on what is generated.
const OF_ONE_PROXY: &[&str] = &[
    "NAME",
    "INSTANCE_IPS",
    "LABELS",
    "NAMESPACE",
    "OWNER",
    "APP_CONTAINERS",
    "POD_PORTS",
    "PLATFORM_METADATA",
    "ISTIO_PROXY_SHA",
    "WORKLOAD_NAME",
    "ANNOTATIONS",
];

fn metadata(node: &Node) -> model::Labels {
    node.metadata
        .iter()
        .filter(|(key, _)| !OF_ONE_PROXY.contains(&key.as_str()))
        .map(|(key, value)| {
            (
                key.as_str(),
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
            )
        })
        .collect()
}
