//! Inbound listeners of sidecars: one for all redirected traffic, and real ones where nothing is redirected.
//!
//! Istio: pilot/pkg/networking/core/listener_inbound.go, 1.32.

mod inspectors;
pub mod matching;
mod ports;
mod route;

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::address::{additional, listener_name, socket, wildcards};
use mesh::class::{Handling, handling};
use mesh::cluster_names;
use mesh::keyed::Keyed;
use mesh::scope::ScopeOf;
use model::node::Interception;
use policy::envoy_filter::{Context, ListenerPatches, RoutePatches, RoutePatchesOf};
use policy::{authn, envoy_filter};
use ports::PortChain;
use proto_envoy::envoy::config::core::v3::TrafficDirection;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::config::route::v3::RetryPolicy;
use store::{Reads, Snapshot};
use xds::Resource;

use super::ServedPort;
use super::client::InboundServer;
use super::hcm::{HttpParts, Options, Routes};
use super::parts::{SideParts, TcpParts};
use super::tcp::{Policy, Upstream};
use super::tls::MutualTls;
use super::{added, config_metadata, encode, patches, plain_http, tcp};
use crate::hashed::Hashed;
use crate::routes::retry;

/// Name of the listener that takes all redirected traffic.
pub const VIRTUAL_INBOUND: &str = "virtualInbound";
const BLACK_HOLE_CHAIN: &str = "virtualInbound-blackhole";
const CATCH_ALL_HTTP_CHAIN: &str = "virtualInbound-catchall-http";

/// The inbound listeners of sidecars, and those that patches add to either side.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Listeners(pub(super) Hashed<InboundServer>);

impl Query<Snapshot> for Listeners {
    type Value = Vec<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let proxy = &*self.0;
        let patches = patches(cx, &proxy.parts);
        let mut found = listeners(cx, proxy, &patches);
        found.extend(added(&patches, Context::SidecarInbound));
        found.extend(added(&patches, Context::SidecarOutbound));
        found
    }
}

fn listeners(
    cx: &Cx<'_, Snapshot>,
    proxy: &InboundServer,
    patches: &ListenerPatches,
) -> Vec<Arc<Resource>> {
    let parts = cx.query(&proxy.parts);
    let mesh = &cx.settings().mesh;
    let tls = parts
        .tcp
        .capabilities
        .certificates
        .is_any()
        .then(|| Keyed::new(MutualTls::of(&proxy.files, mesh, parts.tcp.capabilities)));
    let scope = cx.query(&ScopeOf(proxy.scope().clone()));
    let chains = ports::chains(cx, proxy, &scope);
    let stated = mesh.default_inbound_http_retry_policy.as_ref();
    let retries = retry::inbound(stated).map(Keyed::new);
    let route_patches = cx.query(&RoutePatchesOf(proxy.parts.patched.clone()));
    let plain_http = plain_http(cx);
    let shared = |name: String, binds: Vec<Arc<str>>, port: u16| InboundListener {
        binds,
        port,
        own_port: true,
        interception: proxy.interception,
        plain_http,
        additional_addresses: cx.settings().features.dual_stack,
        chains: Box::from([]),
        tls: tls.clone(),
        retries: retries.clone(),
        parts: (*parts).clone(),
        patches: patches.of_listener(Context::SidecarInbound, &name, port),
        route_patches: route_patches.of_inbound(),
        name,
    };

    let (real, virtual_): (Vec<_>, Vec<_>) = chains.into_iter().partition(|c| c.own_listener);
    let mut listeners: Vec<InboundListener> = real
        .into_iter()
        .map(|chain| InboundListener {
            chains: Box::from([chain.clone()]),
            ..shared(chain.name(), chain.binds.to_vec(), chain.target_port)
        })
        .collect();
    if proxy.interception != Interception::None {
        let binds = wildcards(proxy.families).iter().map(|b| Arc::from(*b));
        listeners.push(InboundListener {
            own_port: false,
            chains: ports::passthrough(cx, proxy, &scope)
                .into_iter()
                .chain(virtual_)
                .collect(),
            ..shared(VIRTUAL_INBOUND.to_owned(), binds.collect(), proxy.port)
        });
    }
    listeners
        .iter()
        .filter_map(|key| (*cx.query(key)).clone())
        .collect()
}

