//! Listeners.
//!
//! What filter chains have in common is built once for each side of a proxy ([`parts`]); each listener is a leaf query
//! whose key holds those parts and what is its own, so that proxies which agree share it.

pub mod access_log;
pub(crate) mod client;
mod config_metadata;
pub mod dns;
mod forward;
mod gateway;
mod hbone;
pub mod hcm;
pub mod inbound;
pub mod metrics;
mod outbound;
pub mod parts;
pub mod refusal;
pub(crate) mod repeated;
pub mod tcp;
pub mod tls;
pub mod tracing;

use std::net::IpAddr;
use std::sync::Arc;

use client::{GatewayProxy, InboundServer, Listens, OutboundClient};
use hcm::HttpParts;
use inbound::matching::{PLAIN_HTTP, PLAIN_HTTP_10};
use incr::Cx;
use mesh::address::wildcards;
use mesh::keyed::Keyed;
use model::object::ObjectKey;
use parts::{SidePartsOf, TcpParts};
use policy::authn::MutualTls;
use policy::envoy_filter::{self, Context, ListenerPatches, ListenerPatchesOf};
use proto_envoy::envoy::config::listener::v3::Listener;
use proto_envoy::envoy::config::listener::v3::listener::ConnectionBalanceConfig;
use proto_envoy::envoy::config::listener::v3::listener::connection_balance_config::{
    BalanceType, ExactBalance,
};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet};

use crate::hashed::Hashed;
use crate::judged;

pub use client::ListenersOf;

/// The listeners of a sidecar. Those of both sides are made apart: workloads that agree in what they may call share these,
/// whatever they serve.
fn of_sidecar(
    cx: &Cx<'_, Snapshot>,
    outbound: &Hashed<OutboundClient>,
    inbound: &Hashed<InboundServer>,
) -> ResourceSet {
    let tunnels = cx.query(&hbone::ConnectOriginate(outbound.parts.clone()));
    let outbound = cx.query(&outbound::Listeners(outbound.clone()));
    let inbound = cx.query(&inbound::Listeners(inbound.clone()));
    outbound.and(inbound.iter().cloned().chain((*tunnels).clone()))
}

fn of_gateway(cx: &Cx<'_, Snapshot>, proxy: &GatewayProxy) -> ResourceSet {
    let patches = patches(cx, &proxy.parts);
    let mut listeners = gateway::listeners(cx, proxy, &patches);
    listeners.extend(added(&patches, Context::Gateway));
    let tunnels = cx.query(&hbone::ConnectOriginate(proxy.parts.clone()));
    listeners.extend((*tunnels).clone());
    ResourceSet::new(listeners)
}

/// A port that a sidecar serves.
pub(crate) struct ServedPort {
    /// Its number; 0 for all that are not listed.
    pub(crate) number: u16,
    /// Whether it is taken for TCP, not requests.
    pub(crate) tcp: bool,
    /// What it asks of clients.
    pub(crate) mode: MutualTls,
}

/// The ports at which sidecars take connections for their workload.
pub(crate) fn served_ports(cx: &Cx<'_, Snapshot>, listeners: &ListenersOf) -> Vec<ServedPort> {
    match &listeners.0 {
        Listens::Sidecar(_, inbound) => inbound::served_ports(cx, inbound),
        Listens::Gateway(_) | Listens::Grpc(_) | Listens::Nothing => Vec::new(),
    }
}

/// The patches of listeners; none where the chains would repeat too much of them.
fn patches(cx: &Cx<'_, Snapshot>, parts: &SidePartsOf) -> Arc<ListenerPatches> {
    if parts.too_many_copies {
        return Arc::default();
    }
    (*cx.query(&ListenerPatchesOf(parts.patched.clone()))).clone()
}

/// ALPN of HTTP in the clear.
fn plain_http(cx: &Cx<'_, Snapshot>) -> &'static [&'static str] {
    match cx.settings().features.http10 {
        true => PLAIN_HTTP_10,
        false => PLAIN_HTTP,
    }
}

/// The listeners that patches add.
fn added(patches: &ListenerPatches, context: Context) -> impl Iterator<Item = Arc<Resource>> {
    envoy_filter::listener::added(patches, context)
        .filter_map(|listener| judged::listener(listener.clone(), Vec::new(), &|_| None))
}

/// A listener, encoded as the patches leave it. `whose` says which object the filter chain at a place was made from.
fn encode(
    patches: Option<&ListenerPatches>,
    context: Context,
    listener: Listener,
    whose: &dyn Fn(usize) -> Option<ObjectKey>,
) -> Option<Arc<Resource>> {
    let mut found = Vec::new();
    let Some(patches) = patches else {
        return judged::listener(listener, found, whose);
    };
    let listener = envoy_filter::listener::apply(patches, context, listener, &mut found)?;
    // Patches may have put chains in other places.
    judged::listener(listener, found, &|_| None)
}

impl InboundServer {
    /// The addresses that a Sidecar's ingress listener is named after if it states none: the proxy's own, else all.
    ///
    /// Istio: pilot/pkg/networking/core/listener_address.go getSidecarInboundBindIPs, 1.32.
    fn own_binds(&self) -> Box<[Arc<str>]> {
        let own = self.addresses.iter().find(|a| is_global_unicast(a));
        match own {
            Some(address) => Box::from([Arc::from(address.to_string())]),
            None => {
                let binds = wildcards(self.families);
                binds.iter().map(|b| Arc::from(*b)).collect()
            }
        }
    }
}

/// As Go's `IP.IsGlobalUnicast`.
fn is_global_unicast(address: &IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast() && !link_local
}

/// What HTTP chains of outbound listeners depend on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct HttpKey {
    parts: Arc<Keyed<HttpParts>>,
    plain_http: &'static [&'static str],
    dual_stack: bool,
    /// Resolves the hosts that nothing else knows, where the outbound policy asks for that.
    any_host: Option<Arc<Keyed<HttpFilter>>>,
}

impl HttpKey {
    fn any_host(&self) -> Option<HttpFilter> {
        self.any_host.as_ref().map(|filter| (***filter).clone())
    }
}

/// How connections are spread over the proxy's threads, if it states that.
fn balance(parts: &TcpParts) -> Option<ConnectionBalanceConfig> {
    parts.exact_balance.then_some(ConnectionBalanceConfig {
        balance_type: Some(BalanceType::ExactBalance(ExactBalance {})),
    })
}
