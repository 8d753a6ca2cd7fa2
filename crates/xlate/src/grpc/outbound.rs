//! Listeners for what a client calls: one for each port of each service that it may see, under each name that it may use.
//!
//! Istio: pilot/pkg/networking/grpcgen/lds.go buildOutboundListeners, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use judge::judge;
use mesh::address::{additional, socket};
use mesh::capabilities::name;
use mesh::cluster_names;
use mesh::proxy::Traits;
use mesh::root::is_root;
use mesh::scope::{ScopeKey, ScopeOf, SidecarScope};
use mesh::services::Addressing;
use model::diagnostic::Diagnostic;
use model::service::{Port, Resolution, Service};
use policy::filters;
use prost::{Message, Name};
use proto_envoy::envoy::config::listener::v3::{ApiListener, Listener};
use proto_envoy::envoy::extensions::filters::http::stateful_session::v3::StatefulSession;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds,
};
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet, SubscriptionRule, any};

use crate::clusters::ServiceKeyed;
use crate::hashed::Hashed;
use crate::judged;
use crate::routes::{session_of, stateful_session, with_port};

/// A gRPC library as a client of services.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct GrpcClient {
    /// What it may see.
    scope: ScopeKey,
    /// By which addresses it knows services.
    addressing: Addressing,
    /// Its DNS domain, relative to which names are short.
    dns_domain: Arc<str>,
}

impl GrpcClient {
    pub(super) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            scope: proxy.scope.clone(),
            addressing: proxy.addressing(&cx.settings().features),
            dns_domain: proxy.node.dns_domain.clone(),
        }
    }

    /// What the client may call a host instead: what DNS completes for it, of its own namespace alone.
    ///
    /// Istio: tryFindFQDN.
    fn short_names(&self, host: &str) -> Vec<String> {
        let domain = &*self.dns_domain;
        let short = host.strip_suffix(domain);
        let short = short.and_then(|short| short.strip_suffix('.'));
        let Some(short) = short.filter(|short| !short.is_empty()) else {
            return Vec::new();
        };
        let namespace: &str = &self.scope.namespace;
        let within = [namespace.to_owned(), format!("{namespace}.svc")];
        let mut names: Vec<String> = within
            .into_iter()
            .filter(|suffix| domain.starts_with(suffix.as_str()))
            .map(|suffix| format!("{short}.{suffix}"))
            .collect();
        if !short.contains('.') {
            names.push(short.to_owned());
        }
        names
    }
}

/// The names that Services of Kubernetes keep to themselves in their namespace: their hosts, what these are called for short, and
/// what their Pods are called.
#[derive(Default)]
struct Kept {
    names: BTreeSet<String>,
    /// Those below which Pods have names.
    headless: BTreeSet<String>,
}

impl Kept {
    fn of(client: &GrpcClient, scope: &SidecarScope) -> Self {
        let mut kept = Self::default();
        for service in scope.own_services() {
            let mut names = client.short_names(&service.host);
            names.push(service.host.to_string());
            if service.resolution == Resolution::Passthrough {
                kept.headless.extend(names.iter().cloned());
            }
            kept.names.extend(names);
        }
        kept
    }

    fn has(&self, host: &str) -> bool {
        let mut above =
            std::iter::successors(host.split_once('.'), |(_, rest)| rest.split_once('.'));
        self.names.contains(host) || above.any(|(_, above)| self.headless.contains(above))
    }
}

/// The listeners of a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Listeners(pub(super) Hashed<GrpcClient>);

impl Query<Snapshot> for Listeners {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let client = &*self.0;
        let scope = cx.query(&ScopeOf(client.scope.clone()));
        let named = |service: &Arc<Service>, short: Option<String>| {
            let key = ServiceListeners {
                service: ServiceKeyed(service.clone()),
                addressing: client.addressing.clone(),
                short: short.map(Arc::from),
            };
            (*cx.query(&key)).clone()
        };
        let kept = Kept::of(client, &scope);
        let services = scope.services.iter().filter(|service| {
            let of = &service.namespace;
            let is_foreign = *of != client.scope.namespace && !is_root(cx, of);
            !(is_foreign && kept.has(&service.host))
        });
        let mut found: Vec<Arc<Resource>> = Vec::new();
        for service in services.clone() {
            found.extend(named(service, None).iter().cloned());
        }
        // A service that is called so stays ahead of those that are so for short.
        for service in services {
            for short in client.short_names(&service.host) {
                found.extend(named(service, Some(short)).iter().cloned());
            }
        }
        ResourceSet::new(found)
    }
}

/// The listeners of a service under one name, by its ports.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ServiceListeners {
    service: ServiceKeyed,
    addressing: Addressing,
    /// The name, if it is not the host.
    short: Option<Arc<str>>,
}

impl Query<Snapshot> for ServiceListeners {
    type Value = Arc<[Arc<Resource>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let service = &*self.service.0;
        let name: Arc<str> = match &self.short {
            Some(short) => short.clone(),
            None => Arc::from(&*service.host),
        };
        // Istio answers a name without a port with the listeners of all ports.
        let rule = Arc::new(SubscriptionRule {
            wildcard: self.short.is_none(),
            alias: Some(name.clone()),
        });
        let mut found = Vec::new();
        let session = match cx.settings().features.persistent_session_filter {
            true => session(service, &mut found),
            false => None,
        };
        let ports = service.ports.iter();
        let made = ports.map(|port| {
            let name = with_port(&name, port.number);
            let listener = self.listener(name, service, port, session.clone());
            let resource = judged::grpc_listener(&listener);
            Arc::new(
                resource
                    .finding(found.clone())
                    .with_subscription_rule(rule.clone()),
            )
        });
        made.collect()
    }
}

impl ServiceListeners {
    fn listener(
        &self,
        name: String,
        service: &Service,
        port: &Port,
        session: Option<HttpFilter>,
    ) -> Listener {
        let own = [filters::fault(), filters::router(false)];
        let manager = HttpConnectionManager {
            http_filters: session.into_iter().chain(own).collect(),
            route_specifier: Some(RouteSpecifier::Rds(Rds {
                config_source: Some(super::ads()),
                route_config_name: cluster_names::outbound(port.number, "", &service.host),
            })),
            ..HttpConnectionManager::default()
        };
        Listener {
            name,
            address: Some(socket(&self.addressing.primary(service), port.number)),
            additional_addresses: additional(&self.addressing.extra(service), port.number),
            api_listener: Some(ApiListener {
                api_listener: Some(any(&manager)),
            }),
            ..Listener::default()
        }
    }
}

/// The filter that keeps sessions, where the labels of the service ask for them in words that Envoy takes.
fn session(service: &Service, found: &mut Vec<Diagnostic>) -> Option<HttpFilter> {
    let config = stateful_session(&session_of(service)?);
    match judge(&StatefulSession::full_name(), &config.encode_to_vec()) {
        Ok(()) => Some(filters::http(name::STATEFUL_SESSION, any(&config))),
        Err(fault) => {
            let effect = format!("sessions of {} are not kept", service.host);
            found.push(judged::finding(
                Some(service.object.clone()),
                &effect,
                &fault,
            ));
            None
        }
    }
}
