//! Gateways between networks: where the workloads of another network are reached.
//!
//! A gateway known by name is one for clusters that resolve names themselves; for the rest it is as many as the name has
//! addresses. Those are looked up outside: [`WantedAddresses`] says which, and what came is a row of the snapshot.
//!
//! Istio: pilot/pkg/model/network.go and pilot/pkg/serviceregistry/kube/controller/network.go, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::gateway_api;
use model::kinds::kube;
use model::names::{ClusterId, Network};
use model::object::{Object, ObjectName};
use model::special::is_special_host;
use proto_istio::mesh::network::istio_network_gateway::Gw;
use proto_istio::mesh::network::network_endpoints::Ne;
use store::index::NETWORK_GATEWAY;
use store::{ObjectIndex, Reads, Snapshot};

use crate::machine;
use crate::services::kube::{external_addresses, external_ports, name_of};
use crate::services::network::NETWORK_LABEL;

/// The label that names the port of a gateway between networks.
const GATEWAY_PORT: &str = "networking.istio.io/gatewayPort";
const DEFAULT_PORT: u16 = 15443;

/// Where another network is entered. Ordered as Istio orders gateways: by address, then port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NetworkGateway {
    /// IP address or name.
    pub address: Arc<str>,
    /// Its port for mutual TLS.
    pub port: u16,
    /// The network behind it.
    pub network: Network,
    /// Its cluster; empty where it is not known.
    pub cluster: ClusterId,
}

impl NetworkGateway {
    /// Its IP address, where it is known by that.
    fn ip(&self) -> Option<IpAddr> {
        self.address.parse().ok()
    }
}

/// Every gateway of every network.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NetworkGateways;

/// Gateways, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gateways {
    /// By IP address, for endpoints that are sent by themselves; of those known by name, the addresses of these.
    pub resolved: Vec<NetworkGateway>,
    /// As they are known, for clusters that resolve names.
    pub named: Vec<NetworkGateway>,
}

impl Query<Snapshot> for NetworkGateways {
    type Value = Arc<Gateways>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Gateways> {
        let named = cx.query(&Declared);
        let resolves = cx.settings().features.resolve_hostname_gateways;
        let mut resolved = BTreeSet::new();
        for gateway in named.iter() {
            if gateway.ip().is_some() {
                resolved.insert(gateway.clone());
            } else if resolves && let Some(addresses) = cx.addresses(&gateway.address) {
                resolved.extend(addresses.iter().map(|address| NetworkGateway {
                    address: Arc::from(address.to_string()),
                    ..gateway.clone()
                }));
            }
        }
        Arc::new(Gateways {
            resolved: resolved.into_iter().collect(),
            named: named.to_vec(),
        })
    }
}

/// The names of gateways whose addresses are to be looked up.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WantedAddresses;

impl Query<Snapshot> for WantedAddresses {
    type Value = Arc<BTreeSet<Arc<str>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        if !cx.settings().features.resolve_hostname_gateways {
            return Arc::default();
        }
        let declared = cx.query(&Declared);
        let names = declared.iter().filter(|g| g.ip().is_none());
        Arc::new(names.map(|g| g.address.clone()).collect())
    }
}

/// Gateways as they are declared, by address or by name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Declared;

impl Query<Snapshot> for Declared {
    type Value = Arc<[NetworkGateway]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut all = BTreeSet::new();
        of_mesh_networks(cx, &mut all);
        of_services(cx, &mut all);
        if cx.settings().features.gateway_api_network_gateways {
            for gateway in cx.list_by::<gateway_api::Gateway>(ObjectIndex::Label, NETWORK_GATEWAY) {
                of_gateway(cx, &gateway, &mut all);
            }
        }
        all.into_iter().collect()
    }
}

/// Those that the mesh networks give an address.
fn of_mesh_networks(cx: &Cx<'_, Snapshot>, all: &mut BTreeSet<NetworkGateway>) {
    for (network, spec) in &cx.settings().networks.networks {
        for gateway in &spec.gateways {
            if let Some(Gw::Address(address)) = &gateway.gw
                && !address.is_empty()
            {
                all.insert(NetworkGateway {
                    address: address.as_str().into(),
                    port: u16::try_from(gateway.port).unwrap_or_default(),
                    network: network.as_str().into(),
                    cluster: ClusterId::default(),
                });
            }
        }
    }
}

