//! Outbound listeners of sidecars: one for each port or address of what they see, and those that take the rest.
//!
//! Istio: pilot/pkg/networking/core/listener.go and listener_builder.go, 1.32.

mod bound;
mod chains;
mod entry;
mod matching;
mod plan;
mod unmatched;

use std::sync::Arc;

use chains::{ClientKey, TcpChain};
use entry::{Chain, Entry, HttpChain};
use incr::{Cx, KeyedSet, Query};
use matching::Matching;
use mesh::address::{additional, listener_name, loopbacks, socket};
use mesh::keyed::Keyed;
use mesh::proxy_options;
use mesh::scope::ScopeOf;
use mesh::view::Families;
use model::labels::Labels;
use model::node::Interception;
use model::object::ObjectKey;
use model::service::Service;
use plan::PlanOf;
use policy::envoy_filter::{Context, ListenerPatches};
use policy::filters;
use prost_types::Duration;
use proto_envoy::envoy::config::core::v3::TrafficDirection;
use proto_envoy::envoy::config::listener::v3 as listener;
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet};

use super::client::OutboundClient;
use super::hcm::{Options, Routes};
use super::parts::TcpParts;
use super::{HttpKey, config_metadata, dns, encode, patches, plain_http, tcp};
use crate::clusters::allow_any_dns_cache;
use crate::hashed::Hashed;
use crate::judged;

/// Name of the route configuration of the HTTP proxy port.
const HTTP_PROXY_ROUTES: &str = "http_proxy";
/// Name of the chain that takes what no chain of a listener matches.
const PASSTHROUGH_CHAIN: &str = "PassthroughFilterChain";
/// How long a client may take for its part of the TLS handshake.
const HANDSHAKE_SECONDS: u64 = 15;

/// The outbound listeners of sidecars.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Listeners(pub(super) Hashed<OutboundClient>);

impl Query<Snapshot> for Listeners {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let patches = patches(cx, &self.0.parts);
        ResourceSet::new(listeners(cx, &self.0, &patches))
    }
}

fn listeners(
    cx: &Cx<'_, Snapshot>,
    proxy: &OutboundClient,
    patches: &ListenerPatches,
) -> Vec<Arc<Resource>> {
    let parts = cx.query(&proxy.parts);
    let scope = cx.query(&ScopeOf(proxy.scope().clone()));
    let plan = PlanOf {
        scope: proxy.scope().clone(),
        addressing: proxy.addressing.clone(),
        binds_ports: proxy.interception == Interception::None,
        reserved: proxy.reserved.clone(),
        own_address: proxy.own_address.clone(),
    };
    let client = |has_rules: bool| {
        let matched = has_rules.then_some(&proxy.matched);
        let labels = proxy.selectable.iter();
        let labels = labels.chain(matched.into_iter().flat_map(Labels::iter));
        Arc::new(ClientKey {
            namespace: proxy.scope().namespace.clone(),
            labels: labels.map(|(k, v)| (k.clone(), v.clone())).collect(),
            scope: has_rules.then(|| proxy.scope().clone()),
            families: proxy.families,
            dns_domain: proxy.dns_domain.clone(),
            absolute_names: cx.settings().features.absolute_fqdn_vhost_domain,
            stat_name: parts.tcp.cluster_stat_name.clone(),
        })
    };
    let policy = scope.outbound_policy.as_ref();
    let unmatched: Arc<str> = unmatched::cluster(policy).into();
    let any_host = unmatched::resolves_any_host(policy).then(|| {
        let cache = allow_any_dns_cache(cx.settings(), proxy.families, proxy.agent_dns);
        Keyed::new(dns::http_filter_of(cache))
    });
    let refused = cx.query(&plan).refused.clone();
    let tcp_only = Group {
        plan,
        plain: client(false),
        ruled: client(true),
        tcp: parts.tcp.clone(),
        http: None,
        unmatched: unmatched.clone(),
        patches: patches.of_side(Context::SidecarOutbound),
    };
    let http = HttpKey {
        parts: parts.http.clone(),
        plain_http: plain_http(cx),
        dual_stack: proxy.addressing.dual_stack,
        any_host,
    };
    let with_http = Group {
        http: Some(http.clone()),
        ..tcp_only.clone()
    };
    let mut listeners: Vec<Arc<Resource>> = cx.query(&tcp_only).to_vec();
    listeners.extend_from_slice(&cx.query(&with_http));
    if let Some(entry) = http_proxy(proxy) {
        listeners.extend(with_http.listener(cx, &Arc::new(entry)));
    }
    if proxy.interception != Interception::None {
        let tcp = parts.tcp.clone();
        let listener = unmatched::listener(cx, proxy, patches, (tcp, http), unmatched);
        listeners.extend(listener);
    }
    if let Some(first) = listeners.first_mut().filter(|_| !refused.is_empty()) {
        // Told with a listener of the proxy, whichever: it is about all of them.
        let found = first.findings().iter().chain(refused.iter());
        *first = Arc::new(Resource::clone(first).finding(found.cloned().collect()));
    }
    listeners
}

