//! Proxies as far as their listeners depend on them.

use std::net::IpAddr;
use std::sync::Arc;

use incr::Cx;
use model::labels::Labels;
use model::node::{Interception, Role};
use model::service::Resolution;
use store::{Reads, Snapshot};

use super::parts::SidePartsOf;
use super::repeated::Chains;
use super::tls::OwnFiles;
use crate::clusters::AgentDns;
use crate::grpc::GrpcWorkload;
use crate::hashed::Hashed;
use crate::routes::{RoutesOf, UnknownHosts};
use mesh::class::Class;
use mesh::gateways::{self, GatewayKey};
use mesh::label_names::Reader;
use mesh::proxy::Traits;
use mesh::proxy_options::http_proxy_port;
use mesh::reserved::Reserved;
use mesh::scope::ScopeKey;
use mesh::services::Addressing;
use mesh::view::{Families, ServiceTarget};
use policy::security::SecurityOf;
use xds::ResourceSet;

/// The metadata by which a gateway says which address its listeners bind in place of all.
const LISTEN_ADDRESS: &str = "PILOTHOUSE_LISTEN_ADDRESS";

/// Proxies that have the same listeners.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ListenersOf(pub(crate) Listens);

/// What decides the listeners of a proxy, by its role.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Listens {
    /// A sidecar, by sides. None in a mesh without a port for sidecars.
    Sidecar(Hashed<OutboundClient>, Hashed<InboundServer>),
    /// A gateway.
    Gateway(GatewayProxy),
    /// A gRPC library.
    Grpc(GrpcWorkload),
    /// Nothing is served to proxies of that kind.
    Nothing,
}

/// What decides the outbound listeners of a sidecar.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OutboundClient {
    /// What filter chains have in common.
    pub(super) parts: SidePartsOf,
    /// By which addresses it knows services.
    pub(super) addressing: Addressing,
    /// IP families.
    pub(super) families: Families,
    /// How traffic reaches it.
    pub(super) interception: Interception,
    /// Ports that listeners cannot have.
    pub(super) reserved: Reserved,
    /// The port of the listener that takes redirected traffic.
    pub(super) port: u16,
    /// DNS domain, relative to which names are short.
    pub(super) dns_domain: Arc<str>,
    /// Its labels by which DestinationRules select.
    pub(super) selectable: Labels,
    /// Its labels that matches of VirtualServices read.
    pub(super) matched: Labels,
    /// Its own address, where that is an endpoint of a service which is dialled by its endpoints' addresses.
    pub(super) own_address: Option<Arc<str>>,
    /// The port on which applications talk to it as to an HTTP proxy.
    pub(super) http_proxy: Option<u16>,
    /// What the routes of unknown hosts depend on.
    pub(super) unknown_hosts: UnknownHosts,
    /// The DNS server of its agent.
    pub(super) agent_dns: Option<AgentDns>,
}

/// What decides the inbound listeners of a sidecar.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct InboundServer {
    /// What filter chains have in common.
    pub(crate) parts: SidePartsOf,
    /// Which policies it follows.
    pub(crate) policies: SecurityOf,
    /// The service ports that its workload serves.
    pub(super) targets: Arc<[ServiceTarget]>,
    /// IP families.
    pub(super) families: Families,
    /// How traffic reaches it.
    pub(super) interception: Interception,
    /// Ports that listeners cannot have.
    pub(super) reserved: Reserved,
    /// The port of the listener that takes redirected traffic.
    pub(super) port: u16,
    /// Its addresses, where listeners are named after them.
    pub(super) addresses: Arc<[IpAddr]>,
    /// Certificates of its own.
    pub(super) files: OwnFiles,
}

/// What decides the listeners of a gateway.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct GatewayProxy {
    /// What filter chains have in common.
    pub(crate) parts: SidePartsOf,
    /// Which Gateways it serves.
    pub(crate) gateway: GatewayKey,
    /// IP families.
    pub(super) families: Families,
    /// Whether it may not bind ports below 1024.
    pub(super) unprivileged: bool,
    /// The address that its listeners bind in place of all, as it says of its machine.
    pub(super) address: Option<IpAddr>,
    /// Its labels by which DestinationRules select, and those that matches of VirtualServices read.
    pub(super) labels: Labels,
    /// Certificates of its own.
    pub(super) files: OwnFiles,
}

