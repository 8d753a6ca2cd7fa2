//! What a proxy may see: services and rules by visibility and by the Sidecar resource that selects it.
//!
//! A scope names rules by their [`VirtualServiceHead`]s and reads of each only where it sends to, so that an edit of a route
//! leaves it equal; services are shared with the lists they come from.
//!
//! Istio: pilot/pkg/model/sidecar.go, 1.32.

mod copies;
mod imports;
mod merge;
mod select;

pub use copies::{Suspect, Suspects, any_suspect, refused_in, suspects_in};
pub use merge::apart;

use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::Sidecar;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Role;
use model::object::ObjectName;
use model::protocol::Protocol;
use model::service::{Registry, Service};
use proto_istio::networking::{ConnectionPoolSettings, IstioEgressListener, OutboundTrafficPolicy};
use store::{Reads, Snapshot};

use crate::limits;
use crate::services::VisibleTo;
use crate::virtual_service::{MESH, VirtualServiceHead, VirtualServicesFor};

/// Which scope a proxy has: all proxies of a namespace that the same Sidecar (or none) selects share one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ScopeKey {
    /// The namespace of the proxy.
    pub namespace: Namespace,
    /// The Sidecar in force: selected by labels, the namespace's default, or the root namespace's default.
    pub sidecar: Option<ObjectName>,
    /// Gateways take every visible service and no Sidecar.
    pub gateway: bool,
}

/// One egress listener of a scope, with what it imports.
#[derive(Clone, PartialEq, Debug)]
pub struct EgressScope {
    /// As written; the catch-all of a proxy without Sidecar has no port.
    pub listener: IstioEgressListener,
    /// The services it imports, in Istio's order (oldest first, then by name), ports cut to those imported.
    pub services: Arc<[Arc<Service>]>,
    /// The rules it imports, in the order in which they apply; what they say is in
    /// [`VirtualServiceOf`](crate::virtual_service::VirtualServiceOf) of their name.
    pub rules: Arc<[Arc<VirtualServiceHead>]>,
    /// Whether the routes of some of them may be copied too often to the ports of the services.
    pub suspect: bool,
}

impl EgressScope {
    /// The port it stands for; none for the catch-all, 0 for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        self.listener
            .port
            .as_ref()
            .map(|p| u16::try_from(p.number).unwrap_or(0))
    }

    /// Whether it is an HTTP proxy, through which every port is reached.
    pub fn is_http_proxy(&self) -> bool {
        self.listener
            .port
            .as_ref()
            .is_some_and(|p| Protocol::parse(&p.protocol) == Protocol::HttpProxy)
    }

    /// The port that services must have to be imported, if that matters.
    fn port_to_match(&self) -> Option<u16> {
        port_to_match(&self.listener)
    }
}

fn port_to_match(listener: &IstioEgressListener) -> Option<u16> {
    let port = listener.port.as_ref()?;
    let number = u16::try_from(port.number).ok().filter(|n| *n != 0)?;
    (Protocol::parse(&port.protocol) != Protocol::HttpProxy).then_some(number)
}

/// Everything a proxy may see.
#[derive(Clone, PartialEq, Debug)]
pub struct SidecarScope {
    /// For whom.
    pub key: ScopeKey,
    /// The Sidecar, if one applies.
    pub sidecar: Option<Arc<Sidecar>>,
    /// Egress listeners in the order written: those with a port, then the catch-all. A gateway has one, without
    /// services, which holds the rules of the mesh.
    pub egress: Arc<[EgressScope]>,
    /// Every service that any egress listener imports, each host once; what clusters are made of.
    pub services: Arc<[Arc<Service>]>,
    /// Outbound policy of the Sidecar, else of the mesh; none for gateways.
    pub outbound_policy: Option<OutboundTrafficPolicy>,
    by_host: merge::ByHost,
}

impl SidecarScope {
    /// The service of that host.
    pub fn service(&self, host: &str) -> Option<&Arc<Service>> {
        self.by_host.get(host).map(|at| &self.services[*at])
    }

    /// Whether a host is what proxies of a DNS domain call a service for short: `cart`, `cart.shop` or `cart.shop.svc`.
    pub fn is_short_name(&self, host: &str, dns_domain: &str) -> bool {
        if !dns_domain.contains(".svc.") {
            return false;
        }
        let wider =
            std::iter::successors(Some(dns_domain), |domain| Some(domain.split_once('.')?.1));
        let mut full = wider.take(3).map(|domain| format!("{host}.{domain}"));
        full.any(|full| self.service(&full).is_some())
    }

    /// The Kubernetes Services of the proxy's own namespace: their names and addresses there are nobody else's.
    pub fn own_services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.iter().filter(|service| {
            service.registry == Registry::Kubernetes && service.namespace == self.key.namespace
        })
    }

    /// The services that a host, possibly a wildcard, covers.
    pub fn services_for<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Arc<Service>> {
        let wildcard = host.starts_with('*');
        let exact = (!wildcard).then(|| self.service(host)).flatten();
        let covered = self
            .services
            .iter()
            .filter(move |s| wildcard && model::host::matches(host, &s.host));
        exact.into_iter().chain(covered)
    }

    /// The egress listener whose rules a route configuration follows: the one of its port, or of its Unix socket
    /// (port 0, named by `bind`), else the catch-all.
    ///
    /// Istio: pilot/pkg/model/sidecar.go GetEgressListenerForRDS, 1.32.
    pub fn egress_for_routes(&self, port: u16, bind: &str) -> Option<usize> {
        self.egress.iter().position(|e| match e.port() {
            None => true,
            Some(p) => p == port && (port != 0 || e.listener.bind == bind),
        })
    }

    /// Whether the Sidecar replaces the inbound listeners.
    pub fn has_ingress(&self) -> bool {
        self.sidecar.as_ref().is_some_and(|s| !s.ingress.is_empty())
    }

    /// The connection pool of an inbound port: that of its ingress listener, else of the Sidecar.
    pub fn inbound_connection_pool(&self, port: u32) -> Option<&ConnectionPoolSettings> {
        let sidecar = self.sidecar.as_ref()?;
        sidecar
            .ingress
            .iter()
            .filter(|i| i.port.as_ref().is_some_and(|p| p.number == port))
            .find_map(|i| i.connection_pool.as_ref())
            .or(sidecar.inbound_connection_pool.as_ref())
    }
}