/// Listeners of a plan: those with HTTP chains, or all others. Proxies whose HTTP chains differ, be it by the tags of
/// their spans, still share the others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Group {
    plan: PlanOf,
    /// The proxy as a client of services without rules.
    plain: Arc<ClientKey>,
    /// The proxy as a client of services with rules.
    ruled: Arc<ClientKey>,
    tcp: Arc<Keyed<TcpParts>>,
    http: Option<HttpKey>,
    unmatched: Arc<str>,
    patches: Arc<ListenerPatches>,
}

impl Query<Snapshot> for Group {
    type Value = Vec<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Vec<Arc<Resource>> {
        cx.query(&self.plan)
            .entries
            .iter()
            .filter(|entry| entry.has_http() == self.http.is_some())
            .filter_map(|entry| self.listener(cx, entry))
            .collect()
    }
}

impl Group {
    fn listener(&self, cx: &Cx<'_, Snapshot>, entry: &Arc<Entry>) -> Option<Arc<Resource>> {
        let client = if entry.has_rules() {
            &self.ruled
        } else {
            &self.plain
        };
        let key = OutboundListener {
            entry: entry.clone(),
            client: client.clone(),
            tcp: self.tcp.clone(),
            http: self.http.clone(),
            unmatched: self.unmatched.clone(),
            patches: if self.patches.is_empty() {
                None
            } else {
                let name = listener_name(entry.bind(), entry.port);
                self.patches
                    .of_listener(Context::SidecarOutbound, &name, entry.port)
            },
        };
        (*cx.query(&key)).clone()
    }
}

/// The listener to which applications talk as to an HTTP proxy, if there is one.
///
/// Istio: pilot/pkg/networking/core/listener.go buildHTTPProxy, 1.32.
fn http_proxy(proxy: &OutboundClient) -> Option<Entry> {
    let port = proxy.http_proxy?;
    let binds = loopbacks(proxy.families).iter();
    Some(Entry {
        binds: binds.map(|b| Arc::from(*b)).collect(),
        port,
        binds_port: true,
        batches: vec![vec![Chain::Http(HttpChain {
            routes: HTTP_PROXY_ROUTES.to_owned(),
            grpc_web: false,
            detected: false,
            absolute_urls: true,
            resolves: None,
        })]],
    })
}

/// One outbound listener, with all that it depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OutboundListener {
    entry: Arc<Entry>,
    client: Arc<ClientKey>,
    tcp: Arc<Keyed<TcpParts>>,
    http: Option<HttpKey>,
    unmatched: Arc<str>,
    /// Patches that may concern it.
    patches: Option<Arc<ListenerPatches>>,
}

impl Query<Snapshot> for OutboundListener {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        encode(
            self.patches.as_deref(),
            Context::SidecarOutbound,
            self.build(cx),
            &|at| self.whose(cx, at),
        )
    }
}

/// A chain with what it takes, ready to be built.
enum Ready<'a> {
    Http(&'a HttpChain),
    /// With the service that it is of.
    Tcp(TcpChain, &'a Service),
}

impl Ready<'_> {
    fn matching(&self) -> Matching {
        match self {
            Ready::Http(http) => Matching {
                detected_http: http.detected,
                ..Matching::default()
            },
            Ready::Tcp(tcp, _) => tcp.matching.clone(),
        }
    }
}

impl OutboundListener {
    fn build(&self, cx: &Cx<'_, Snapshot>) -> listener::Listener {
        let entry = &*self.entry;
        let ready = self.ready(cx);
        let looks_for_tls = ready.iter().any(|(chain, matching)| {
            !matching.server_names.is_empty()
                || matches!(chain, Ready::Tcp(tcp, _) if tcp.resolves.is_some())
        });
        let looks_for_http = ready.iter().any(|(_, matching)| matching.detected_http);

        let name = listener_name(entry.bind(), entry.port);
        let mut chains = Vec::new();
        let mut default = None;
        for (chain, matching) in ready {
            let mut built = self.chain(chain, &name);
            if matching.is_everything() {
                default = Some(built);
            } else {
                built.filter_chain_match = matching.to_envoy(self.plain_http());
                chains.push(built);
            }
        }
        match default.take() {
            Some(only) if chains.is_empty() => chains.push(only),
            Some(everything) => default = Some(everything),
            None => default = Some(self.unmatched_chain()),
        }
        let (first, others) = entry
            .binds
            .split_first()
            .map_or(("", &[][..]), |(f, o)| (f, o));
        listener::Listener {
            address: Some(socket(first, entry.port)),
            additional_addresses: additional(others, entry.port),
            traffic_direction: TrafficDirection::Outbound as i32,
            continue_on_listener_filters_timeout: true,
            connection_balance_config: super::balance(&self.tcp),
            max_connections_to_accept_per_socket_event: entry.binds_port.then_some(1),
            bind_to_port: (!entry.binds_port).then_some(false),
            listener_filters: looks_for_tls
                .then(filters::tls_inspector)
                .into_iter()
                .chain(looks_for_http.then(filters::http_inspector))
                .collect(),
            listener_filters_timeout: if looks_for_http {
                self.tcp.detection_timeout
            } else {
                Some(Duration::default())
            },
            filter_chains: chains,
            default_filter_chain: default,
            name,
            ..Default::default()
        }
    }