/// The ports of its filter chains.
pub(super) fn served_ports(cx: &Cx<'_, Snapshot>, proxy: &InboundServer) -> Vec<ServedPort> {
    let scope = cx.query(&ScopeOf(proxy.scope().clone()));
    let redirected = proxy.interception != Interception::None;
    let others = redirected.then(|| ports::passthrough(cx, proxy, &scope));
    ports::chains(cx, proxy, &scope)
        .iter()
        .chain(others.iter().flatten())
        .map(|chain| ServedPort {
            number: chain.target_port,
            tcp: !chain.passthrough && handling(chain.port.protocol) == Handling::Tcp,
            mode: chain.mode,
        })
        .collect()
}

/// One inbound listener, with all that it depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct InboundListener {
    name: String,
    binds: Vec<Arc<str>>,
    port: u16,
    own_port: bool,
    interception: Interception,
    plain_http: &'static [&'static str],
    additional_addresses: bool,
    chains: Box<[PortChain]>,
    /// `None` where the proxy has no certificates.
    tls: Option<Arc<Keyed<MutualTls>>>,
    /// How requests are tried again, unless they are gRPC.
    retries: Option<Arc<Keyed<RetryPolicy>>>,
    parts: SideParts,
    /// Patches that may concern it.
    patches: Option<Arc<ListenerPatches>>,
    /// Patches that may concern its routes.
    route_patches: Option<Arc<RoutePatches>>,
}

impl Query<Snapshot> for InboundListener {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> Self::Value {
        encode(
            self.patches.as_deref(),
            Context::SidecarInbound,
            self.build(),
            &|_| None,
        )
    }
}

impl InboundListener {
    fn build(&self) -> listener::Listener {
        let tcp = &self.parts.tcp;
        let mut chains = Vec::new();
        if !self.own_port {
            chains.push(self.black_hole());
        }
        chains.extend(self.chains.iter().flat_map(|chain| self.of_port(chain)));
        let (first, others) = self
            .binds
            .split_first()
            .map_or(("", &[][..]), |(f, o)| (f, o));
        listener::Listener {
            name: self.name.clone(),
            address: Some(socket(first, self.port)),
            additional_addresses: if self.additional_addresses {
                additional(others, self.port)
            } else {
                Vec::new()
            },
            traffic_direction: TrafficDirection::Inbound as i32,
            continue_on_listener_filters_timeout: true,
            max_connections_to_accept_per_socket_event: Some(1),
            connection_balance_config: super::balance(tcp),
            transparent: (!self.own_port && self.interception == Interception::Tproxy)
                .then_some(true),
            access_log: tcp.listener_log.clone(),
            listener_filters: inspectors::listener_filters(
                &chains,
                self.interception,
                self.own_port,
            ),
            listener_filters_timeout: tcp.detection_timeout,
            filter_chains: chains,
            ..Default::default()
        }
    }

    /// Refuses connections to the listener's own port, which would lead back to it for ever.
    fn black_hole(&self) -> listener::FilterChain {
        let tcp: &Keyed<TcpParts> = &self.parts.tcp;
        listener::FilterChain {
            name: BLACK_HOLE_CHAIN.to_owned(),
            filter_chain_match: Some(listener::FilterChainMatch {
                destination_port: Some(u32::from(self.port)),
                ..Default::default()
            }),
            filters: tcp
                .metadata_exchange()
                .into_iter()
                .chain(tcp.metrics.iter().cloned())
                .chain([tcp::unlogged(cluster_names::BLACK_HOLE)])
                .collect(),
            ..Default::default()
        }
    }

