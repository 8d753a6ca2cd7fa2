//! Patches of route configurations, virtual hosts and routes.
//!
//! Istio: pilot/pkg/networking/core/envoyfilter/rc_patch.go, 1.32.

use proto_envoy::envoy::config::route::v3::route::Action as Does;
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};
use proto_istio::networking::envoy_filter::RouteConfigurationMatch;
use proto_istio::networking::envoy_filter::patch::Operation;
use proto_istio::networking::envoy_filter::route_configuration_match::RouteMatch;
use proto_istio::networking::envoy_filter::route_configuration_match::VirtualHostMatch;
use proto_istio::networking::envoy_filter::route_configuration_match::route_match::Action;

use super::Context;
use super::cluster::ClusterName;
use super::listener::Insert;
use super::merge::merge;
use super::patch::{Patch, RoutePatches};

/// Where a route configuration is used.
pub struct RouteContext<'a> {
    /// The side of the proxy.
    pub context: Context,
    /// Ports of services that lead to a port of a gateway; the port itself where there are none.
    pub service_ports: &'a dyn Fn(u32) -> Vec<u32>,
}

impl RouteContext<'_> {
    fn is_meant<T>(&self, patch: &Patch<T>, config: &RouteConfiguration) -> bool {
        patch.is_for(self.context) && self.matches(patch.route(), &config.name)
    }

    pub(super) fn matches(&self, wanted: Option<&RouteConfigurationMatch>, name: &str) -> bool {
        let Some(wanted) = wanted else {
            return true;
        };
        if !wanted.name.is_empty() && wanted.name != name {
            return false;
        }
        let number = wanted.port_number;
        if self.context != Context::Gateway {
            return number == 0 || number == listened(name);
        }
        let parts = GatewayRoute::of(name);
        (wanted.port_name.is_empty() || wanted.port_name == parts.port_name)
            && (wanted.gateway.is_empty() || wanted.gateway == parts.gateway)
            && (number == 0 || (self.service_ports)(parts.port).contains(&number))
    }
}

/// Patches a route configuration.
pub fn apply(patches: &RoutePatches, place: &RouteContext<'_>, config: &mut RouteConfiguration) {
    for patch in patches.configs.iter() {
        if let Some(lists) = patch.lists()
            && place.is_meant(patch, config)
        {
            merge(config, &patch.value, lists);
        }
    }
    let mut removed: Vec<String> = Vec::new();
    let mut hosts = std::mem::take(&mut config.virtual_hosts);
    for host in &mut hosts {
        if !host_stays(patches, place, config, host) {
            removed.push(host.name.clone());
        }
    }
    for patch in patches.hosts.iter() {
        if patch.operation == Operation::Add && place.is_meant(patch, config) {
            hosts.push(patch.value.clone());
        }
    }
    hosts.retain(|host| !removed.contains(&host.name));
    config.virtual_hosts = hosts;
}

fn host_stays(
    patches: &RoutePatches,
    place: &RouteContext<'_>,
    config: &RouteConfiguration,
    host: &mut VirtualHost,
) -> bool {
    for patch in patches.hosts.iter() {
        if !place.is_meant(patch, config) || !host_matches(patch, host) {
            continue;
        }
        match patch.operation {
            Operation::Remove => return false,
            Operation::Replace => host.clone_from(&patch.value),
            _ => {
                if let Some(lists) = patch.lists() {
                    merge(host, &patch.value, lists);
                }
            }
        }
    }
    let meant: Vec<&Patch<Route>> = patches
        .routes
        .iter()
        .filter(|patch| place.is_meant(patch, config))
        .collect();
    if !meant.is_empty() {
        patch_routes(&meant, host);
    }
    true
}

fn patch_routes(patches: &[&Patch<Route>], host: &mut VirtualHost) {
    // A route that was taken out is still there for those that are put before or after others, as in Istio.
    let mut routes: Vec<Option<Route>> = std::mem::take(&mut host.routes)
        .into_iter()
        .map(|route| route_stays(patches, host, route))
        .collect();
    for patch in patches {
        if !host_matches(patch, host) {
            continue;
        }
        let wanted = wanted_host(patch).and_then(|h| h.route.as_ref());
        let is_it = |route: &Option<Route>| match (wanted, route) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(wanted), Some(route)) => route_matches(wanted, route),
        };
        let first = patch.operation == Operation::InsertFirst;
        if first && !routes.iter().any(is_it) && wanted.is_some() {
            continue;
        }
        if let Some(insert) = Insert::of(patch.operation, wanted.is_some()) {
            insert.into(&mut routes, &Some(patch.value.clone()), is_it);
        }
    }
    host.routes = routes.into_iter().flatten().collect();
}

fn route_stays(patches: &[&Patch<Route>], host: &VirtualHost, mut route: Route) -> Option<Route> {
    for patch in patches {
        let wanted = wanted_host(patch).and_then(|h| h.route.as_ref());
        if !host_matches(patch, host) || !wanted.is_none_or(|w| route_matches(w, &route)) {
            continue;
        }
        if patch.operation == Operation::Remove {
            return None;
        }
        if let Some(lists) = patch.lists() {
            merge(&mut route, &patch.value, lists);
        }
    }
    Some(route)
}

fn wanted_host<T>(patch: &Patch<T>) -> Option<&VirtualHostMatch> {
    patch.route()?.vhost.as_ref()
}

pub(super) fn host_matches<T>(patch: &Patch<T>, host: &VirtualHost) -> bool {
    wanted_host(patch).is_none_or(|wanted| {
        (wanted.name.is_empty() || wanted.name == host.name)
            && (wanted.domain_name.is_empty() || host.domains.contains(&wanted.domain_name))
    })
}

pub(super) fn route_matches(wanted: &RouteMatch, route: &Route) -> bool {
    if !wanted.name.is_empty() && wanted.name != route.name {
        return false;
    }
    match (wanted.action(), &route.action) {
        (Action::Any, _) => true,
        (action, Some(Does::Route(_))) => action == Action::Route,
        (action, Some(Does::Redirect(_))) => action == Action::Redirect,
        (action, Some(Does::DirectResponse(_))) => action == Action::DirectResponse,
        (_, _) => true,
    }
}

/// The port in the name of a sidecar's route configuration; 0 where there is none.
fn listened(name: &str) -> u32 {
    if name.starts_with("inbound") {
        return ClusterName::of(name).port.unwrap_or(0);
    }
    name.parse().unwrap_or(0)
}

/// The port in the name of a gateway's route configuration; 0 where there is none.
pub fn port_of_gateway_route(name: &str) -> u32 {
    GatewayRoute::of(name).port
}

/// What the name of a gateway's route configuration says: `http.8080`, `https.443.web.shop-gateway.shop`.
#[derive(Default)]
struct GatewayRoute<'a> {
    port: u32,
    port_name: &'a str,
    gateway: String,
}

impl<'a> GatewayRoute<'a> {
    /// Istio: pilot/pkg/model/gateway.go ParseGatewayRDSRouteName, 1.32.
    fn of(name: &'a str) -> Self {
        if let Some(port) = name.strip_prefix("http.") {
            return Self {
                port: port.parse().unwrap_or(0),
                ..Self::default()
            };
        }
        let parts: Vec<&str> = name.split('.').collect();
        match parts[..] {
            // All of an edge on the port.
            ["https", port] => Self {
                port: port.parse().unwrap_or(0),
                ..Self::default()
            },
            ["https", port, port_name, gateway, namespace] => Self {
                port: port.parse().unwrap_or(0),
                port_name,
                gateway: format!("{namespace}/{gateway}"),
            },
            _ => Self::default(),
        }
    }
}
