//! Route configurations of a view.
//!
//! ```text
//! ScopeOf ─▶ PlanOf ───────────┐
//! VirtualServiceOf ──▶ RuleRoutes ───────┼─▶ ConfigOf ─▶ set       (gateways: GatewayPlanOf, GatewayConfigOf)
//! DestinationRules ─▶ ServiceRoutes
//! ```
//!
//! Routes are encoded once for each rule or service and port; a configuration puts encoded parts together.

mod action;
mod client;
mod config;
mod domains;
mod encode;
mod filters;
mod gateway;
mod hash;
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

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::node::Role;
use model::object::ObjectName;
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use store::{Reads, Snapshot};

use mesh::gateways;
use mesh::proxy_options;
use mesh::scope::refused_in;
use mesh::scope::{ScopeOf, SidecarScope, key_of};
use mesh::view::View;
use policy::envoy_filter::{Context, RoutePatches, RoutePatchesOf, SelectedBy};
use xds::{Resource, ResourceSet};

pub use config::RouteName;
use patched::{Config, Patched};

/// The routes of requests to unknown hosts by themselves, for the listener that resolves those hosts.
///
/// Istio: pilot/pkg/networking/core/listener_builder.go buildAllowAnyDynamicDNSHTTPFilterChain, 1.32.
pub(crate) fn unknown_host_routes(cx: &Cx<'_, Snapshot>, view: &View) -> RouteConfiguration {
    let client = client::RouteClient::of(cx, view);
    let scope = cx.query(&ScopeOf(client.scope.clone()));
    RouteConfiguration {
        virtual_hosts: vec![config::catch_all(&scope, &client)],
        ..config::configuration("allow_any_dynamic_dns")
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

/// The rules that proxies of a view refuse to follow, because their routes would be copied too often.
pub(crate) fn refused(cx: &Cx<'_, Snapshot>, view: &View) -> BTreeSet<ObjectName> {
    if view.role == Role::Sidecar {
        let scope = cx.query(&ScopeOf(key_of(cx, view)));
        return refused_in(cx, &scope);
    }
    let gateway = Arc::new(gateways::key_of(view));
    let merged = cx.query(&gateways::MergedGatewayOf((*gateway).clone()));
    let Some(merged) = merged.as_ref() else {
        return BTreeSet::new();
    };
    let client = Arc::new(client::RouteClient::of(cx, view));
    let configs = merged.by_route.keys().map(|name| gateway::GatewayConfigOf {
        client: client.clone(),
        gateway: gateway.clone(),
        name: name.clone(),
    });
    gateway::refused(cx, configs)
}

/// Route configurations that sidecars of a view should have: all that listeners may name.
pub fn of_sidecar(cx: &Cx<'_, Snapshot>, view: &Arc<View>) -> ResourceSet {
    let client = Arc::new(client::RouteClient::of(cx, view));
    let scope = cx.query(&ScopeOf(client.scope.clone()));
    let mut names = if client.proxyless {
        proxyless_names(&scope)
    } else {
        names(&scope)
    };
    let mesh_port = cx.settings().mesh.proxy_http_port;
    if mesh_port != 0 || proxy_options::port(view, "HTTP_PROXY_PORT").is_some_and(|p| p != 0) {
        names.insert(RouteName::HttpProxy);
    }
    let patches = cx.query(&RoutePatchesOf(SelectedBy::of(cx, view)));
    ResourceSet::new(names.into_iter().map(|name| {
        let key = config::ConfigOf {
            client: client.clone(),
            name,
        };
        resource(cx, key, Context::SidecarOutbound, &patches)
    }))
}

/// Route configurations that gateways of a view should have: all that listeners may name.
pub fn of_gateway(cx: &Cx<'_, Snapshot>, view: &Arc<View>) -> ResourceSet {
    let gateway = Arc::new(gateways::key_of(view));
    let merged = cx.query(&gateways::MergedGatewayOf((*gateway).clone()));
    let Some(merged) = merged.as_ref() else {
        return ResourceSet::default();
    };
    let client = Arc::new(client::RouteClient::of(cx, view));
    let patches = cx.query(&RoutePatchesOf(SelectedBy::of(cx, view)));
    ResourceSet::new(merged.by_route.keys().map(|name| {
        let key = gateway::GatewayConfigOf {
            client: client.clone(),
            gateway: gateway.clone(),
            name: name.clone(),
        };
        resource(cx, key, Context::Gateway, &patches)
    }))
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

/// The names by which gRPC libraries ask for the services of a scope.
fn proxyless_names(scope: &SidecarScope) -> BTreeSet<RouteName> {
    let services = scope.egress.iter().flat_map(|e| e.services.iter());
    let ports = services.flat_map(|s| s.ports.iter().map(move |p| (s, p)));
    ports
        .filter(|(_, port)| port.protocol.is_http_or_sniffed())
        .map(|(service, port)| RouteName::Proxyless(service.host.clone(), port.number))
        .collect()
}
