//! Listeners of gateways: one for each port and address that their Gateways state.
//!
//! Everything that rules and Gateways decide is put into a [`Spec`] first; building and encoding it is a query of its
//! own, which a change that leaves the spec equal does not repeat.
//!
//! Istio: pilot/pkg/networking/core/gateway.go buildGatewayListeners, 1.32.

mod needs;
mod options;
mod tcp;
pub(super) mod tls;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::address::{additional, listener_name, socket, wildcards};
use mesh::capabilities::name;
use mesh::gateways::{GatewayServer, MergedGateway, PortServers, ServerPort};
use mesh::keyed::Keyed;
use mesh::limits::Budget;
use mesh::services::PoolHosts;
use mesh::virtual_service::{DestinationsOf, VirtualServicesFor};
use mesh::{gateways, limits, proxy_options};
use model::edge::{Front, Need};
use model::kinds::Kind;
use model::kinds::istio::Gateway;
use model::object::{ObjectKey, ObjectName};
use model::protocol::Protocol;
use policy::edge::{Can, FrontOf};
use policy::envoy_filter::{Context, ListenerPatches};
use policy::{edge, filters};
use proto_envoy::envoy::config::core::v3::{
    TrafficDirection, TransportSocket, UdpSocketConfig, address, socket_address,
};
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::transport_sockets::quic::v3::QuicDownstreamTransport;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
use store::{Reads, Snapshot};
use xds::{Resource, any};

use super::client::GatewayProxy;
use super::hcm::{Options, Routes};
use super::parts::SideParts;
use super::{balance, encode};
use options::Applied;

/// How long a client may take for its part of the TLS handshake.
const HANDSHAKE_SECONDS: u64 = 15;
/// The first port that a process without privileges may bind.
const FIRST_UNPRIVILEGED: u16 = 1024;

/// A gateway's listener, before it is built.
#[derive(Clone, PartialEq, Debug)]
struct Spec {
    name: String,
    bind: String,
    /// Further addresses.
    extra: Vec<&'static str>,
    port: u16,
    /// Whether it takes QUIC rather than TCP.
    quic: bool,
    /// Whether connections start with a PROXY protocol header.
    proxy_protocol: bool,
    /// How many proxies before it are trusted, where its proxy does not state it.
    trusted_proxies: u32,
    /// What options of an edge make of it.
    options: Option<Arc<Applied>>,
    chains: Vec<Chain>,
}

/// A filter chain, before it is built.
#[derive(Clone, PartialEq, Debug)]
struct Chain {
    /// The Gateway of its server, or of the first one that shares it.
    gateway: Option<ObjectName>,
    /// Server names of TLS that it takes; none, or `*` among them, is all.
    server_names: Vec<String>,
    /// ALPN that it takes; none is all.
    alpn: &'static [&'static str],
    /// TLS that ends here.
    tls: Option<DownstreamTlsContext>,
    serves: Serves,
}

#[derive(Clone, PartialEq, Debug)]
enum Serves {
    /// Requests, by a route configuration.
    Http {
        routes: Arc<str>,
        /// A name for statistics that the Gateway states.
        stat_prefix: Option<String>,
        grpc_web: bool,
        picks: bool,
        /// What routes ask of filters.
        needs: Arc<BTreeSet<Need>>,
        /// What of that, of single routes, the proxy can do.
        can: Can,
        /// The extensions that they lack; if there are any, every request is refused.
        missing: Arc<[String]>,
    },
    /// Bytes.
    Tcp {
        proxy: super::tcp::Proxy,
        /// Whether metadata of the peers is exchanged, as mesh clients do.
        exchange: bool,
        /// Whether policies are enforced here, rather than where the connection is passed on to.
        guarded: bool,
        /// The port as its Gateway states it.
        port: u16,
    },
}

