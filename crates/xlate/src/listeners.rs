//! Listeners of a view.
//!
//! What filter chains have in common is built once for each side of a proxy ([`parts`]); each listener is a leaf query
//! whose key holds those parts and what is its own, so that proxies which agree share it.

pub mod access_log;
mod config_metadata;
pub mod dns;
mod forward;
mod gateway;
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

use incr::Cx;
use model::node::Role;
use model::service::Resolution;
use proto_envoy::envoy::config::listener::v3::Listener;
use proto_envoy::envoy::config::listener::v3::listener::ConnectionBalanceConfig;
use proto_envoy::envoy::config::listener::v3::listener::connection_balance_config::{
    BalanceType, ExactBalance,
};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use store::{Reads, Snapshot};

use hcm::HttpParts;
use inbound::matching::{PLAIN_HTTP, PLAIN_HTTP_10};
use mesh::address::wildcards;
use mesh::keyed::Keyed;
use mesh::proxy_options::Reserved;
use mesh::scope::{ScopeOf, SidecarScope, key_of};
use mesh::services::Addressing;
use mesh::view::{ServiceTarget, View};
use parts::TcpParts;
use policy::authn::MutualTls;
use policy::envoy_filter::{
    self, Context, ListenerPatches, ListenerPatchesOf, RoutePatches, RoutePatchesOf, SelectedBy,
};
use xds::{Resource, ResourceSet};

/// Listeners that proxies of a view should have.
pub fn set(cx: &Cx<'_, Snapshot>, view: &Arc<View>) -> ResourceSet {
    match view.role {
        Role::Sidecar => sidecar(cx, view),
        Role::Router => {
            let patches = patches(cx, view);
            let mut listeners = gateway::listeners(cx, view, &patches);
            listeners.extend(added(&patches, Context::Gateway));
            ResourceSet::new(listeners)
        }
        Role::Waypoint | Role::Ztunnel => ResourceSet::default(),
    }
}

fn sidecar(cx: &Cx<'_, Snapshot>, view: &Arc<View>) -> ResourceSet {
    let Some(proxy) = proxy(cx, view) else {
        return ResourceSet::default();
    };
    let mut listeners = outbound::listeners(cx, &proxy);
    listeners.extend(inbound::listeners(cx, &proxy));
    listeners.extend(added(&proxy.patches, Context::SidecarInbound));
    listeners.extend(added(&proxy.patches, Context::SidecarOutbound));
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

/// The ports at which sidecars of a view take connections for their workload.
pub(crate) fn served_ports(cx: &Cx<'_, Snapshot>, view: &Arc<View>) -> Vec<ServedPort> {
    match proxy(cx, view) {
        Some(proxy) => inbound::served_ports(cx, &proxy),
        None => Vec::new(),
    }
}

/// `None` for a mesh without a port for sidecars.
fn proxy<'a>(cx: &Cx<'_, Snapshot>, view: &'a Arc<View>) -> Option<Proxy<'a>> {
    let settings = cx.settings();
    let port = |number: i32| u16::try_from(number).unwrap_or(0);
    let outbound_port = port(settings.mesh.proxy_listen_port);
    let inbound_port = port(settings.mesh.proxy_inbound_listen_port);
    if outbound_port == 0 {
        return None;
    }
    let selected = SelectedBy::of(cx, view);
    let patches = patches(cx, view);
    Some(Proxy {
        view,
        route_patches: cx.query(&RoutePatchesOf(selected)).of_inbound(),
        patches,
        scope: (*cx.query(&ScopeOf(key_of(cx, view)))).clone(),
        addressing: Addressing::of(view, &settings.features),
        reserved: Reserved::of(view, [outbound_port, inbound_port]),
        outbound_port,
        inbound_port,
        plain_http: if settings.features.http10 {
            PLAIN_HTTP_10
        } else {
            PLAIN_HTTP
        },
    })
}

/// The patches of listeners; none where the chains would repeat too much of them.
fn patches(cx: &Cx<'_, Snapshot>, view: &View) -> Arc<ListenerPatches> {
    if repeated::too_many_copies(cx, view) {
        return Arc::default();
    }
    (*cx.query(&ListenerPatchesOf(SelectedBy::of(cx, view)))).clone()
}

/// The listeners that patches add.
fn added(patches: &ListenerPatches, context: Context) -> impl Iterator<Item = Arc<Resource>> {
    envoy_filter::listener::added(patches, context)
        .map(|l| Arc::new(Resource::encode(l.name.as_str(), l)))
}

/// A listener, encoded as the patches leave it.
fn encode(
    patches: Option<&ListenerPatches>,
    context: Context,
    listener: Listener,
) -> Option<Arc<Resource>> {
    let mut found = Vec::new();
    let listener = match patches {
        Some(patches) => envoy_filter::listener::apply(patches, context, listener, &mut found)?,
        None => listener,
    };
    let resource = Resource::encode(listener.name.as_str(), &listener);
    Some(Arc::new(resource.finding(found)))
}

/// A sidecar, with what its listeners are decided by.
struct Proxy<'a> {
    view: &'a Arc<View>,
    scope: Arc<SidecarScope>,
    addressing: Addressing,
    reserved: Reserved,
    /// Patches of its listeners.
    patches: Arc<ListenerPatches>,
    /// Patches that may concern the routes of its inbound listeners.
    route_patches: Option<Arc<RoutePatches>>,
    outbound_port: u16,
    inbound_port: u16,
    /// ALPN of HTTP in the clear.
    plain_http: &'static [&'static str],
}

impl Proxy<'_> {
    /// The addresses that a Sidecar's ingress listener is named after if it states none: the proxy's own, else all.
    ///
    /// Istio: pilot/pkg/networking/core/listener_address.go getSidecarInboundBindIPs, 1.32.
    fn own_binds(&self) -> Box<[Arc<str>]> {
        let own = self.view.addresses.iter().find(|a| is_global_unicast(a));
        match own {
            Some(address) => Box::from([Arc::from(address.to_string())]),
            None => {
                let binds = wildcards(self.view.families);
                binds.iter().map(|b| Arc::from(*b)).collect()
            }
        }
    }

    /// The proxy's own address, where that is an endpoint of a service which is dialled by its endpoints' addresses.
    fn own_headless_address(&self) -> Option<Arc<str>> {
        let headless = |t: &ServiceTarget| t.service.resolution == Resolution::Passthrough;
        let served = self.view.targets.iter().any(headless);
        let first = self.view.addresses.first().filter(|_| served)?;
        Some(first.to_string().into())
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
