//! Mesh networks.

use std::collections::BTreeSet;

use incr::Cx;
use model::kinds::kube::Secret;
use proto_istio::mesh::network::network_endpoints::Ne;
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::below;
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/multicluster/meshnetworks.go, 1.32.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let networks = &cx.settings().networks.networks;
    if networks.is_empty() {
        return;
    }
    let mut registries: BTreeSet<String> =
        ["Mock", "Kubernetes", "External"].map(str::to_owned).into();
    for secret in cx.list::<Secret>() {
        if secret.meta.labels.get("istio/multiCluster") == Some("true") {
            registries.extend(secret.spec.data.keys().map(ToString::to_string));
        }
    }
    for (name, network) in networks {
        for (i, endpoints) in network.endpoints.iter().enumerate() {
            let Some(Ne::FromRegistry(registry)) = &endpoints.ne else {
                continue;
            };
            if !registries.contains(registry) {
                report
                    .settings(
                        &code::UNKNOWN_REGISTRY,
                        format!("{}.endpoints[{i}].fromRegistry", below("networks", name)),
                        format!("the network {name} takes endpoints from {registry}, which is no cluster known here"),
                    )
                    .help("name the cluster as the key of its remote secret does");
            }
        }
    }
}
