//! Other networks: their gateways stand for the endpoints behind them.
//!
//! Istio: pilot/pkg/model/network.go and pilot/pkg/xds/endpoints/ep_filters.go, 1.32.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::kube;
use model::names::{ClusterId, Network};
use model::object::ObjectName;
use proto_istio::mesh::network::NetworkEndpoints;
use proto_istio::mesh::network::istio_network_gateway::Gw;
use proto_istio::mesh::network::network_endpoints::Ne;
use store::index::NETWORK_GATEWAY;
use store::{ObjectIndex, Reads, Snapshot};

use super::client::EndpointClient;
use super::groups::{Group, Member, Target};
use super::locality::PLACE;
use mesh::services::{KubeService, name_of};

/// The label that names the port of a gateway between networks.
const GATEWAY_PORT: &str = "networking.istio.io/gatewayPort";
const DEFAULT_PORT: u16 = 15443;

/// Where another network is entered. Ordered as Istio orders gateways: by address, then port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Gateway {
    /// IP address or name.
    pub address: Arc<str>,
    /// Its port for mutual TLS.
    pub port: u16,
    /// The network behind it.
    pub network: Network,
    /// Its cluster; empty where it is not known.
    pub cluster: ClusterId,
}

/// Every gateway of every network.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NetworkGateways;

/// Gateways, ready to be asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gateways {
    /// Those with an IP address, for endpoints that are sent by themselves.
    resolved: GatewaySet,
    /// All of them, for clusters that resolve names.
    named: GatewaySet,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct GatewaySet {
    all: Vec<Gateway>,
    /// What weights are multiplied with, so that they can be divided among the gateways of any network.
    scale: u32,
}

impl Query<Snapshot> for NetworkGateways {
    type Value = Arc<Gateways>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Gateways> {
        let mut all = Vec::new();
        for (network, spec) in &cx.settings().networks.networks {
            for gateway in &spec.gateways {
                if let Some(Gw::Address(address)) = &gateway.gw
                    && !address.is_empty()
                {
                    all.push(Gateway {
                        address: address.as_str().into(),
                        port: u16::try_from(gateway.port).unwrap_or_default(),
                        network: network.as_str().into(),
                        cluster: ClusterId::default(),
                    });
                }
            }
        }
        all.extend(of_services(cx));
        all.sort();
        all.dedup();
        let is_ip = |g: &&Gateway| g.address.parse::<IpAddr>().is_ok();
        let resolved = all.iter().filter(is_ip).cloned().collect();
        Arc::new(Gateways {
            resolved: GatewaySet::new(resolved),
            named: GatewaySet::new(all),
        })
    }
}

/// Gateways that Kubernetes services are, by their label or because the mesh networks name them.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/network.go extractGatewaysInner, 1.32.
fn of_services(cx: &Cx<'_, Snapshot>) -> Vec<Gateway> {
    let settings = cx.settings();
    let mut found = Vec::new();
    let mut add = |name: ObjectName, stated: Option<(Network, u16)>| {
        let Some(service) = (*cx.query(&KubeService(name))).clone() else {
            return;
        };
        let of_label = service.labels.get(PLACE[3]).filter(|n| !n.is_empty());
        let (network, port) = match (of_label, stated) {
            (Some(network), _) => {
                let port = service
                    .labels
                    .get(GATEWAY_PORT)
                    .and_then(|p| p.parse().ok());
                let port = port.unwrap_or(DEFAULT_PORT);
                if service.ports.iter().all(|p| p.number != port) {
                    return;
                }
                (Network::from(network), port)
            }
            (None, Some(stated)) => stated,
            (None, None) => return,
        };
        let of_cluster = service.kube.external_ports.iter();
        let node_port = of_cluster
            .filter(|(cluster, _)| *cluster == settings.cluster)
            .flat_map(|(_, ports)| ports.iter())
            .find_map(|(own, node)| (*own == port).then_some(*node));
        let addresses = service.kube.external_addresses.iter();
        let addresses = addresses
            .filter(|(cluster, _)| *cluster == settings.cluster)
            .flat_map(|(_, addresses)| addresses.iter());
        found.extend(addresses.map(|address| Gateway {
            address: address.clone(),
            port: node_port.unwrap_or(port),
            network: network.clone(),
            cluster: settings.cluster.clone(),
        }));
    };
    let mut labelled = cx.names_by::<kube::Service>(ObjectIndex::Label, NETWORK_GATEWAY);
    labelled.dedup_by(|b, a| a.is_namesake(b));
    for name in &labelled {
        add(name.clone(), None);
    }
    for (network, spec) in &settings.networks.networks {
        let own = |e: &NetworkEndpoints| matches!(&e.ne, Some(Ne::FromRegistry(cluster)) if *settings.cluster == **cluster);
        if !spec.endpoints.iter().any(own) {
            continue;
        }
        for gateway in &spec.gateways {
            let Some(Gw::RegistryServiceName(host)) = &gateway.gw else {
                continue;
            };
            let port = u16::try_from(gateway.port).unwrap_or_default();
            let name = name_of(host, &settings.domain);
            if let Some(name) = name.filter(|n| !labelled.iter().any(|l| l.is_namesake(n))) {
                add(name, Some((network.as_str().into(), port)));
            }
        }
    }
    found
}

