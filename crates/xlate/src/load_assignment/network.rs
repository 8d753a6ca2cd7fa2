//! Other networks: their gateways stand for the endpoints behind them.
//!
//! Istio: pilot/pkg/model/network.go and pilot/pkg/xds/endpoints/ep_filters.go, 1.32.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::network_gateways::{NetworkGateway, NetworkGateways};
use model::names::{ClusterId, Network};
use store::Snapshot;

use super::client::EndpointClient;
use super::groups::{Group, Member, Target};

/// Gateways of other networks, ready to be asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NetworkWays;

/// What there is of gateways for clusters of either kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gateways {
    /// Those with an IP address, for endpoints that are sent by themselves.
    resolved: GatewaySet,
    /// All of them, for clusters that resolve names.
    named: GatewaySet,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct GatewaySet {
    all: Vec<NetworkGateway>,
    /// What weights are multiplied with, so that they can be divided among the gateways of any network.
    scale: u32,
}

impl Query<Snapshot> for NetworkWays {
    type Value = Arc<Gateways>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Gateways> {
        let gateways = cx.query(&NetworkGateways);
        Arc::new(Gateways {
            resolved: GatewaySet::new(gateways.resolved.clone()),
            named: GatewaySet::new(gateways.named.clone()),
        })
    }
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
    fn new(all: Vec<NetworkGateway>) -> Self {
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
    fn of(&self, network: &Network, cluster: &ClusterId) -> Vec<&NetworkGateway> {
        let of_network = self.all.iter().filter(|g| g.network == *network);
        let near: Vec<&NetworkGateway> = of_network
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
        let mut shares: BTreeMap<&'a NetworkGateway, u32> = BTreeMap::new();
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
fn reachable(client: &EndpointClient, gateway: &NetworkGateway) -> bool {
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
