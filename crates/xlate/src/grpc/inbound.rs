//! Listeners for what a server serves: which certificates connections need, and who may do what.
//!
//! A server asks for the listener of the address that it listens at, and serves nobody before it has it. So there is one for
//! each port of its workload that a service leads to, at each address that a server may bind.
//!
//! Istio: pilot/pkg/networking/grpcgen/lds.go buildInboundListeners, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use judge::judge_any;
use mesh::address::{WILDCARD_V4, WILDCARD_V6, additional, socket};
use mesh::capabilities::name;
use mesh::proxy::Traits;
use mesh::services::Addressing;
use mesh::view::ServiceTarget;
use model::diagnostic::Diagnostic;
use policy::authn::{MutualTls, PeerPolicies};
use policy::authz::{self, Policies, Surroundings};
use policy::filters;
use policy::security::SecurityOf;
use proto_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use proto_envoy::envoy::config::rbac::v3::Rbac;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{
    NonForwardingAction, Route, RouteConfiguration, RouteMatch, VirtualHost,
};
use proto_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter,
};
use store::{Reads, Snapshot};
use xds::{Resource, any};

use super::{by_name, tls};
use crate::hashed::Hashed;
use crate::judged;
use crate::routes::with_port;

/// What the names of listeners of servers begin with, before the address; the bootstrap says so.
///
/// Istio: pkg/istio-agent/grpcxds/grpc_bootstrap.go, 1.32.
const PREFIX: &str = "xds.istio.io/grpc/lds/inbound/";

/// The label of workloads that clients expect to speak mutual TLS.
const TLS_MODE: &str = "security.istio.io/tlsMode";

/// A gRPC library as a server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Server {
    /// Which policies it follows.
    policies: SecurityOf,
    /// The service ports that its workload serves.
    targets: Arc<[ServiceTarget]>,
    /// The addresses of its workload.
    addresses: Arc<[IpAddr]>,
    /// By which addresses it knows services.
    addressing: Addressing,
    /// Whether clients expect it to speak mutual TLS.
    speaks_tls: bool,
}

impl Server {
    pub(super) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            policies: SecurityOf::of(cx, proxy),
            targets: proxy.targets.clone(),
            addresses: proxy.node.addresses.clone(),
            addressing: proxy.addressing(&cx.settings().features),
            speaks_tls: proxy.labels.get(TLS_MODE) == Some("istio"),
        }
    }

    /// What is wrong with the policies that it checks.
    pub(super) fn findings(&self, cx: &Cx<'_, Snapshot>) -> Vec<Diagnostic> {
        cx.query(&Checks(self.policies.clone())).found.clone()
    }

    /// The addresses at which it may listen.
    fn binds(&self) -> BTreeSet<String> {
        let usual = [WILDCARD_V4, WILDCARD_V6, "127.0.0.1", "::1"];
        let own = self.addresses.iter().map(IpAddr::to_string);
        usual.into_iter().map(str::to_owned).chain(own).collect()
    }
}

/// The listeners of a server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Listeners(pub(super) Hashed<Server>);

impl Query<Snapshot> for Listeners {
    type Value = Vec<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let server = &*self.0;
        let checks = cx.query(&Checks(server.policies.clone()));
        let peers = cx.query(&PeerPolicies(server.policies.namespace.clone()));
        let by_port = server
            .targets
            .iter()
            .map(|target| (target.target_port, target));
        let by_port: BTreeMap<u16, &ServiceTarget> = by_port.collect();
        let (binds, by_name) = (server.binds(), by_name());
        let mut found = Vec::new();
        for (port, target) in by_port {
            // Libraries cannot tell plain text from TLS: with PERMISSIVE they speak what clients expect.
            let mutual = match peers.of_workload(&server.policies.labels, port) {
                MutualTls::Strict => true,
                MutualTls::Permissive => server.speaks_tls,
                MutualTls::Disable => false,
            };
            let extra = server.addressing.extra(&target.service);
            for bind in &binds {
                let name = format!("{PREFIX}{}", with_port(bind, port));
                let listener = Listener {
                    name,
                    address: Some(socket(bind, port)),
                    additional_addresses: additional(&extra, port),
                    filter_chains: vec![chain(mutual, &checks.filters)],
                    ..Listener::default()
                };
                let resource = judged::grpc_listener(&listener);
                found.push(Arc::new(resource.with_subscription_rule(by_name.clone())));
            }
        }
        found
    }
}

/// The chain of all connections of a port.
fn chain(mutual: bool, checks: &[HttpFilter]) -> FilterChain {
    let kind = match mutual {
        true => "mtls",
        false => "plaintext",
    };
    let router = filters::router(false);
    let manager = HttpConnectionManager {
        http_filters: checks.iter().cloned().chain([router]).collect(),
        route_specifier: Some(RouteSpecifier::RouteConfig(every_request())),
        ..HttpConnectionManager::default()
    };
    FilterChain {
        name: format!("inbound-{kind}"),
        filters: vec![filters::network(
            &format!("inbound-hcm{kind}"),
            any(&manager),
        )],
        transport_socket: mutual.then(tls::downstream),
        ..FilterChain::default()
    }
}

/// Every request is for the server itself.
fn every_request() -> RouteConfiguration {
    RouteConfiguration {
        name: "inbound".to_owned(),
        virtual_hosts: vec![VirtualHost {
            domains: vec!["*".to_owned()],
            routes: vec![Route {
                r#match: Some(RouteMatch {
                    path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
                    ..RouteMatch::default()
                }),
                action: Some(Action::NonForwardingAction(NonForwardingAction {})),
                ..Route::default()
            }],
            ..VirtualHost::default()
        }],
        ..RouteConfiguration::default()
    }
}

/// The filters that check requests of workloads, with what is wrong with the policies behind them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Checks(SecurityOf);

#[derive(PartialEq, Debug)]
struct Checked {
    filters: Vec<HttpFilter>,
    found: Vec<Diagnostic>,
}

impl Query<Snapshot> for Checks {
    type Value = Checked;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Checked {
        let mut found = Vec::new();
        let policies = Policies::of_workload(cx, &self.0.namespace, &self.0.labels);
        let filters = Surroundings::with(cx, cx.settings(), |around| {
            authz::grpc(&policies, around, &mut found)
        });
        let filters = filters.into_iter().map(|filter| sound(filter, &mut found));
        Checked {
            filters: filters.collect(),
            found,
        }
    }
}

/// The filter, or one that refuses every request where libraries would refuse the filter, and the listener with it.
fn sound(filter: HttpFilter, found: &mut Vec<Diagnostic>) -> HttpFilter {
    let Some(ConfigType::TypedConfig(config)) = &filter.config_type else {
        return filter;
    };
    let Err(fault) = judge_any(&config.type_url, &config.value) else {
        return filter;
    };
    let effect = format!("{}: every request is refused", filter.name);
    found.push(judged::finding(None, &effect, &fault));
    let nobody = HttpRbac {
        rules: Some(Rbac::default()),
        ..HttpRbac::default()
    };
    filters::http(name::HTTP_RBAC, any(&nobody))
}
