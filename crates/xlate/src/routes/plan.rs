//! Which virtual hosts a sidecar has on a port, and where the routes of each come from.
//!
//! A plan reads no route, so that an edit of one leaves it equal: the configuration then only takes the new routes.
//!
//! Istio: pilot/pkg/networking/core/httproute.go BuildSidecarOutboundVirtualHosts and route/route.go
//! BuildSidecarVirtualHostWrapper, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, KeyedSet, Query};
use model::diagnostic::Diagnostic;
use model::host::{Hostname, matches};
use model::names::Namespace;
use model::service::{Registry, Resolution, Service};
use model::session::Session;
use proto_envoy::envoy::config::route::v3::VirtualHost;
use store::{Reads, Snapshot};

use super::addresses::Addresses;
use super::client::RouteClient;
use super::domains::{Claimed, Domains, Speaker, bracketed, meant, with_port};
use super::encode::{Head, RouteList};
use super::filters;
use super::named::{Named, Specificity};
use super::rule::{HasRoutes, RuleRoutes, Target, session_of};
use super::service::ServiceRoutes;
use crate::judged;
use mesh::root::is_root;
use mesh::scope::suspects_in;
use mesh::scope::{EgressScope, ScopeOf, SidecarScope};
use mesh::virtual_service::{DestinationsOf, MESH, Semantics, VirtualServiceHead};
use xds::any;

/// The virtual hosts of a port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PlanOf {
    pub(super) client: Arc<RouteClient>,
    /// Which egress listener's services and rules.
    pub(super) egress: usize,
    /// The port; 0 for all ports of a proxy that is reached on one.
    pub(super) port: u16,
}

/// Virtual hosts sorted by name.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Plan {
    pub(super) hosts: Vec<PlannedHost>,
    domains: judge::Domains,
    /// The domains that no virtual host has, because another has them or they are not any.
    pub(super) found: Vec<Diagnostic>,
    /// The domains with a wildcard, without ports.
    wildcards: Vec<(String, usize)>,
}

impl Plan {
    /// The virtual hosts of a service and of the wildcards that cover it.
    ///
    /// Istio: pilot/pkg/networking/grpcgen/rds.go filterVirtualHostsForHostname, 1.32.
    pub(super) fn covering(&self, host: &str) -> impl Iterator<Item = &PlannedHost> {
        let wildcards = self
            .wildcards
            .iter()
            .filter(|(domain, _)| matches(domain, host));
        let mut found: BTreeSet<usize> = wildcards.map(|(_, at)| *at).collect();
        found.extend(self.domains.owner(host));
        found.into_iter().filter_map(|at| self.hosts.get(at))
    }

    /// The virtual host of a domain.
    pub(super) fn of_domain(&self, domain: &str) -> Option<&PlannedHost> {
        self.hosts.get(self.domains.owner(domain)?)
    }
}

/// A virtual host without its routes.
#[derive(PartialEq, Debug)]
pub(super) struct PlannedHost {
    own: HostFields,
    pub(super) routes: RouteSource,
    /// Its own fields, encoded.
    pub(super) head: Head,
}

/// What a virtual host says beside its domains and routes.
#[derive(PartialEq, Debug)]
struct HostFields {
    name: String,
    session: Option<Session>,
}

/// Where routes come from.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum RouteSource {
    Service(Arc<ServiceRoutes>),
    Rule(Arc<RuleRoutes>),
}

impl RouteSource {
    /// The namespace of the object that says where requests go.
    fn namespace(&self) -> &Namespace {
        match self {
            RouteSource::Service(routes) => &routes.namespace,
            RouteSource::Rule(routes) => &routes.rule.namespace,
        }
    }

    pub(super) fn get(&self, cx: &Cx<'_, Snapshot>) -> Arc<RouteList> {
        match self {
            RouteSource::Service(key) => (*cx.query(&**key)).clone(),
            RouteSource::Rule(key) => (*cx.query(&**key)).clone(),
        }
    }
}

/// A service as it is on the port.
#[derive(Clone)]
pub(super) struct OnPort {
    pub(super) host: Hostname,
    service: Arc<Service>,
    /// Its HTTP ports among those that count here.
    ports: Vec<u16>,
    /// How many ports count here.
    several: bool,
}

/// One port's hosts that share their routes.
struct Group<'a> {
    port: u16,
    hosts: Vec<&'a str>,
    services: Vec<&'a OnPort>,
    routes: RouteSource,
}

impl Query<Snapshot> for PlanOf {
    type Value = Arc<Plan>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Plan> {
        let scope = cx.query(&ScopeOf(self.client.scope.clone()));
        let Some(egress) = scope.egress.get(self.egress) else {
            return Arc::default();
        };
        let services = services_on(egress, self.port);
        let groups = groups(cx, self, &scope, egress, &services);
        Arc::new(plan(cx, self, &scope, &groups))
    }
}