/// The listeners of a gateway.
pub(super) fn listeners(
    cx: &Cx<'_, Snapshot>,
    proxy: &GatewayProxy,
    patches: &ListenerPatches,
) -> Vec<Arc<Resource>> {
    let merged = cx.query(&gateways::MergedGatewayOf(proxy.gateway.clone()));
    let Some(merged) = merged.as_ref() else {
        return Vec::new();
    };
    let parts = cx.query(&proxy.parts);
    let (needs, can, missing) = needs::of(cx, proxy);
    let (options, lost) = options::of(cx, proxy);
    let planning = Planning {
        cx,
        proxy,
        merged,
        tls: tls::Contexts::of(cx, &proxy.files, parts.tcp.capabilities),
        stat_name: &parts.tcp.cluster_stat_name,
        picks: merged.names().into_iter().any(|gateway| {
            *cx.query(&RoutesToPools(VirtualServicesFor {
                namespace: proxy.gateway.namespace.clone(),
                gateway: gateway.clone(),
            }))
        }),
        needs,
        can,
        missing,
        options,
        front: *cx.query(&FrontOf(proxy.gateway.clone())),
        budget: Cell::new(Budget::new(limits::GATEWAY_BYTES)),
        refused: RefCell::default(),
    };
    let specs = planning.specs();
    let refused = planning.refused.into_inner();
    let mut listeners: Vec<Arc<Resource>> = specs
        .into_values()
        .filter(|spec| !spec.chains.is_empty())
        .filter_map(|spec| {
            let key = GatewayListener {
                patches: patches.of_listener(Context::Gateway, &spec.name, spec.port),
                spec: Keyed::new(spec),
                parts: (*parts).clone(),
            };
            (*cx.query(&key)).clone()
        })
        .collect();
    let tells = !refused.is_empty() || !lost.is_empty();
    if let Some(first) = listeners.first_mut().filter(|_| tells) {
        // Told with a listener of the proxy, whichever: it is about all of them.
        let mut found = first.findings().to_vec();
        found.extend(lost);
        found.extend(refused.iter().map(|gateway| {
            let why = format!(
                "some of its servers have no chains for further services or server names: with those of other servers they are more than {} MiB",
                limits::GATEWAY_BYTES >> 20
            );
            limits::exceeded((Kind::Gateway, gateway), "spec.servers", why)
        }));
        *first = Arc::new(Resource::clone(first).finding(found));
    }
    listeners
}

/// Whether a gateway routes requests to services whose endpoints are picked.
///
/// Istio: pilot/pkg/config/kube/gateway/controller.go HasInferencePool, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RoutesToPools(VirtualServicesFor);

impl Query<Snapshot> for RoutesToPools {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        let pools = cx.query(&PoolHosts);
        if pools.is_empty() {
            return false;
        }
        let rules = cx.query(&self.0);
        let mut rules = rules.in_order().into_iter().flatten();
        rules.any(|rule| {
            let destinations = cx.query(&DestinationsOf {
                rule: rule.name.clone(),
                source: None,
            });
            destinations.keys().any(|host| pools.contains(host))
        })
    }
}

struct Planning<'a> {
    cx: &'a Cx<'a, Snapshot>,
    proxy: &'a GatewayProxy,
    merged: &'a MergedGateway,
    tls: tls::Contexts,
    stat_name: &'a str,
    /// Whether endpoint pickers choose where some requests go.
    picks: bool,
    /// What routes ask of filters.
    needs: Arc<BTreeSet<Need>>,
    can: Can,
    /// The extensions that they lack.
    missing: Arc<[String]>,
    /// What options of an edge make of listeners.
    options: Option<Arc<Applied>>,
    /// What stands before it.
    front: Front,
    /// What chains that pass TLS through may still weigh.
    budget: Cell<Budget>,
    /// The Gateways for whose servers that was not enough.
    refused: RefCell<BTreeSet<ObjectName>>,
}

