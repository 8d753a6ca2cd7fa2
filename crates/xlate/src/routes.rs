//! Route configurations.
//!
//! ```text
//! ScopeOf ─▶ PlanOf ─────────────────────┐
//! VirtualServiceOf ──▶ RuleRoutes ───────┼─▶ ConfigOf ─▶ RoutesOf  (gateways: GatewayPlanOf, GatewayConfigOf)
//! DestinationRules ─▶ ServiceRoutes ─────┘
//! ```
//!
//! Routes are encoded once for each rule or service and port; a configuration puts encoded parts together.

mod action;
mod addresses;
mod client;
mod config;
mod domains;
mod edge;
mod encode;
mod expanded;
mod filters;
mod gateway;
pub(crate) mod hash;
mod headers;
mod matching;
mod named;
mod patched;
mod plan;
pub(crate) mod retry;
mod rule;
mod service;
#[cfg(test)]
mod tables;
mod tried;

use std::collections::BTreeSet;
use std::sync::Arc;

use client::RouteClient;
use gateway::GatewayConfigOf;
use incr::{Cx, Query};
use mesh::gateways::{GatewayKey, MergedGatewayOf};
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf, SidecarScope, refused_in};
use mesh::{gateways, proxy_options};
use model::node::Role;
use model::object::ObjectName;
use policy::envoy_filter::{Context, RoutePatches, RoutePatchesOf, SelectedBy};
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet};

use crate::hashed::Hashed;

pub use config::RouteName;
pub(crate) use domains::with_port;
pub(crate) use filters::stateful_session;
use patched::{Config, Patched};
pub(crate) use rule::session_of;

/// Proxies that have the same route configurations.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutesOf {
    client: Arc<RouteClient>,
    patched: SelectedBy,
    serves: Serves,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Serves {
    Sidecar {
        /// Whether it is to be talked to as an HTTP proxy.
        http_proxy: bool,
    },
    Gateway(Arc<GatewayKey>),
    /// Waypoints have their routes in their listeners.
    Nothing,
}

impl RoutesOf {
    /// What decides the route configurations of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            client: Arc::new(RouteClient::of(cx, proxy)),
            patched: SelectedBy::of(cx, proxy),
            serves: match proxy.node.role {
                Role::Sidecar => Serves::Sidecar {
                    http_proxy: proxy_options::http_proxy_port(cx.settings(), proxy).is_some(),
                },
                Role::Router => Serves::Gateway(Arc::new(gateways::key_of(cx, proxy))),
                Role::Waypoint | Role::Ztunnel => Serves::Nothing,
            },
        }
    }

    /// Their route configurations: all that listeners may name.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let in_scope = Self {
            client: Arc::new(self.client.in_scope(cx)),
            ..self.clone()
        };
        (*cx.query(&RoutesInScope(Hashed::new(in_scope)))).clone()
    }

    fn of_sidecar(&self, cx: &Cx<'_, Snapshot>, http_proxy: bool) -> ResourceSet {
        let client = &self.client;
        let scope = cx.query(&ScopeOf(client.scope.clone()));
        let mut names = if client.proxyless {
            proxyless_names(&scope)
        } else {
            names(&scope)
        };
        if http_proxy {
            names.insert(RouteName::HttpProxy);
        }
        let patches = cx.query(&RoutePatchesOf(self.patched.clone()));
        ResourceSet::new(names.into_iter().map(|name| {
            let key = config::ConfigOf {
                client: client.clone(),
                name,
            };
            resource(cx, key, Context::SidecarOutbound, &patches)
        }))
    }

    fn of_gateway(&self, cx: &Cx<'_, Snapshot>, gateway: &Arc<GatewayKey>) -> ResourceSet {
        let patches = cx.query(&RoutePatchesOf(self.patched.clone()));
        let configs = self.gateway_configs(cx, gateway);
        ResourceSet::new(configs.map(|key| resource(cx, key, Context::Gateway, &patches)))
    }

    fn gateway_configs(
        &self,
        cx: &Cx<'_, Snapshot>,
        gateway: &Arc<GatewayKey>,
    ) -> impl Iterator<Item = GatewayConfigOf> {
        let merged = cx.query(&MergedGatewayOf((**gateway).clone()));
        let names = merged.iter().flat_map(|m| m.by_route.keys());
        let names: Vec<Arc<str>> = names.cloned().collect();
        names.into_iter().map(|name| GatewayConfigOf {
            client: self.client.clone(),
            gateway: gateway.clone(),
            name,
        })
    }

    /// The rules that they refuse to follow, because their routes would be copied too often.
    pub(crate) fn refused(&self, cx: &Cx<'_, Snapshot>) -> BTreeSet<ObjectName> {
        match &self.serves {
            Serves::Sidecar { .. } => {
                let scope = cx.query(&ScopeOf(self.client.scope.clone()));
                refused_in(cx, &scope)
            }
            Serves::Gateway(gateway) => gateway::refused(cx, self.gateway_configs(cx, gateway)),
            Serves::Nothing => BTreeSet::new(),
        }
    }

    /// Whether they close everything, because what is to be closed would be copied too often.
    pub(crate) fn closes_all(&self, cx: &Cx<'_, Snapshot>) -> bool {
        match &self.serves {
            Serves::Gateway(gateway) => gateway::closes_all(cx, self.gateway_configs(cx, gateway)),
            Serves::Sidecar { .. } | Serves::Nothing => false,
        }
    }

    /// What the routes of requests to unknown hosts depend on.
    pub(crate) fn unknown_hosts(&self) -> UnknownHosts {
        UnknownHosts {
            scope: self.client.scope.clone(),
            attempt_count: self.client.attempt_count,
            forwarded_host: self.client.forwarded_host,
        }
    }
}