/// The services that have the port, by host. Hosts that differ in letters are one to Envoy: the first that is a Service of the
/// cluster counts, or the first of all.
fn services_on(egress: &EgressScope, port: u16) -> BTreeMap<Hostname, OnPort> {
    let mut found = BTreeMap::new();
    for service in egress.services.iter() {
        let counted: Vec<_> = service
            .ports
            .iter()
            .filter(|p| port == 0 || p.number == port)
            .take(if port == 0 { usize::MAX } else { 1 })
            .collect();
        if counted.is_empty() && port != 0 {
            continue;
        }
        let lower = || Hostname::from(service.host.to_ascii_lowercase());
        let host = match port != 0 && service.host.bytes().any(|b| b.is_ascii_uppercase()) {
            true => lower(),
            false => service.host.clone(),
        };
        let http = counted.iter().filter(|p| p.protocol.is_http_or_sniffed());
        let on_port = OnPort {
            host: host.clone(),
            service: service.clone(),
            ports: http.map(|p| p.number).collect(),
            several: counted.len() != 1,
        };
        let is_kube = |on: &OnPort| on.service.registry == Registry::Kubernetes;
        match found.get(&host) {
            Some(other) if is_kube(other) || !is_kube(&on_port) => {}
            _ => _ = found.insert(host, on_port),
        }
    }
    found
}

fn groups<'a>(
    cx: &Cx<'_, Snapshot>,
    key: &PlanOf,
    scope: &SidecarScope,
    egress: &'a EgressScope,
    services: &'a BTreeMap<Hostname, OnPort>,
) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    let mut ruled: KeyedSet<&Hostname> = KeyedSet::default();
    let specificity = Specificity::of(egress);
    let named = Named::new(services);
    let suspects = suspects_in(cx, scope, key.egress);
    for head in egress.rules.iter() {
        let suspect = suspects.get(&head.name);
        let of_port = suspect.and_then(|s| s.ports.get(&key.port));
        // On port 80 rules also make virtual hosts of their own.
        let concerned = || match suspect {
            Some(_) if key.port != 0 => of_port.is_some(),
            _ => named.concerned_by(head),
        };
        if key.port != 80 && !concerned() {
            continue;
        }
        let refused = suspect.is_some_and(|s| s.refused);
        let routes = RuleRoutes {
            refused,
            ..rule_routes(cx, key, scope, head, services)
        };
        let routes = Arc::new(routes);
        if !*cx.query(&HasRoutes(routes.clone())) {
            continue;
        }
        let (mut hosts, matched) = match of_port.filter(|_| refused && key.port != 80) {
            Some(found) => (Vec::new(), named.of_refused(head, found, &specificity)),
            None => named.split(head, &specificity),
        };
        if refused && key.port != 80 {
            // Its own hosts on every port of its services may be what is too much.
            hosts.clear();
        }
        if head.semantics == Semantics::Gateway {
            // Such a route is used by clients of its namespace, and for services of its namespace.
            let usable = |s: &&OnPort| {
                s.service.namespace == *head.namespace()
                    || *key.client.namespace() == *head.namespace()
            };
            if !matched.iter().any(usable) {
                continue;
            }
        }
        let mut by_port: BTreeMap<u16, Vec<&OnPort>> = BTreeMap::new();
        for service in matched {
            for port in &service.ports {
                by_port.entry(*port).or_default().push(service);
            }
        }
        if by_port.is_empty() && key.port == 80 {
            by_port.insert(80, Vec::new());
        }
        for (port, services) in by_port {
            ruled.extend(services.iter().map(|s| &s.host));
            groups.push(Group {
                port,
                hosts: hosts.clone(),
                services,
                routes: RouteSource::Rule(routes.clone()),
            });
        }
    }
    add_default_groups(key, scope, services, &ruled, &mut groups);
    groups
}

/// Adds the groups of services that no VirtualService routes.
fn add_default_groups<'a>(
    key: &PlanOf,
    scope: &SidecarScope,
    services: &'a BTreeMap<Hostname, OnPort>,
    ruled: &KeyedSet<&Hostname>,
    groups: &mut Vec<Group<'a>>,
) {
    for service in services.values() {
        // An alias is a domain of the service that it stands for.
        if ruled.contains(&service.host) || service.service.resolution == Resolution::Alias {
            continue;
        }
        for port in &service.ports {
            groups.push(Group {
                port: *port,
                hosts: Vec::new(),
                services: vec![service],
                routes: RouteSource::Service(Arc::new(ServiceRoutes {
                    host: service.host.clone(),
                    namespace: known_namespace(scope, &service.host)
                        .unwrap_or_else(|| service.service.namespace.clone()),
                    port: *port,
                    client: key.client.namespace().clone(),
                    labels: key.client.selectable.clone(),
                })),
            });
        }
    }
}