    /// The object that the filter chain at a place was made from: its rule, or its service.
    fn whose(&self, cx: &Cx<'_, Snapshot>, at: usize) -> Option<ObjectKey> {
        let ready = self.ready(cx);
        let (default, chains): (Vec<_>, Vec<_>) = ready
            .iter()
            .partition(|(_, matching)| matching.is_everything());
        match chains.get(at).or(default.first())? {
            (Ready::Http(_), _) => None,
            (Ready::Tcp(chain, service), _) => Some(match &chain.rule {
                Some(rule) => judged::of_rule(cx, rule, ""),
                None => service.object.clone(),
            }),
        }
    }

    /// The chains, without those of later batches that want what is taken already.
    fn ready(&self, cx: &Cx<'_, Snapshot>) -> Vec<(Ready<'_>, Matching)> {
        let mut ready: Vec<(Ready<'_>, Matching)> = Vec::new();
        let several = self.entry.batches.len() > 1;
        let mut taken = KeyedSet::default();
        for (batch, chains) in self.entry.batches.iter().enumerate() {
            for chain in chains {
                let expanded = match chain {
                    Chain::Http(http) => vec![Ready::Http(http)],
                    Chain::Tcp(tcp) => chains::expand(cx, &self.client, tcp)
                        .into_iter()
                        .map(|chain| Ready::Tcp(chain, &tcp.service.0))
                        .collect(),
                };
                for one in expanded {
                    let Some(matching) = one.matching().by_servable_names() else {
                        continue;
                    };
                    let free = !several || taken.insert(matching.identity());
                    if batch == 0 || free {
                        ready.push((one, matching));
                    }
                }
            }
        }
        ready
    }

    fn chain(&self, chain: Ready<'_>, listener: &str) -> listener::FilterChain {
        let (filters, rule) = match chain {
            Ready::Http(http) => (self.http_filters(http, listener), None),
            Ready::Tcp(chain, _) => {
                let mut filters = tcp::before(&self.tcp, tcp::Chain::Port(self.entry.port));
                if let Some(host) = &chain.resolves {
                    filters.push(dns::sni_filter(host, self.entry.port, self.family()));
                }
                filters.extend(tcp::terminal(&self.tcp, chain.proxy));
                (filters, chain.rule)
            }
        };
        listener::FilterChain {
            filters,
            metadata: rule.as_ref().map(config_metadata::virtual_service),
            transport_socket_connect_timeout: Some(proxy_options::seconds(HANDSHAKE_SECONDS)),
            ..Default::default()
        }
    }

    fn http_filters(&self, chain: &HttpChain, listener: &str) -> Vec<listener::Filter> {
        let Some(http) = &self.http else {
            return Vec::new();
        };
        let manager = http.parts.filter(Options {
            stat_prefix: format!("outbound_{listener}"),
            routes: Routes::Named(chain.routes.clone()),
            grpc_web: chain.grpc_web,
            absolute_urls: chain.absolute_urls,
            port: self.entry.port,
            forward_proxies: chain
                .resolves
                .as_ref()
                .map(|host| dns::http_filter(host, self.family()))
                .into_iter()
                .chain(http.any_host())
                .collect(),
            ..Options::default()
        });
        self.tcp
            .security
            .of_users(self.entry.port)
            .chain([manager])
            .collect()
    }

    /// Takes what the others do not: it goes wherever unknown traffic goes.
    fn unmatched_chain(&self) -> listener::FilterChain {
        listener::FilterChain {
            name: PASSTHROUGH_CHAIN.to_owned(),
            filter_chain_match: Some(listener::FilterChainMatch::default()),
            filters: unmatched::filters(&self.tcp, &self.unmatched),
            ..Default::default()
        }
    }

    fn plain_http(&self) -> &'static [&'static str] {
        self.http.as_ref().map_or(&[], |http| http.plain_http)
    }

    fn family(&self) -> dns::Family {
        let Families { v4, v6 } = self.client.families;
        let dual_stack = self.http.as_ref().is_some_and(|http| http.dual_stack);
        dns::family(v4, v6, dual_stack)
    }
}