/// What a proxy may see.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ScopeOf(pub ScopeKey);

/// Which scope applies to a proxy of a namespace with these labels.
pub fn key_of(
    cx: &Cx<'_, Snapshot>,
    role: Role,
    namespace: &Namespace,
    labels: &Labels,
) -> ScopeKey {
    let gateway = role != Role::Sidecar;
    ScopeKey {
        namespace: namespace.clone(),
        sidecar: if gateway {
            None
        } else {
            select::sidecar_for(cx, namespace, labels)
        },
        gateway,
    }
}

impl Query<Snapshot> for ScopeOf {
    type Value = Arc<SidecarScope>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<SidecarScope> {
        Arc::new(if self.0.gateway {
            gateway_scope(cx, &self.0)
        } else {
            sidecar_scope(cx, &self.0)
        })
    }
}

/// Of ServiceEntries for one host that of the proxy's own namespace counts, as it does at sidecars; Istio's gateways take the oldest.
///
/// Istio: pilot/pkg/model/sidecar.go DefaultSidecarScopeForGateway, 1.32.
fn gateway_scope(cx: &Cx<'_, Snapshot>, key: &ScopeKey) -> SidecarScope {
    let mut merged = merge::Merged::at_home(&key.namespace);
    for service in imports::visible(cx, &key.namespace) {
        merged.add(&service);
    }
    let lists = cx.query(&VirtualServicesFor {
        namespace: key.namespace.clone(),
        gateway: MESH.into(),
    });
    let (services, by_host) = merged.finish();
    SidecarScope {
        key: key.clone(),
        sidecar: None,
        egress: Arc::from([EgressScope {
            listener: IstioEgressListener::default(),
            services: Arc::from([]),
            rules: lists.for_gateway(&key.namespace).cloned().collect(),
            suspect: false,
        }]),
        services,
        outbound_policy: None,
        by_host,
    }
}

/// How many of so many egress listeners import anything: all, unless each looking at every service is too much.
fn importing_listeners(cx: &Cx<'_, Snapshot>, namespace: &Namespace, listeners: usize) -> usize {
    if listeners < FEW_LISTENERS {
        return listeners;
    }
    let services = cx.query(&VisibleTo(namespace.clone())).len();
    most_importing(listeners, services)
}

fn most_importing(listeners: usize, services: usize) -> usize {
    listeners.min(limits::EGRESS_STEPS / services.max(1))
}

/// The first egress listener of a scope that imports nothing, because there are too many.
pub fn first_without_imports(cx: &Cx<'_, Snapshot>, scope: &SidecarScope) -> Option<usize> {
    let listeners = scope.egress.len();
    let importing = importing_listeners(cx, &scope.key.namespace, listeners);
    (importing < listeners).then_some(importing)
}

/// As many listeners are never too many.
const FEW_LISTENERS: usize = 128;

/// Istio: pilot/pkg/model/sidecar.go convertToSidecarScope, 1.32.
fn sidecar_scope(cx: &Cx<'_, Snapshot>, key: &ScopeKey) -> SidecarScope {
    let object = key.sidecar.as_ref().and_then(|n| cx.get::<Sidecar>(n));
    let sidecar = object.map(|o| Arc::new(o.spec.clone()));
    let listeners = match &sidecar {
        Some(s) if !s.egress.is_empty() => s.egress.clone(),
        _ => vec![IstioEgressListener {
            hosts: vec!["*/*".to_owned()],
            ..IstioEgressListener::default()
        }],
    };
    let most = importing_listeners(cx, &key.namespace, listeners.len());
    let egress: Arc<[EgressScope]> = listeners
        .into_iter()
        .enumerate()
        .map(|(at, listener)| match at < most {
            true => imports::import(cx, &key.namespace, listener),
            false => EgressScope {
                listener,
                services: Arc::from([]),
                rules: Arc::from([]),
                suspect: false,
            },
        })
        .collect();
    let (services, by_host) = merge::collect(cx, &key.namespace, &egress);
    let stated = sidecar
        .as_ref()
        .and_then(|s| s.outbound_traffic_policy.clone());
    let outbound_policy = stated.or_else(|| {
        let mesh = cx.settings().mesh.outbound_traffic_policy.as_ref()?;
        Some(OutboundTrafficPolicy {
            mode: mesh.mode,
            egress_proxy: None,
        })
    });
    SidecarScope {
        key: key.clone(),
        sidecar,
        egress,
        services,
        outbound_policy,
        by_host,
    }
}

#[cfg(test)]
mod tests {
    use super::most_importing;

    #[test]
    fn egress_listeners_import_until_they_are_compared_with_too_many_services() {
        assert_eq!(most_importing(1000, 50_000), 1000);
        assert_eq!(most_importing(20_000, 50_000), 1000);
        assert_eq!(most_importing(20_000, 0), 20_000);
    }
}