fn known_namespace(scope: &SidecarScope, host: &str) -> Option<Namespace> {
    scope.service(host).map(|s| s.namespace.clone())
}

fn rule_routes(
    cx: &Cx<'_, Snapshot>,
    key: &PlanOf,
    scope: &SidecarScope,
    head: &VirtualServiceHead,
    services: &BTreeMap<Hostname, OnPort>,
) -> RuleRoutes {
    let destinations = cx.query(&DestinationsOf {
        rule: head.name.clone(),
        source: None,
    });
    let sessions = cx.settings().features.persistent_session_filter;
    let targets = destinations.keys().filter_map(|host| {
        let on_port = services.get(host);
        let target = Target {
            namespace: known_namespace(scope, host),
            port: on_port
                .filter(|s| !s.several && key.port == 0)
                .and_then(|s| s.service.ports.first())
                .map(|p| p.number),
            alias: on_port.and_then(|s| alias(&s.service)),
            session: on_port
                .filter(|_| sessions)
                .and_then(|s| session_of(&s.service)),
            picker: on_port.and_then(|s| s.service.picker.clone()),
            host: host.clone(),
        };
        (target.namespace.is_some() || on_port.is_some()).then_some(target)
    });
    RuleRoutes {
        rule: head.name.clone(),
        refused: false,
        gateway: MESH.into(),
        port: key.port,
        tls: false,
        http3: false,
        edge: false,
        route_timeout: 0,
        can: Default::default(),
        forwarded_host: key.client.forwarded_host,
        trusts_forwarded: false,
        proxyless: key.client.proxyless,
        namespace: key.client.namespace().clone(),
        labels: key.client.labels_for(cx, &head.name),
        targets: targets.collect(),
    }
}

/// The host that a service stands for.
pub(super) fn alias(service: &Service) -> Option<Hostname> {
    let target = &service.kube.external_name;
    (!target.is_empty()).then(|| Hostname::new(target.clone()))
}

/// Names virtual hosts and shares domains out among them, the first that wants one gets it.
fn plan(cx: &Cx<'_, Snapshot>, key: &PlanOf, scope: &SidecarScope, groups: &[Group<'_>]) -> Plan {
    let mut claimed = Claimed::default();
    for group in groups {
        for service in &group.services {
            claimed.full.insert(with_port(&service.host, group.port));
            claimed.full.insert(service.host.to_string());
        }
    }
    let mut shadowing: BTreeSet<&str> = BTreeSet::new();
    for group in groups {
        for service in &group.services {
            let is_external = service.service.registry == Registry::External;
            if is_external && scope.is_short_name(&service.host, &key.client.dns_domain) {
                shadowing.insert(&service.host);
            }
        }
    }
    // By these names proxies mean a Service of the cluster.
    for group in groups {
        for service in group
            .services
            .iter()
            .filter(|s| shadowing.contains(&*s.host))
        {
            claimed.full.remove(&with_port(&service.host, group.port));
            claimed.full.remove(&*service.host);
        }
    }
    let mut planned = Planned {
        cx,
        key,
        claimed,
        names: BTreeSet::new(),
        hosts: Vec::new(),
    };
    if groups.iter().any(|group| planned.has_foreign(group)) {
        planned.keep_own(scope);
    }
    let addresses = planned.holders(groups);
    for group in groups {
        for host in &group.hosts {
            let host = host.to_ascii_lowercase();
            let named_port = key.client.proxyless.then(|| with_port(&host, group.port));
            let domains = Domains {
                all: std::iter::once(bracketed(&host))
                    .chain(named_port)
                    .collect(),
                short: Vec::new(),
            };
            planned.add(group, &host, None, domains);
        }
        for service in &group.services {
            let mut domains = planned.domains(&service.service, group.port);
            if shadowing.contains(&*service.host) {
                let short = [
                    meant(&service.host),
                    meant(&with_port(&service.host, group.port)),
                ];
                domains.all.retain(|domain| !short.contains(&meant(domain)));
            }
            let is_free =
                |domain: &String| !addresses.is_of_another(domain, group.port, &service.host);
            domains.all.retain(is_free);
            planned.add(group, &service.host, Some(&service.service), domains);
        }
    }
    planned.finish()
}

struct Planned<'a, 'c> {
    cx: &'a Cx<'c, Snapshot>,
    key: &'a PlanOf,
    claimed: Claimed,
    names: BTreeSet<String>,
    hosts: Vec<(HostFields, RouteSource, Vec<String>)>,
}

impl Planned<'_, '_> {
    /// Whether objects of a namespace are neither the proxy's own nor the operator's.
    fn is_foreign(&self, namespace: &Namespace) -> bool {
        namespace != self.key.client.namespace() && !is_root(self.cx, namespace)
    }