impl Planning<'_> {
    /// Whether a server may have a further chain, whose route says so much.
    fn may_add(&self, server: &GatewayServer, bytes: usize) -> bool {
        let mut budget = self.budget.get();
        let may = budget
            .spend(bytes.saturating_add(limits::CHAIN_BYTES))
            .is_ok();
        self.budget.set(budget);
        if !may {
            self.refused.borrow_mut().insert(server.gateway.clone());
        }
        may
    }

    /// The listeners by name.
    fn specs(&self) -> BTreeMap<String, Spec> {
        let settings = self.cx.settings();
        let config = self.proxy.parts.config.or_of(&settings.mesh);
        let topology = config.gateway_topology.as_ref();
        let is_stated = topology.is_some_and(|t| t.proxy_protocol.is_some());
        let proxy_protocol = is_stated || self.front.proxy_protocol;
        let unprivileged = self.proxy.unprivileged;
        let all = wildcards(self.proxy.families);
        let mut names = tcp::Names::default();
        let mut specs: BTreeMap<String, Spec> = BTreeMap::new();
        for port in &self.merged.ports {
            if unprivileged && port.number < FIRST_UNPRIVILEGED {
                continue;
            }
            let (bind, extra) = match &*port.bind {
                "" if settings.features.dual_stack => (all[0], all[1..].to_vec()),
                "" => (all[0], Vec::new()),
                bind => (bind, Vec::new()),
            };
            let name = listener_name(bind, port.number);
            let (bind, extra) = match self.proxy.address.filter(|_| port.bind.is_empty()) {
                Some(address) => (address.to_string(), Vec::new()),
                None => (bind.to_owned(), extra),
            };
            let mut add = |quic: bool, chains: Vec<Chain>| {
                let name = match quic {
                    false => name.clone(),
                    true => format!("udp_{name}"),
                };
                let spec = specs.entry(name.clone()).or_insert_with(|| Spec {
                    name,
                    bind: bind.clone(),
                    extra: extra.clone(),
                    port: port.number,
                    quic,
                    proxy_protocol: proxy_protocol && !quic,
                    trusted_proxies: self.front.trusted_proxies,
                    options: self.options.clone(),
                    chains: Vec::new(),
                });
                spec.chains.extend(chains);
            };
            if let Some(servers) = self.merged.by_port.get(port) {
                add(false, self.chains(port, servers, &mut names));
            }
            if let Some(servers) = self.merged.quic.get(port) {
                let servers = self.servers(servers);
                add(true, servers.map(|s| self.https(s, true)).collect());
            }
        }
        specs
    }

    fn servers<'a>(&'a self, port: &'a PortServers) -> impl Iterator<Item = &'a GatewayServer> {
        port.servers
            .iter()
            .filter_map(|at| self.merged.servers.get(*at))
    }

    /// The chains of a port that takes TCP.
    fn chains(
        &self,
        port: &ServerPort,
        servers: &PortServers,
        names: &mut tcp::Names,
    ) -> Vec<Chain> {
        let protocol = Protocol::parse(&port.protocol);
        if protocol.is_http() {
            let first = self.servers(servers).next();
            return vec![Chain {
                gateway: first.map(|server| server.gateway.clone()),
                server_names: Vec::new(),
                alpn: &[],
                tls: None,
                serves: Serves::Http {
                    routes: servers.route.clone(),
                    stat_prefix: None,
                    grpc_web: protocol == Protocol::GrpcWeb,
                    picks: self.picks,
                    needs: self.needs.clone(),
                    can: self.can,
                    missing: self.missing.clone(),
                },
            }];
        }
        self.servers(servers)
            .flat_map(|server| {
                if gateways::terminates_https(&server.server) {
                    vec![self.https(server, false)]
                } else {
                    tcp::chains(self, server, port.number, names)
                }
            })
            .collect()
    }

    /// The chain of a server that ends HTTPS.
    fn https(&self, server: &GatewayServer, quic: bool) -> Chain {
        let stated = &server.server.name;
        Chain {
            gateway: Some(server.gateway.clone()),
            server_names: server.sni_hosts.clone(),
            alpn: &[],
            tls: self.tls.of_server(server, quic),
            serves: Serves::Http {
                routes: server.tls_route.clone(),
                stat_prefix: (!stated.is_empty()).then(|| stated.clone()),
                grpc_web: false,
                picks: self.picks,
                needs: self.needs.clone(),
                can: self.can,
                missing: self.missing.clone(),
            },
        }
    }
}