    fn of_port(&self, chain: &PortChain) -> Vec<listener::FilterChain> {
        let mode = match (&self.tls, chain.mode) {
            (None, authn::MutualTls::Strict) => return vec![self.closed(chain)],
            (None, authn::MutualTls::Permissive) => authn::MutualTls::Disable,
            (_, mode) => mode,
        };
        let handling = handling(chain.port.protocol);
        let kinds = match &chain.tls {
            Some(_) => vec![matching::stated_tls(handling)],
            None => matching::chains(handling, mode, self.plain_http),
        };
        kinds
            .into_iter()
            .map(|kind| listener::FilterChain {
                name: match (chain.passthrough, kind.http) {
                    (true, true) => CATCH_ALL_HTTP_CHAIN.to_owned(),
                    (true, false) => VIRTUAL_INBOUND.to_owned(),
                    (false, _) => chain.name(),
                },
                filter_chain_match: Some(kind.matching(chain.target_port)),
                filters: if kind.http {
                    self.http_filters(chain)
                } else {
                    self.tcp_filters(chain)
                },
                transport_socket: match (&chain.tls, &self.tls) {
                    _ if !kind.terminates => None,
                    (Some(stated), _) => Some(super::tls::socket(stated)),
                    (None, tls) => tls.as_ref().map(|tls| tls.socket(kind.http)),
                },
                metadata: chain.sidecar.as_ref().map(config_metadata::sidecar),
                ..Default::default()
            })
            .collect()
    }

    /// Takes connections and closes them: mutual TLS is asked for, and the proxy cannot speak it.
    fn closed(&self, chain: &PortChain) -> listener::FilterChain {
        listener::FilterChain {
            name: if chain.passthrough {
                VIRTUAL_INBOUND.to_owned()
            } else {
                chain.name()
            },
            filter_chain_match: Some(listener::FilterChainMatch {
                destination_port: (chain.target_port != 0).then_some(chain.target_port.into()),
                ..Default::default()
            }),
            filters: self
                .parts
                .tcp
                .metrics
                .iter()
                .cloned()
                .chain([tcp::unlogged(cluster_names::BLACK_HOLE)])
                .collect(),
            metadata: chain.sidecar.as_ref().map(config_metadata::sidecar),
            ..Default::default()
        }
    }

    fn http_filters(&self, chain: &PortChain) -> Vec<listener::Filter> {
        let http: &Keyed<HttpParts> = &self.parts.http;
        let cluster = chain.cluster();
        let mut config = route::config(
            &cluster,
            &chain.host,
            chain.port.number,
            // A stream of gRPC messages cannot be repeated.
            self.retries
                .as_deref()
                .filter(|_| !chain.port.protocol.is_grpc())
                .map(|r| RetryPolicy::clone(r)),
        );
        if let Some(patches) = &self.route_patches {
            let place = envoy_filter::route::RouteContext {
                context: Context::SidecarInbound,
                service_ports: &|port| vec![port],
            };
            envoy_filter::route::apply(patches, &place, &mut config);
        }
        let manager = http.filter(Options {
            stat_prefix: if chain.passthrough {
                cluster
            } else {
                format!("inbound_{}", chain.name())
            },
            routes: Routes::Inline(Box::new(config)),
            http2: chain.port.protocol.is_http2(),
            port: chain.target_port,
            grpc_web: chain.port.protocol == model::protocol::Protocol::GrpcWeb,
            ..Options::default()
        });
        self.parts
            .tcp
            .metadata_exchange()
            .into_iter()
            .chain(self.parts.tcp.security.of_users(chain.target_port))
            .chain([manager])
            .collect()
    }

    fn tcp_filters(&self, chain: &PortChain) -> Vec<listener::Filter> {
        let cluster = chain.cluster();
        let pattern = &self.parts.tcp.cluster_stat_name;
        let proxy = tcp::Proxy {
            stat_prefix: if pattern.is_empty() {
                cluster.clone()
            } else {
                chain.stat_prefix(pattern)
            },
            upstream: Upstream::Cluster(cluster),
            protocol: chain.port.protocol,
            policy: Policy::default(),
        };
        tcp::inbound(&self.parts.tcp, chain.port.number, proxy)
    }
}

impl PortChain {
    /// Name of its filter chains, and of its listener if it has one.
    fn name(&self) -> String {
        let bind = self.binds.first().map_or("", |b| b);
        listener_name(bind, self.target_port)
    }

    /// Where it goes.
    fn cluster(&self) -> String {
        if self.passthrough {
            cluster_names::INBOUND_PASSTHROUGH.to_owned()
        } else {
            cluster_names::inbound(self.target_port)
        }
    }
}