    fn has_foreign(&self, group: &Group<'_>) -> bool {
        let services = group.services.iter();
        let mut owners = services.map(|s| &s.service.namespace);
        owners.any(|of| self.is_foreign(of))
            || !group.hosts.is_empty() && self.is_foreign(group.routes.namespace())
    }

    /// Keeps the domains of the Services of the proxy's namespace, whatever their ports, for objects of that namespace.
    fn keep_own(&mut self, scope: &SidecarScope) {
        for service in scope.own_services() {
            let ports: Vec<u16> = match self.key.port {
                0 => service.ports.iter().map(|p| p.number).collect(),
                port => vec![port],
            };
            for port in ports {
                let domains = self.domains(service, port).all;
                let meant = domains.iter().map(|domain| meant(domain));
                self.claimed.own.extend(meant);
            }
        }
    }

    /// Whose the addresses are.
    fn holders<'g>(&self, groups: &'g [Group<'_>]) -> Addresses<'g> {
        let mut found = Addresses::default();
        for group in groups {
            for on_port in &group.services {
                let service = &*on_port.service;
                let is_kube = service.registry == Registry::Kubernetes;
                let is_own = service.namespace == *self.key.client.namespace();
                let is_first = is_kube && is_own || is_root(self.cx, &service.namespace);
                let at = (&on_port.host, group.port);
                let mut addresses = self.addresses(service);
                if on_port.host.parse::<IpAddr>().is_ok() {
                    addresses.push(on_port.host.as_arc().clone());
                }
                found.add(service, at, is_first, addresses);
            }
        }
        found
    }

    /// The addresses by which the proxy knows a service.
    fn addresses(&self, service: &Service) -> Vec<Arc<str>> {
        let addressing = &self.key.client.addressing;
        match self.key.port {
            0 => addressing.all(service),
            _ => addressing.of_port(service),
        }
    }

    fn domains(&self, service: &Service, port: u16) -> Domains {
        let client = &self.key.client;
        let speaker = Speaker {
            dns_domain: &client.dns_domain,
            port: (self.key.port == 0 || client.proxyless).then_some(port),
            absolute: self.cx.settings().features.absolute_fqdn_vhost_domain,
        };
        speaker.domains(service, self.addresses(service))
    }

    fn add(
        &mut self,
        group: &Group<'_>,
        host: &str,
        service: Option<&Arc<Service>>,
        domains: Domains,
    ) {
        let name = with_port(host, group.port);
        if !self.names.insert(name.clone()) {
            return;
        }
        let owner = service.map_or(group.routes.namespace(), |service| &service.namespace);
        let domains = self.claimed.claim(domains, self.is_foreign(owner));
        if domains.is_empty() {
            return;
        }
        let sessions = self.cx.settings().features.persistent_session_filter;
        let session = service.filter(|_| sessions).and_then(|s| session_of(s));
        let host = HostFields { name, session };
        // Where many ports share a configuration, only those of port 80 are called without port.
        let called_with_port = self.key.port == 0 && group.port != 80;
        let domains = domains.into_iter();
        let domains: Vec<String> = domains
            .filter(|d| !called_with_port || d.contains(':'))
            .collect();
        if !domains.is_empty() {
            self.hosts.push((host, group.routes.clone(), domains));
        }
    }

    fn finish(mut self) -> Plan {
        self.hosts.sort_by(|(a, ..), (b, ..)| a.name.cmp(&b.name));
        let mut plan = Plan::default();
        for (own, routes, mut domains) in self.hosts {
            let at = plan.hosts.len();
            domains.retain(|domain| match plan.domains.take(domain, at) {
                Ok(()) => true,
                Err(fault) => {
                    let effect = format!("virtual host {}: a domain is left out", own.name);
                    plan.found.push(judged::finding(None, &effect, &fault));
                    false
                }
            });
            let Some(head) = own.encode(domains.clone(), self.key.client.attempt_count) else {
                continue;
            };
            for domain in domains {
                if domain.starts_with('*') && !domain.contains(':') {
                    plan.wildcards.push((domain, at));
                }
            }
            plan.hosts.push(PlannedHost { own, routes, head });
        }
        plan
    }
}

impl PlannedHost {
    /// Its own fields with the domains given.
    pub(super) fn encode_head(&self, domains: Vec<String>, attempt_count: bool) -> Option<Head> {
        self.own.encode(domains, attempt_count)
    }
}

impl HostFields {
    fn encode(&self, domains: Vec<String>, attempt_count: bool) -> Option<Head> {
        let session = self
            .session
            .iter()
            .map(|s| (filters::SESSION.to_owned(), any(&filters::session(s))));
        Head::of(VirtualHost {
            name: self.name.clone(),
            domains,
            include_request_attempt_count: attempt_count,
            typed_per_filter_config: session.collect(),
            ..VirtualHost::default()
        })
    }
}
