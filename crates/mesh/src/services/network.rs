//! Which network an endpoint is in.

use std::net::IpAddr;

use incr::Cx;
use ipnet::IpNet;
use model::Labels;
use model::kinds::kube::NamespaceSpec;
use model::names::{ClusterId, Network};
use model::object::ObjectName;
use proto_istio::mesh::network::network_endpoints::Ne;
use store::{Reads, Snapshot};

/// The label that names the network of a workload or of the whole cluster (on the system namespace).
pub(crate) const NETWORK_LABEL: &str = "topology.istio.io/network";

/// The network of an address in a cluster (`None` for the configured one): as its labels say, else those of the cluster's
/// system namespace, else the mesh networks. Empty is the default network.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/network.go Network, 1.32.
pub fn network_of(
    cx: &Cx<'_, Snapshot>,
    cluster: Option<&ClusterId>,
    address: &str,
    labels: &Labels,
) -> Network {
    if let Some(network) = labels.get(NETWORK_LABEL).filter(|n| !n.is_empty()) {
        return network.into();
    }
    let system = ObjectName::new("", cx.settings().system_namespace.as_str());
    let system = system.in_cluster(cluster);
    let of_system = cx
        .get::<NamespaceSpec>(&system)
        .and_then(|ns| ns.meta.labels.get(NETWORK_LABEL).map(Network::from))
        .filter(|network| !network.is_empty());
    of_system.unwrap_or_else(|| of_mesh_networks(cx, cluster, address))
}

/// The network that the cluster's registry belongs to, else the one with the widest range around the address.
fn of_mesh_networks(cx: &Cx<'_, Snapshot>, cluster: Option<&ClusterId>, address: &str) -> Network {
    let settings = cx.settings();
    let own = cluster.unwrap_or(&settings.cluster);
    let networks = &settings.networks.networks;
    let of_registry = networks.iter().find(|(_, network)| {
        network
            .endpoints
            .iter()
            .any(|e| matches!(&e.ne, Some(Ne::FromRegistry(registry)) if **own == **registry))
    });
    if let Some((name, _)) = of_registry {
        return name.as_str().into();
    }
    if networks.is_empty() {
        return Network::default();
    }
    let Ok(ip) = address.parse::<IpAddr>() else {
        return Network::default();
    };
    let ranges = networks.iter().flat_map(|(name, network)| {
        network.endpoints.iter().filter_map(move |e| match &e.ne {
            Some(Ne::FromCidr(cidr)) => Some((name, cidr.parse::<IpNet>().ok()?)),
            _ => None,
        })
    });
    ranges
        .filter(|(_, range)| range.contains(&ip))
        .min_by_key(|(_, range)| range.prefix_len())
        .map_or_else(Network::default, |(name, _)| name.as_str().into())
}