/// Those that Services of any cluster are, by their label or because the mesh networks name them.
fn of_services(cx: &Cx<'_, Snapshot>, all: &mut BTreeSet<NetworkGateway>) {
    for service in cx.list_by::<kube::Service>(ObjectIndex::Label, NETWORK_GATEWAY) {
        if let Some((network, port)) = stated(&service) {
            of_service(cx, &service, &network, port, all);
        }
    }
    for (name, ways) in &named_services(cx) {
        for service in cx.namesakes::<kube::Service>(name) {
            // What a Service says of itself counts more than what is said of it.
            if label(&service.meta.labels, NETWORK_LABEL).is_some() {
                continue;
            }
            let cluster = cx.settings().cluster_of(&service.meta.name);
            for (_, network, port) in ways.iter().filter(|(of, ..)| of == cluster) {
                of_service(cx, &service, network, *port, all);
            }
        }
    }
}

/// The Services that the mesh networks name as gateways: of which cluster, for which network, at which port.
fn named_services(cx: &Cx<'_, Snapshot>) -> BTreeMap<ObjectName, Vec<(ClusterId, Network, u16)>> {
    let settings = cx.settings();
    let mut named: BTreeMap<ObjectName, Vec<_>> = BTreeMap::new();
    for (network, spec) in &settings.networks.networks {
        let clusters: BTreeSet<ClusterId> = spec
            .endpoints
            .iter()
            .filter_map(|e| match &e.ne {
                Some(Ne::FromRegistry(cluster)) => Some(cluster.as_str().into()),
                _ => None,
            })
            .collect();
        for gateway in &spec.gateways {
            let Some(Gw::RegistryServiceName(host)) = &gateway.gw else {
                continue;
            };
            let Some(name) = name_of(host, &settings.domain) else {
                continue;
            };
            let port = u16::try_from(gateway.port).unwrap_or_default();
            let ways = clusters
                .iter()
                .map(|cluster| (cluster.clone(), network.as_str().into(), port));
            named.entry(name).or_default().extend(ways);
        }
    }
    named
}

/// The network and port that the labels of a Service state; `None` where they state none, or a port that it has not.
fn stated(service: &Object<kube::Service>) -> Option<(Network, u16)> {
    let labels = &service.meta.labels;
    let network = label(labels, NETWORK_LABEL)?;
    let port = label(labels, GATEWAY_PORT).and_then(|p| p.parse().ok());
    let port = port.unwrap_or(DEFAULT_PORT);
    let listens = service.spec.ports.iter().any(|p| p.port == i32::from(port));
    listens.then(|| (network.into(), port))
}

/// A Service as a gateway: at each of its addresses outside of the cluster, at the port of the nodes where it is reached
/// at those.
fn of_service(
    cx: &Cx<'_, Snapshot>,
    service: &Object<kube::Service>,
    network: &Network,
    port: u16,
    all: &mut BTreeSet<NetworkGateway>,
) {
    let node_ports = external_ports(service);
    let node_port = node_ports.iter().find(|(own, _)| *own == port);
    let gateway = |address| NetworkGateway {
        address,
        port: node_port.map_or(port, |(_, node)| *node),
        network: network.clone(),
        cluster: cx.settings().cluster_of(&service.meta.name).clone(),
    };
    let mut addresses = external_addresses(cx, service);
    if !machine::allows(&cx.settings().features, service.namespace()) {
        addresses.retain(|address| !is_special_host(address));
    }
    all.extend(addresses.into_iter().map(gateway));
}

/// A Gateway of the Gateway API that is labelled with a network: at each address that it asks for, its listeners that let
/// TLS pass by server name.
fn of_gateway(
    cx: &Cx<'_, Snapshot>,
    gateway: &Object<gateway_api::Gateway>,
    all: &mut BTreeSet<NetworkGateway>,
) {
    let (name, spec) = (&gateway.meta.name, &gateway.spec);
    // A remote cluster's reference to a gateway that is elsewhere.
    if name.cluster.is_some() && &*spec.gateway_class_name == "istio-remote" {
        return;
    }
    let Some(network) = label(&gateway.meta.labels, NETWORK_LABEL) else {
        return;
    };
    let known = |kind: &str| matches!(kind, "IPAddress" | "Hostname");
    let addresses = spec.addresses.iter().filter(|a| known(&a.address_type));
    let allowed = machine::allows(&cx.settings().features, &name.namespace);
    let addresses = addresses.filter_map(|a| a.value.as_ref());
    for address in addresses.filter(|address| allowed || !is_special_host(address)) {
        let labels = &gateway.meta.labels;
        let listeners = spec.listeners.iter();
        for listener in listeners.filter(|l| l.is_auto_passthrough() || l.has_network_port(labels))
        {
            all.insert(NetworkGateway {
                address: address.clone(),
                port: listener.port,
                network: network.into(),
                cluster: cx.settings().cluster_of(name).clone(),
            });
        }
    }
}

/// A label that is not empty.
fn label<'a>(labels: &'a model::Labels, key: &str) -> Option<&'a str> {
    labels.get(key).filter(|value| !value.is_empty())
}