impl ListenersOf {
    /// What decides the listeners of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>, routes: &RoutesOf) -> Self {
        Self(match proxy.node.role {
            Role::Sidecar if proxy.is_grpc() => Listens::Grpc(GrpcWorkload::of(cx, proxy)),
            Role::Sidecar => sidecar(cx, proxy, routes),
            Role::Router => Listens::Gateway(gateway(cx, proxy)),
            Role::Waypoint | Role::Ztunnel => Listens::Nothing,
        })
    }

    /// Their listeners.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        match &self.0 {
            Listens::Sidecar(outbound, inbound) => super::of_sidecar(cx, outbound, inbound),
            Listens::Gateway(gateway) => super::of_gateway(cx, gateway),
            Listens::Grpc(workload) => workload.listeners(cx),
            Listens::Nothing => ResourceSet::default(),
        }
    }

    /// What the filter chains of each side have in common.
    pub(crate) fn parts(&self) -> Vec<&SidePartsOf> {
        match &self.0 {
            Listens::Sidecar(outbound, inbound) => vec![&inbound.parts, &outbound.parts],
            Listens::Gateway(gateway) => vec![&gateway.parts],
            Listens::Grpc(_) | Listens::Nothing => Vec::new(),
        }
    }
}

fn sidecar(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>, routes: &RoutesOf) -> Listens {
    let settings = cx.settings();
    let port = |number: i32| u16::try_from(number).unwrap_or(0);
    let outbound_port = port(settings.mesh.proxy_listen_port);
    let inbound_port = port(settings.mesh.proxy_inbound_listen_port);
    if outbound_port == 0 {
        return Listens::Nothing;
    }
    let (families, interception) = (proxy.families(), proxy.interception());
    let reserved = Reserved::of(proxy, Some([outbound_port, inbound_port]));
    let headless = |t: &ServiceTarget| t.service.resolution == Resolution::Passthrough;
    let served = proxy.targets.iter().any(headless);
    let own = proxy.node.addresses.first().filter(|_| served);
    let parts = |class, chains| SidePartsOf::of(cx, proxy, class, chains);
    let outbound = OutboundClient {
        parts: parts(Class::SidecarOutbound, Chains::Outbound),
        addressing: proxy.addressing(&settings.features),
        families,
        interception,
        reserved: reserved.clone(),
        port: outbound_port,
        dns_domain: proxy.node.dns_domain.clone(),
        selectable: proxy.labels_for(cx, Reader::DestinationRules),
        matched: proxy.labels_for(cx, Reader::VirtualServices),
        own_address: own.map(|address| address.to_string().into()),
        http_proxy: http_proxy_port(settings, proxy),
        unknown_hosts: routes.unknown_hosts(),
        agent_dns: AgentDns::of(proxy),
    };
    let inbound = InboundServer {
        parts: parts(
            Class::SidecarInbound,
            Chains::Inbound {
                targets: proxy.targets.len(),
            },
        ),
        policies: SecurityOf::of(cx, proxy),
        targets: proxy.targets.clone(),
        families,
        interception,
        reserved,
        port: inbound_port,
        addresses: proxy.own_addresses(cx),
        files: OwnFiles::of(proxy),
    };
    Listens::Sidecar(Hashed::shared(cx, outbound), Hashed::shared(cx, inbound))
}

fn gateway(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> GatewayProxy {
    let gateway = gateways::key_of(cx, proxy);
    let selectable = proxy.labels_for(cx, Reader::DestinationRules);
    let matched = proxy.labels_for(cx, Reader::VirtualServices);
    let both = selectable.iter().chain(matched.iter());
    GatewayProxy {
        parts: SidePartsOf::of(cx, proxy, Class::Gateway, Chains::Gateway(gateway.clone())),
        gateway,
        families: proxy.families(),
        unprivileged: proxy.flag("UNPRIVILEGED_POD"),
        address: proxy
            .text(LISTEN_ADDRESS)
            .and_then(|text| text.parse().ok()),
        labels: both.map(|(k, v)| (k.clone(), v.clone())).collect(),
        files: OwnFiles::of(proxy),
    }
}

impl OutboundClient {
    /// What it may see.
    pub(super) fn scope(&self) -> &ScopeKey {
        &self.parts.scope
    }
}

impl InboundServer {
    /// What it may see.
    pub(super) fn scope(&self) -> &ScopeKey {
        &self.parts.scope
    }
}
