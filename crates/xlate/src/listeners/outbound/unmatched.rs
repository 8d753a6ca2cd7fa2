//! Outbound traffic that nothing else takes: the listener that receives all of it, and where it goes.
//!
//! Istio: pilot/pkg/networking/core/listener_builder.go buildVirtualOutboundListener, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::address::{additional, socket, wildcards};
use mesh::cluster_names;
use mesh::keyed::Keyed;
use model::node::Interception;
use model::protocol::Protocol;
use policy::envoy_filter::{Context, ListenerPatches};
use policy::filters::http_inspector;
use proto_envoy::envoy::config::core::v3::TrafficDirection;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use proto_istio::mesh::mesh_config::outbound_traffic_policy::Mode as MeshMode;
use proto_istio::networking::OutboundTrafficPolicy;
use proto_istio::networking::outbound_traffic_policy::Mode;
use store::Snapshot;
use xds::Resource;

use crate::listeners::client::OutboundClient;
use crate::listeners::hcm::{Options, Routes};
use crate::listeners::parts::TcpParts;
use crate::listeners::tcp::{Policy, Upstream};
use crate::listeners::{HttpKey, encode, forward, tcp};

const VIRTUAL_OUTBOUND: &str = "virtualOutbound";
const BLACK_HOLE_CHAIN: &str = "virtualOutbound-blackhole";
const CATCH_ALL_CHAIN: &str = "virtualOutbound-catchall-tcp";

/// The cluster of unknown traffic.
pub(super) fn cluster(policy: Option<&OutboundTrafficPolicy>) -> String {
    match policy {
        Some(policy) if policy.mode != Mode::RegistryOnly as i32 => match &policy.egress_proxy {
            Some(proxy) => forward::cluster(proxy, None, 0),
            None => cluster_names::PASSTHROUGH.to_owned(),
        },
        _ => cluster_names::BLACK_HOLE.to_owned(),
    }
}

/// Whether the hosts of unknown requests are resolved.
pub(super) fn resolves_any_host(policy: Option<&OutboundTrafficPolicy>) -> bool {
    // The Sidecar's modes are those of the mesh, of which it knows fewer by name.
    policy.is_some_and(|p| p.mode == MeshMode::AllowAnyDynamicDns as i32)
}

/// The filters that send unknown traffic to its cluster.
pub(super) fn filters(parts: &TcpParts, cluster: &str) -> Vec<listener::Filter> {
    tcp::outbound(
        parts,
        tcp::Chain::Unmatched,
        tcp::Proxy {
            stat_prefix: cluster.to_owned(),
            upstream: Upstream::Cluster(cluster.to_owned()),
            protocol: Protocol::Tcp,
            policy: Policy::default(),
        },
    )
}

/// The listener that receives redirected traffic.
pub(super) fn listener(
    cx: &Cx<'_, Snapshot>,
    proxy: &OutboundClient,
    patches: &ListenerPatches,
    (tcp, http): (Arc<Keyed<TcpParts>>, HttpKey),
    unmatched: Arc<str>,
) -> Option<Arc<Resource>> {
    let wildcards = wildcards(proxy.families);
    let further = if proxy.addressing.dual_stack {
        wildcards.len()
    } else {
        1
    };
    (*cx.query(&VirtualOutbound {
        binds: &wildcards[..further],
        port: proxy.port,
        transparent: proxy.interception == Interception::Tproxy,
        any_host: http.any_host.is_some().then(|| AnyHost {
            routes: Keyed::new(proxy.unknown_hosts.routes(cx)),
            http,
        }),
        tcp,
        unmatched,
        patches: patches.of_listener(Context::SidecarOutbound, VIRTUAL_OUTBOUND, proxy.port),
    }))
    .clone()
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct VirtualOutbound {
    binds: &'static [&'static str],
    port: u16,
    transparent: bool,
    any_host: Option<AnyHost>,
    tcp: Arc<Keyed<TcpParts>>,
    unmatched: Arc<str>,
    /// Patches that may concern it.
    patches: Option<Arc<ListenerPatches>>,
}

/// What the chain is made of that resolves the hosts of unknown requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AnyHost {
    http: HttpKey,
    routes: Arc<Keyed<RouteConfiguration>>,
}

impl AnyHost {
    fn chain(&self) -> listener::FilterChain {
        let manager = self.http.parts.filter(Options {
            stat_prefix: format!("outbound_{VIRTUAL_OUTBOUND}_allow_any_dynamic_dns"),
            routes: Routes::Inline(Box::new((**self.routes).clone())),
            forward_proxies: self.http.any_host().into_iter().collect(),
            ..Options::default()
        });
        let plain = self.http.plain_http.iter().map(|p| (*p).to_owned());
        listener::FilterChain {
            name: format!("{CATCH_ALL_CHAIN}-http"),
            filter_chain_match: Some(listener::FilterChainMatch {
                application_protocols: plain.collect(),
                ..Default::default()
            }),
            filters: vec![manager],
            ..Default::default()
        }
    }
}

impl Query<Snapshot> for VirtualOutbound {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> Self::Value {
        let refused = self
            .tcp
            .metrics
            .iter()
            .cloned()
            .chain([tcp::unlogged(cluster_names::BLACK_HOLE)]);
        // Traffic to the listener's own port would come back to it for ever.
        let black_hole = listener::FilterChain {
            name: BLACK_HOLE_CHAIN.to_owned(),
            filter_chain_match: Some(listener::FilterChainMatch {
                destination_port: Some(u32::from(self.port)),
                ..Default::default()
            }),
            filters: refused.collect(),
            ..Default::default()
        };
        let everything = listener::FilterChain {
            name: CATCH_ALL_CHAIN.to_owned(),
            filters: filters(&self.tcp, &self.unmatched),
            ..Default::default()
        };
        let message = listener::Listener {
            name: VIRTUAL_OUTBOUND.to_owned(),
            address: Some(socket(self.binds[0], self.port)),
            additional_addresses: additional(&self.binds[1..], self.port),
            transparent: self.transparent.then_some(true),
            use_original_dst: Some(true),
            traffic_direction: TrafficDirection::Outbound as i32,
            max_connections_to_accept_per_socket_event: Some(1),
            access_log: self.tcp.listener_log.clone(),
            listener_filters: self
                .any_host
                .as_ref()
                .map(|_| http_inspector())
                .into_iter()
                .collect(),
            filter_chains: std::iter::once(black_hole)
                .chain(self.any_host.as_ref().map(AnyHost::chain))
                .chain([everything])
                .collect(),
            ..Default::default()
        };
        encode(
            self.patches.as_deref(),
            Context::SidecarOutbound,
            message,
            &|_| None,
        )
    }
}