/// A gateway's listener, with all that it depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GatewayListener {
    spec: Arc<Keyed<Spec>>,
    parts: SideParts,
    /// Patches that may concern it.
    patches: Option<Arc<ListenerPatches>>,
}

impl Query<Snapshot> for GatewayListener {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        encode(
            self.patches.as_deref(),
            Context::Gateway,
            self.build(),
            &|at| self.whose(cx, at),
        )
    }
}

impl GatewayListener {
    /// The Gateway that the filter chain at a place was made from, or what that was made from.
    fn whose(&self, cx: &Cx<'_, Snapshot>, at: usize) -> Option<ObjectKey> {
        let name = self.spec.chains.get(at)?.gateway.as_ref()?;
        let gateway = cx.get::<Gateway>(name)?;
        let derived = gateway.meta.derived.as_ref();
        let from = derived.and_then(|derived| derived.from.first().cloned());
        Some(from.unwrap_or_else(|| gateway.key()))
    }

    fn build(&self) -> listener::Listener {
        let (spec, tcp) = (&self.spec, &self.parts.tcp);
        let mut address = socket(&spec.bind, spec.port);
        let mut further = additional(&spec.extra, spec.port);
        if spec.quic {
            speak_udp(Some(&mut address));
            for one in &mut further {
                speak_udp(one.address.as_mut());
            }
        }
        listener::Listener {
            name: spec.name.clone(),
            address: Some(address),
            additional_addresses: further,
            traffic_direction: TrafficDirection::Outbound as i32,
            max_connections_to_accept_per_socket_event: Some(1),
            per_connection_buffer_limit_bytes: match &spec.options {
                Some(stated) => Some(stated.buffer_limit()),
                None => tcp.buffer_limit,
            },
            connection_balance_config: (!spec.quic).then(|| balance(tcp)).flatten(),
            udp_listener_config: spec.quic.then(|| listener::UdpListenerConfig {
                quic_options: Some(listener::QuicProtocolOptions::default()),
                downstream_socket_config: Some(UdpSocketConfig::default()),
                ..Default::default()
            }),
            access_log: tcp.listener_log.clone(),
            listener_filters: self.listener_filters(),
            filter_chains: spec.chains.iter().map(|chain| self.chain(chain)).collect(),
            ..Default::default()
        }
    }

    fn listener_filters(&self) -> Vec<listener::ListenerFilter> {
        let spec = &self.spec;
        let mut list = Vec::new();
        // The header stands before everything else.
        if spec.proxy_protocol {
            list.push(filters::proxy_protocol());
        }
        let looks_into_tls = |c: &Chain| !c.server_names.is_empty() || c.tls.is_some();
        if !spec.quic && spec.chains.iter().any(looks_into_tls) {
            list.push(filters::tls_inspector());
        }
        list
    }

    fn chain(&self, chain: &Chain) -> listener::FilterChain {
        let transport = |context: &DownstreamTlsContext| {
            if self.spec.quic {
                quic_socket(context)
            } else {
                super::tls::socket(context)
            }
        };
        listener::FilterChain {
            filter_chain_match: chain.matching(),
            filters: self.filters(&chain.serves),
            transport_socket: chain.tls.as_ref().map(transport),
            transport_socket_connect_timeout: Some(proxy_options::seconds(HANDSHAKE_SECONDS)),
            ..Default::default()
        }
    }