/// The route configurations of proxies, which are told apart only by labels that a rule in their scope reads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RoutesInScope(Hashed<RoutesOf>);

impl Query<Snapshot> for RoutesInScope {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let routes = &*self.0;
        match &routes.serves {
            Serves::Sidecar { http_proxy } => routes.of_sidecar(cx, *http_proxy),
            Serves::Gateway(gateway) => routes.of_gateway(cx, gateway),
            Serves::Nothing => ResourceSet::default(),
        }
    }
}

/// What the routes of requests to unknown hosts depend on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct UnknownHosts {
    scope: ScopeKey,
    attempt_count: bool,
    forwarded_host: bool,
}

impl UnknownHosts {
    /// These routes by themselves, for the listener that resolves those hosts.
    ///
    /// Istio: pilot/pkg/networking/core/listener_builder.go buildAllowAnyDynamicDNSHTTPFilterChain, 1.32.
    pub(crate) fn routes(&self, cx: &Cx<'_, Snapshot>) -> RouteConfiguration {
        let scope = cx.query(&ScopeOf(self.scope.clone()));
        RouteConfiguration {
            virtual_hosts: vec![config::catch_all(
                &scope,
                self.attempt_count,
                self.forwarded_host,
            )],
            ..config::configuration("allow_any_dynamic_dns")
        }
    }
}

/// Other ways in which a proxy of that DNS domain may write a host, without port; `absolute` for names that end in a
/// dot too.
pub(crate) fn alternative_hosts(host: &str, dns_domain: &str, absolute: bool) -> Vec<String> {
    let speaker = domains::Speaker {
        dns_domain,
        port: None,
        absolute,
    };
    speaker.alternatives(host)
}

/// A route configuration as the patches leave it; where none may concern it, the one that proxies share.
fn resource<C>(
    cx: &Cx<'_, Snapshot>,
    config: C,
    context: Context,
    patches: &RoutePatches,
) -> Arc<Resource>
where
    C: Config + Query<Snapshot, Value = Arc<Resource>>,
{
    let concerned = if patches.is_empty() {
        None
    } else {
        patches.of_config(context, &config.name())
    };
    match concerned {
        Some(patches) => (*cx.query(&Patched {
            config,
            context,
            patches,
        }))
        .clone(),
        None => (*cx.query(&config)).clone(),
    }
}

/// The names that listeners of a scope may use.
fn names(scope: &SidecarScope) -> BTreeSet<RouteName> {
    let mut names = BTreeSet::new();
    for egress in scope.egress.iter() {
        match egress.port() {
            Some(0) => {
                names.insert(RouteName::Unix(egress.listener.bind.as_str().into()));
            }
            Some(port) => {
                names.insert(RouteName::Port(port));
            }
            None => {}
        }
        for service in egress.services.iter() {
            for port in service.ports.iter() {
                if port.protocol.is_http_or_sniffed() {
                    names.insert(RouteName::Port(port.number));
                }
                if port.protocol.is_unsupported() {
                    names.insert(RouteName::Sniffed(service.host.clone(), port.number));
                }
            }
        }
    }
    names
}

/// The names by which gRPC libraries ask for the services of a scope: of every port, since they have a listener for each.
fn proxyless_names(scope: &SidecarScope) -> BTreeSet<RouteName> {
    let services = scope.egress.iter().flat_map(|e| e.services.iter());
    let ports = services.flat_map(|s| s.ports.iter().map(move |p| (s, p)));
    ports
        .map(|(service, port)| RouteName::Proxyless(service.host.clone(), port.number))
        .collect()
}