impl Gateways {
    fn set(&self, resolved: bool) -> &GatewaySet {
        if resolved {
            &self.resolved
        } else {
            &self.named
        }
    }

    /// Whether there are other networks that can be entered.
    pub(crate) fn any(&self, resolved: bool) -> bool {
        !self.set(resolved).all.is_empty()
    }
}

impl GatewaySet {
    fn new(all: Vec<Gateway>) -> Self {
        let mut counts: BTreeMap<(&Network, Option<&ClusterId>), u32> = BTreeMap::new();
        for gateway in &all {
            for cluster in [None, Some(&gateway.cluster)] {
                *counts.entry((&gateway.network, cluster)).or_default() += 1;
            }
        }
        let scale = counts.values().fold(1, |a, b| a / gcd(a, *b) * b);
        Self { all, scale }
    }

    /// The gateways for an endpoint: those of its network and cluster, else those of its network.
    fn of(&self, network: &Network, cluster: &ClusterId) -> Vec<&Gateway> {
        let of_network = self.all.iter().filter(|g| g.network == *network);
        let near: Vec<&Gateway> = of_network
            .clone()
            .filter(|g| g.cluster == *cluster)
            .collect();
        if near.is_empty() {
            of_network.collect()
        } else {
            near
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether the proxy is in that network, or either of them is not known.
pub(super) fn in_network(client: &EndpointClient, network: &Network) -> bool {
    client.network.is_empty() || network.is_empty() || client.network == *network
}

/// Replaces endpoints of other networks by the gateways of those; `resolved` leaves out gateways known by name only,
/// which clusters that resolve names can use.
///
/// Istio: EndpointsByNetworkFilter.
pub(super) fn split_horizon<'a>(
    groups: Vec<Group<'a>>,
    gateways: &'a Gateways,
    client: &EndpointClient,
    resolved: bool,
) -> Vec<Group<'a>> {
    let gateways = gateways.set(resolved);
    if gateways.all.is_empty() {
        return groups;
    }
    let split = |mut group: Group<'a>| {
        let mut direct = Vec::new();
        let mut shares: BTreeMap<&'a Gateway, u32> = BTreeMap::new();
        for mut member in group.members {
            let Target::Workload(endpoint) = member.target else {
                continue;
            };
            let network = &endpoint.network;
            let mut ways = gateways.of(network, &endpoint.cluster);
            if client.sidecar {
                ways.retain(|g| g.port != 0);
            }
            member.weight = member.weight.max(1).saturating_mul(gateways.scale);
            // A proxy that does not say its network still enters others through their gateways.
            let forced = client.network.is_empty() && !network.is_empty() && !ways.is_empty();
            if !forced && (in_network(client, network) || ways.is_empty()) {
                if !endpoint.address.primary().is_empty() {
                    direct.push(member);
                }
                continue;
            }
            ways.retain(|g| reachable(client, g));
            // Gateways find the service by SNI, which only mutual TLS carries.
            if ways.is_empty() || !member.mutual_tls {
                continue;
            }
            let count = u32::try_from(ways.len()).unwrap_or(u32::MAX);
            for gateway in ways {
                *shares.entry(gateway).or_default() += member.weight / count;
            }
        }
        group.members = direct;
        group
            .members
            .extend(shares.into_iter().map(|(gateway, weight)| Member {
                target: Target::Gateway(gateway),
                weight: weight.max(1),
                mutual_tls: true,
                all_addresses: false,
            }));
        group.weigh();
        group
    };
    groups.into_iter().map(split).collect()
}

/// Istio: filterGatewaysByIPFamily.
fn reachable(client: &EndpointClient, gateway: &Gateway) -> bool {
    let families = client.families;
    if families.v4 == families.v6 {
        return true;
    }
    match gateway.address.parse::<IpAddr>().map(|a| a.to_canonical()) {
        Ok(IpAddr::V4(_)) => families.v4,
        Ok(IpAddr::V6(_)) => families.v6,
        Err(_) => false,
    }
}