    fn filters(&self, serves: &Serves) -> Vec<listener::Filter> {
        match serves {
            Serves::Http {
                routes,
                stat_prefix,
                grpc_web,
                picks,
                needs,
                can,
                missing,
            } => {
                let stated = self.spec.options.as_deref();
                let compressor = stated.and_then(Applied::compressor).into_iter();
                let servers = stated.map(Applied::servers_of_mcp);
                let options = Options {
                    stat_prefix: stat_prefix
                        .clone()
                        .unwrap_or_else(|| format!("outbound_{}", self.spec.name)),
                    stat_prefix_stated: stat_prefix.is_some(),
                    routes: Routes::Named(routes.to_string()),
                    grpc_web: *grpc_web,
                    picks: *picks,
                    // It sees the answers of all others.
                    edge: compressor
                        .chain(edge::filters(needs, *can, servers))
                        .collect(),
                    edge_first: edge::first(needs),
                    missing: missing.to_vec(),
                    keeps_forwarded: can.keeps_forwarded(),
                    hides_envoy_headers: stated.is_some_and(Applied::hides_envoy_headers),
                    http3: self.spec.quic,
                    port: self.spec.port,
                    use_remote_address: true,
                    ..Options::default()
                };
                let mut manager = self.parts.http.connection_manager(options);
                if let Some(stated) = stated {
                    stated.apply(&mut manager);
                }
                if manager.xff_num_trusted_hops == 0 {
                    manager.xff_num_trusted_hops = self.spec.trusted_proxies;
                }
                let manager = filters::network(name::HTTP_CONNECTION_MANAGER, any(&manager));
                let tcp = &self.parts.tcp;
                let of_users = tcp.security.of_users(self.spec.port);
                of_users
                    .filter(|_| !self.spec.quic)
                    .chain([manager])
                    .collect()
            }
            Serves::Tcp {
                proxy,
                exchange,
                guarded,
                port,
            } => {
                let tcp = &self.parts.tcp;
                let mut filters = Vec::new();
                filters.extend(exchange.then(|| tcp.metadata_exchange()).flatten());
                if *guarded {
                    filters.extend(tcp.security.of_port(*port));
                    filters.extend(tcp.metrics.iter().cloned());
                    filters.extend(super::tcp::terminal(tcp, proxy.clone()));
                } else {
                    let chain = super::tcp::Chain::Port(*port);
                    filters.extend(super::tcp::outbound(tcp, chain, proxy.clone()));
                }
                filters
            }
        }
    }
}

impl Chain {
    /// The connections it takes; `None` where that is all of them.
    fn matching(&self) -> Option<listener::FilterChainMatch> {
        let everybody = self.server_names.iter().any(|n| n == "*");
        let mut server_names = match everybody {
            true => Vec::new(),
            false => self.server_names.clone(),
        };
        if server_names.is_empty() && self.alpn.is_empty() {
            return None;
        }
        server_names.sort();
        Some(listener::FilterChainMatch {
            server_names,
            application_protocols: self.alpn.iter().map(|p| (*p).to_owned()).collect(),
            ..Default::default()
        })
    }
}

fn speak_udp(address: Option<&mut proto_envoy::envoy::config::core::v3::Address>) {
    if let Some(address::Address::SocketAddress(socket)) = address.and_then(|a| a.address.as_mut())
    {
        socket.protocol = socket_address::Protocol::Udp as i32;
    }
}

fn quic_socket(context: &DownstreamTlsContext) -> TransportSocket {
    use proto_envoy::envoy::config::core::v3::transport_socket::ConfigType;
    TransportSocket {
        name: name::QUIC.to_owned(),
        config_type: Some(ConfigType::TypedConfig(any(&QuicDownstreamTransport {
            downstream_tls_context: Some(context.clone()),
            ..Default::default()
        }))),
    }
}
