//! A route configuration of a sidecar, under the name by which listeners ask for it.
//!
//! Istio: pilot/pkg/networking/core/httproute.go buildSidecarOutboundHTTPRouteConfig, 1.32.

use std::fmt;
use std::sync::Arc;

use incr::{Cx, Query};
use model::host::Hostname;
use prost_types::Duration;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_action::ClusterSpecifier;
use proto_envoy::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteAction, RouteConfiguration, VirtualHost,
};
use proto_istio::mesh::mesh_config::outbound_traffic_policy::Mode;
use store::Snapshot;

use super::client::RouteClient;
use super::encode::{ConfigBytes, Written};
use super::patched::Config;
use super::plan::PlanOf;
use super::rule::cluster_name;
use super::{action, matching};
use mesh::scope::{ScopeOf, SidecarScope};
use xds::Resource;

/// Envoy's own limit is smaller than what a rule may hold.
const MAX_DIRECT_RESPONSE: u32 = 1024 * 1024;

/// The name of a sidecar's route configuration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RouteName {
    /// Everything that is reached on a port: `80`.
    Port(u16),
    /// One service whose protocol the proxy has to find out: `cart.shop.svc.cluster.local:80`.
    Sniffed(Hostname, u16),
    /// One service for a gRPC library, by the name of its cluster: `outbound|80||cart.shop.svc.cluster.local`.
    Proxyless(Hostname, u16),
    /// The HTTP proxy of proxies whose traffic is not intercepted: `http_proxy`.
    HttpProxy,
    /// A Unix socket: `unix://...`.
    Unix(Arc<str>),
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteName::Port(port) => write!(f, "{port}"),
            RouteName::Sniffed(host, port) => write!(f, "{host}:{port}"),
            RouteName::Proxyless(host, port) => {
                f.write_str(&cluster_name(u32::from(*port), "", host))
            }
            RouteName::HttpProxy => f.write_str("http_proxy"),
            RouteName::Unix(path) => f.write_str(path),
        }
    }
}

/// The route configuration of that name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ConfigOf {
    pub(super) client: Arc<RouteClient>,
    pub(super) name: RouteName,
}

impl Query<Snapshot> for ConfigOf {
    type Value = Arc<Resource>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Resource> {
        let name = self.name.to_string();
        Arc::new(self.encoded(cx, &name).resource(name))
    }
}

impl Config for ConfigOf {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn encoded(&self, cx: &Cx<'_, Snapshot>, name: &str) -> Written {
        let scope = cx.query(&ScopeOf(self.client.scope.clone()));
        let port = match &self.name {
            RouteName::Port(port) | RouteName::Sniffed(_, port) | RouteName::Proxyless(_, port) => {
                *port
            }
            RouteName::HttpProxy | RouteName::Unix(_) => 0,
        };
        let Some(egress) = scope.egress_for_routes(port, name) else {
            let nothing = RouteConfiguration {
                name: name.to_owned(),
                validate_clusters: Some(false),
                ..RouteConfiguration::default()
            };
            return ConfigBytes::new(&nothing).finish();
        };
        let plan = cx.query(&PlanOf {
            client: self.client.clone(),
            egress,
            port: if scope.egress[egress].is_http_proxy() {
                0
            } else {
                port
            },
        });
        if let RouteName::Proxyless(host, _) = &self.name {
            let mut bytes = ConfigBytes::new(&RouteConfiguration {
                name: name.to_owned(),
                ..RouteConfiguration::default()
            });
            for host in plan.covering(&host.to_ascii_lowercase()) {
                bytes.host(&host.head, &host.routes.get(cx));
            }
            return bytes.finish();
        }
        let mut bytes = ConfigBytes::new(&configuration(name));
        if let RouteName::Sniffed(host, _) = &self.name {
            let found = plan
                .of_domain(&host.to_ascii_lowercase())
                .or_else(|| plan.of_domain(host));
            let everything = || vec!["*".to_owned()];
            if let Some(host) = found
                && let Some(head) = host.encode_head(everything(), self.client.attempt_count)
            {
                bytes.host(&head, &host.routes.get(cx));
            }
        } else {
            bytes.found(&plan.found);
            for host in &plan.hosts {
                bytes.host(&host.head, &host.routes.get(cx));
            }
            bytes.message(catch_all(
                &scope,
                self.client.attempt_count,
                self.client.forwarded_host,
            ));
        }
        bytes.finish()
    }
}

/// A route configuration without virtual hosts.
pub(super) fn configuration(name: &str) -> RouteConfiguration {
    RouteConfiguration {
        name: name.to_owned(),
        validate_clusters: Some(false),
        max_direct_response_body_size_bytes: Some(MAX_DIRECT_RESPONSE),
        ignore_port_in_host_matching: true,
        ..RouteConfiguration::default()
    }
}

/// What happens to requests for unknown hosts.
///
/// Istio: pilot/pkg/networking/core/httproute.go buildCatchAllVirtualHost, 1.32.
pub(super) fn catch_all(
    scope: &SidecarScope,
    attempt_count: bool,
    forwarded_host: bool,
) -> VirtualHost {
    let policy = scope.outbound_policy.as_ref();
    // The Sidecar's modes are those of the mesh, of which it knows fewer by name.
    let mode = policy.and_then(|p| Mode::try_from(p.mode).ok());
    let forward = |cluster: String| {
        let mut action = RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(cluster)),
            append_x_forwarded_host: forwarded_host,
            ..RouteAction::default()
        };
        action::set_timeout(&mut action, Some(Duration::default()));
        Action::Route(action)
    };
    let (name, action) = match mode {
        Some(Mode::AllowAnyDynamicDns) => (
            "allow_any_dynamic_dns",
            forward("AllowAnyDynamicDNSCluster".to_owned()),
        ),
        Some(Mode::AllowAny) => {
            let egress = policy.and_then(|p| p.egress_proxy.as_ref());
            let cluster = match egress {
                None => "PassthroughCluster".to_owned(),
                Some(d) if d.host.is_empty() => "UnknownService".to_owned(),
                Some(d) => {
                    let port = d.port.as_ref().map_or(0, |p| p.number);
                    cluster_name(port, &d.subset, &d.host)
                }
            };
            ("allow_any", forward(cluster))
        }
        Some(Mode::RegistryOnly) | None => (
            "block_all",
            Action::DirectResponse(DirectResponseAction {
                status: 502,
                ..DirectResponseAction::default()
            }),
        ),
    };
    VirtualHost {
        name: name.to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![Route {
            name: name.to_owned(),
            r#match: Some(matching::any_request()),
            action: Some(action),
            ..Route::default()
        }],
        include_request_attempt_count: attempt_count,
        ..VirtualHost::default()
    }
}
