//! Which outbound listeners a scope needs: services by port and address, and who wins where they collide.
//!
//! Istio: pilot/pkg/networking/core/listener.go buildSidecarOutboundListeners, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::change::ServiceKey as EndpointKey;
use model::diagnostic::Diagnostic;
use model::host::matches;
use model::protocol::Protocol;
use model::service::{Address, Endpoint, Port, Registry, Resolution, Service};
use proto_istio::networking::CaptureMode;
use store::{Reads, Snapshot};

use super::bound::Bound;
use super::entry::{Chain, Entry, Followed, HttpChain, ServiceKey, TcpChains};
use mesh::address::{UNIX_PREFIX, WILDCARD_V4, WILDCARD_V6, loopbacks, prefix, wildcards};
use mesh::class::{Handling, handling};
use mesh::hosts::Wildcards;
use mesh::reserved::Reserved;
use mesh::root::is_root;
use mesh::scope::{EgressScope, ScopeKey, ScopeOf, SidecarScope};
use mesh::scope::{Suspects, suspects_in};
use mesh::services::{Addressing, EndpointsOf};

/// The outbound listeners of the proxies of a scope that agree on the rest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PlanOf {
    /// What they see.
    pub(super) scope: ScopeKey,
    /// By which addresses they know services.
    pub(super) addressing: Addressing,
    /// Whether nothing is redirected, so that every listener binds its port.
    pub(super) binds_ports: bool,
    /// Ports that they cannot bind.
    pub(super) reserved: Reserved,
    /// The proxy's own address, where it is itself behind a service that has no address.
    pub(super) own_address: Option<Arc<str>>,
}

/// The outbound listeners of a scope.
#[derive(PartialEq, Debug)]
pub(super) struct Planned {
    /// The listeners.
    pub(super) entries: Arc<[Arc<Entry>]>,
    /// Ports of services that are not listened on, and why.
    pub(super) refused: Arc<[Diagnostic]>,
}

impl Query<Snapshot> for PlanOf {
    type Value = Planned;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Planned {
        let scope = cx.query(&ScopeOf(self.scope.clone()));
        let mut plan = Plan {
            cx,
            of: self,
            own: self.own_addresses(cx, &scope),
            wildcards: wildcards(self.addressing.families),
            entries: BTreeMap::new(),
            bound: Bound::default(),
        };
        for (at, egress) in scope.egress.iter().enumerate() {
            plan.add(egress, &suspects_in(cx, &scope, at));
        }
        let entries = plan.entries.into_values();
        Planned {
            entries: entries.map(|draft| Arc::new(draft.entry)).collect(),
            refused: plan.bound.findings(&self.scope.namespace),
        }
    }
}

/// The ports at each address of the Services of the proxies' own namespace.
type OwnAddresses = BTreeMap<IpAddr, BTreeSet<u16>>;

impl PlanOf {
    fn own_addresses(&self, cx: &Cx<'_, Snapshot>, scope: &SidecarScope) -> OwnAddresses {
        let mut own = OwnAddresses::new();
        if self.binds_ports {
            return own;
        }
        for service in scope.own_services() {
            let addresses = self.addressing.all(service);
            for address in addresses.iter().filter(|a| ***a != *WILDCARD_V4) {
                let ports = service.ports.iter().map(|port| port.number);
                add(&mut own, address, ports);
            }
            let listened = service.ports.iter().filter(|port| {
                is_listened_by_endpoint(service, &self.addressing.primary(service), port)
            });
            let listened: Vec<&Port> = listened.collect();
            if listened.is_empty() {
                continue;
            }
            for endpoint in endpoints(cx, service).iter() {
                if let Address::Socket { hosts, .. } = &endpoint.address {
                    let ports = listened
                        .iter()
                        .filter(|port| port.name == endpoint.port_name);
                    let ports: Vec<u16> = ports.map(|port| port.number).collect();
                    for host in hosts.iter().filter(|_| !ports.is_empty()) {
                        add(&mut own, host, ports.iter().copied());
                    }
                }
            }
        }
        own
    }
}

fn add(own: &mut OwnAddresses, address: &str, ports: impl Iterator<Item = u16>) {
    if let Ok(ip) = address.parse::<IpAddr>() {
        own.entry(ip.to_canonical()).or_default().extend(ports);
    }
}

/// Whether a port of a service without an address of its own has a listener for each of its endpoints.
fn is_listened_by_endpoint(service: &Service, address: &str, port: &Port) -> bool {
    service.resolution == Resolution::Passthrough
        && address == WILDCARD_V4
        && (port.protocol.is_tcp() || port.protocol.is_unsupported())
}

fn endpoints(cx: &Cx<'_, Snapshot>, service: &Service) -> Arc<[Endpoint]> {
    let key = EndpointKey {
        namespace: service.namespace.clone(),
        host: service.host.clone(),
    };
    (*cx.query(&EndpointsOf(key))).clone()
}

struct Plan<'a> {
    cx: &'a Cx<'a, Snapshot>,
    of: &'a PlanOf,
    own: OwnAddresses,
    wildcards: &'static [&'static str],
    entries: BTreeMap<(Arc<str>, u16), Draft>,
    /// What services of other namespaces have bound.
    bound: Bound,
}

struct Draft {
    entry: Entry,
    protocol: Protocol,
    locked: bool,
}

/// A port of a service that wants to be listened on.
struct Wanted<'a> {
    service: &'a Arc<Service>,
    address: Arc<str>,
    port: &'a Port,
    binds: Vec<Arc<str>>,
    binds_port: bool,
    /// Whether it is the port of a listener that a Sidecar lists.
    is_listed: bool,
    /// The addresses of one endpoint, where the service has a chain for each.
    endpoint: Vec<Arc<str>>,
}

impl Plan<'_> {
    fn add(&mut self, egress: &EgressScope, suspects: &Suspects) {
        let rules = Layer4Rules::of(egress, suspects);
        let stated = &egress.listener;
        let captured =
            stated.capture_mode() != CaptureMode::None && !stated.bind.starts_with(UNIX_PREFIX);
        let binds_port = self.of.binds_ports || !captured;
        let binds: Vec<Arc<str>> = if !stated.bind.is_empty() {
            vec![stated.bind.as_str().into()]
        } else if binds_port {
            let loopbacks = loopbacks(self.of.addressing.families);
            loopbacks.iter().map(|b| Arc::from(*b)).collect()
        } else {
            Vec::new()
        };
        if let Some(port) = &stated.port {
            let port = Port {
                name: port.name.as_str().into(),
                number: u16::try_from(port.number).unwrap_or(0),
                protocol: Protocol::parse(&port.protocol),
            };
            if !self.can_bind(binds_port, &binds, &port) {
                return;
            }
            for service in egress.services.iter() {
                let wanted = Wanted {
                    service,
                    address: self.of.addressing.primary(service),
                    port: &port,
                    binds: binds.clone(),
                    binds_port,
                    is_listed: true,
                    endpoint: Vec::new(),
                };
                self.want(wanted, &rules);
            }
            return;
        }
        // Ports that the Sidecar listed are not touched by its catch-all.
        for draft in self.entries.values_mut() {
            draft.locked = true;
        }
        for service in egress.services.iter() {
            let address = self.of.addressing.primary(service);
            for port in service.ports.iter() {
                if !self.can_bind(binds_port, &binds, port) {
                    continue;
                }
                let wanted = Wanted {
                    service,
                    address: address.clone(),
                    port,
                    binds: binds.clone(),
                    binds_port,
                    is_listed: false,
                    endpoint: Vec::new(),
                };
                self.want_any(wanted, &rules);
            }
        }
    }

    /// A service without an address of its own has a listener for each of its endpoints, if it speaks TCP.
    fn want_any(&mut self, wanted: Wanted<'_>, rules: &Layer4Rules<'_>) {
        let headless = wanted.binds.is_empty()
            && is_listened_by_endpoint(wanted.service, &wanted.address, wanted.port);
        if !headless {
            return self.want(wanted, rules);
        }
        let service = wanted.service;
        let endpoints = endpoints(self.cx, service);
        let mut served = endpoints
            .iter()
            .filter(|e| e.port_name == wanted.port.name)
            .peekable();
        let unknown = service.registry != Registry::Kubernetes && service.selector.is_empty();
        if served.peek().is_none() && unknown {
            return self.want(wanted, rules);
        }
        // Ports whose protocol is detected need listeners: a chain of one address would win over those of HTTP.
        let chains = wanted.port.protocol.is_tcp() && self.cx.settings().features.headless_chains;
        for endpoint in served {
            let Address::Socket { hosts, .. } = &endpoint.address else {
                continue;
            };
            let own = hosts.first() == self.of.own_address.as_ref();
            if own || hosts.iter().any(|h| prefix(h).is_none()) {
                continue;
            }
            if self.is_owned(service, wanted.port, hosts, &[]) {
                continue;
            }
            let (binds, endpoint) = if chains {
                (self.every_address(), hosts.to_vec())
            } else {
                (hosts.to_vec(), Vec::new())
            };
            let wanted = Wanted {
                binds,
                endpoint,
                address: wanted.address.clone(),
                ..wanted
            };
            self.want(wanted, rules);
        }
    }

    fn want(&mut self, mut wanted: Wanted<'_>, rules: &Layer4Rules<'_>) {
        if wanted.service.resolution == Resolution::Alias {
            return;
        }
        let handling = handling(wanted.port.protocol);
        let by_endpoint = !wanted.endpoint.is_empty();
        let mut ranges = std::mem::take(&mut wanted.endpoint);
        if wanted.binds.is_empty() {
            match handling {
                Handling::Tcp | Handling::Auto => ranges = self.bind_service(&mut wanted),
                Handling::Http => wanted.binds = self.every_address(),
                Handling::Ignored => return,
            }
            if self.is_owned(wanted.service, wanted.port, &wanted.binds, &ranges) {
                return;
            }
        }
        let number = wanted.port.number;
        let reserved = &self.of.reserved;
        let is_taken = |bind: &Arc<str>| reserved.is_taken(wanted.binds_port, bind, number);
        if wanted.binds.iter().any(is_taken) {
            return;
        }
        let bind = wanted.binds.first().cloned().unwrap_or_default();
        let key = (bind.clone(), wanted.port.number);
        let current = self.entries.get(&key);
        if current.is_some_and(|c| c.locked) {
            return;
        }
        let current_protocol = current.map(|c| c.protocol);
        let is_new = current.is_none() && handling != Handling::Ignored;
        if is_new && wanted.binds_port && !self.may_bind(&wanted) {
            return;
        }

        let wildcard = *bind == *self.wildcards[0];
        let proxy = wanted.port.protocol == Protocol::HttpProxy;
        let http = |detected: bool| Chain::Http(http_chain(&wanted, &bind, wildcard, detected));
        let tcp = || {
            Chain::Tcp(TcpChains {
                service: ServiceKey(wanted.service.clone()),
                address: wanted.address.clone(),
                port: wanted.port.clone(),
                ranges: ranges.clone(),
                by_endpoint,
                bind: bind.clone(),
                rules: rules.of_service(&wanted.service.host),
            })
        };
        let mut protocol = wanted.port.protocol;
        let chains = match (handling, current_protocol) {
            (Handling::Ignored, _) => return,
            // Whoever is there already serves the port's HTTP.
            (Handling::Http, Some(current)) if !proxy && !current.is_tcp() => return,
            (Handling::Http, _) if proxy => vec![http(false)],
            (Handling::Http, _) => {
                if wildcard {
                    // What is not HTTP falls through to where unknown traffic goes.
                    protocol = Protocol::Unsupported;
                }
                vec![http(wildcard)]
            }
            (Handling::Tcp, _) => vec![tcp()],
            (Handling::Auto, Some(current)) if !current.is_http() && !current.is_tcp() => {
                vec![tcp()]
            }
            (Handling::Auto, _) => vec![tcp(), http(true)],
        };
        if let Some(current) = current_protocol
            && !proxy
            && server_first_conflict(wanted.port.protocol, current)
        {
            return;
        }
        let replaces =
            handling == Handling::Auto && current_protocol.is_some_and(Protocol::is_http);
        // An HTTP proxy that meets another listener replaces it.
        let replaces = replaces || proxy;
        match self.entries.get_mut(&key) {
            Some(draft) if !replaces => {
                let tcp_over_tcp = handling == Handling::Tcp && draft.protocol.is_tcp();
                let over_auto = !draft.protocol.is_tcp() && !draft.protocol.is_http();
                if !tcp_over_tcp && !over_auto {
                    draft.protocol = Protocol::Unsupported;
                }
                draft.entry.batches.push(chains);
            }
            _ => {
                let entry = Entry {
                    port: wanted.port.number,
                    binds: wanted.binds.into(),
                    binds_port: wanted.binds_port,
                    batches: vec![chains],
                };
                let draft = Draft {
                    entry,
                    protocol,
                    locked: false,
                };
                self.entries.insert(key, draft);
            }
        }
    }

    /// Binds a service's own address; if that is a range, every address, with the ranges to be matched.
    fn bind_service(&self, wanted: &mut Wanted<'_>) -> Vec<Arc<str>> {
        let families = self.of.addressing.families;
        let mut extra = self.of.addressing.extra(wanted.service);
        let mut address = wanted.address.clone();
        let anywhere = wanted.service.registry == Registry::External && &*address == WILDCARD_V4;
        if anywhere && families.v6 {
            if families.v4 {
                extra.push(WILDCARD_V6.into());
            } else {
                address = WILDCARD_V6.into();
            }
        }
        if address.is_empty() {
            return Vec::new();
        }
        let is_range = address.contains('/');
        let all: Vec<Arc<str>> = std::iter::once(address).chain(extra).collect();
        if is_range {
            wanted.binds = self.every_address();
            all
        } else {
            wanted.binds = all;
            Vec::new()
        }
    }

    /// Whether what is listened on for a service of another namespace is the address of a Service of the proxies' own: the
    /// address itself, or a range around it where the Service has the port.
    fn is_owned(
        &self,
        service: &Service,
        port: &Port,
        binds: &[Arc<str>],
        ranges: &[Arc<str>],
    ) -> bool {
        let home = &self.of.scope.namespace;
        if self.own.is_empty() || service.namespace == *home {
            return false;
        }
        let ports_at = |bind: &Arc<str>| self.own.get(&bind.parse::<IpAddr>().ok()?.to_canonical());
        let covers = |range: &Arc<str>| {
            let own = self
                .own
                .iter()
                .filter(|(_, ports)| ports.contains(&port.number));
            prefix(range).is_some_and(|range| own.map(|(ip, _)| ip).any(|ip| range.contains(ip)))
        };
        let is_owned =
            binds.iter().any(|bind| ports_at(bind).is_some()) || ranges.iter().any(covers);
        is_owned && !is_root(self.cx, &service.namespace)
    }

    /// Whether a service may bind a port of its own: not too many of another namespace may, the oldest first. The root
    /// namespace is the operator's.
    fn may_bind(&mut self, wanted: &Wanted<'_>) -> bool {
        let namespace = &wanted.service.namespace;
        if wanted.is_listed || *namespace == self.of.scope.namespace || is_root(self.cx, namespace)
        {
            return true;
        }
        let most = self.cx.settings().features.namespace_ports.get();
        self.bound.take(most, wanted.service, wanted.port)
    }

    fn every_address(&self) -> Vec<Arc<str>> {
        self.wildcards.iter().map(|w| Arc::from(*w)).collect()
    }

    fn can_bind(&self, binds_port: bool, binds: &[Arc<str>], port: &Port) -> bool {
        let bind = binds.first().map_or("", |b| b);
        self.of.reserved.can_bind(binds_port, bind, port)
    }
}

fn http_chain(wanted: &Wanted<'_>, bind: &str, wildcard: bool, detected: bool) -> HttpChain {
    let (service, port) = (wanted.service, wanted.port);
    let own_routes = handling(port.protocol) == Handling::Auto && !wildcard;
    HttpChain {
        routes: match port.number {
            0 => bind.to_owned(),
            number if own_routes => format!("{}:{number}", service.host),
            number => number.to_string(),
        },
        grpc_web: port.protocol == Protocol::GrpcWeb,
        detected,
        absolute_urls: false,
        resolves: (service.host.is_wildcard() && service.resolution == Resolution::DynamicDns)
            .then(|| service.host.clone()),
    }
}

/// Whether looking at the first bytes would break a protocol in which the server speaks first.
///
/// Istio: pilot/pkg/networking/core/listener.go isConflictWithWellKnownPort, 1.32.
fn server_first_conflict(incoming: Protocol, current: Protocol) -> bool {
    let speaks_first = |p| matches!(p, Protocol::Mongo | Protocol::Mysql);
    (speaks_first(incoming) || speaks_first(current)) && incoming != current
}

/// The rules of an egress listener that have TCP or TLS routes, found by host.
struct Layer4Rules<'a> {
    exact: BTreeMap<&'a str, Vec<usize>>,
    wildcards: Wildcards<'a, Vec<usize>>,
    /// The wildcards again, for services whose hosts are wildcards.
    by_wildcard: BTreeMap<&'a str, Vec<usize>>,
    rules: Vec<Followed>,
}

impl<'a> Layer4Rules<'a> {
    fn of(egress: &'a EgressScope, suspects: &Suspects) -> Self {
        let mut rules = Vec::new();
        let mut exact: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut by_wildcard: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for head in egress.rules.iter().filter(|head| head.layer4) {
            let at = rules.len();
            rules.push(Followed {
                rule: head.name.clone(),
                refused: suspects.get(&head.name).is_some_and(|s| s.refused),
            });
            for host in &head.hosts {
                let map = match host.starts_with('*') {
                    true => &mut by_wildcard,
                    false => &mut exact,
                };
                map.entry(host).or_default().push(at);
            }
        }
        let wildcards = by_wildcard.iter().map(|(host, at)| (*host, at.clone()));
        Self {
            exact,
            wildcards: Wildcards::new(wildcards),
            by_wildcard,
            rules,
        }
    }

    /// The rules about a host, in order.
    fn of_service(&self, host: &str) -> Vec<Followed> {
        let mut found: Vec<usize> = self.wildcards.covering(host).flatten().copied().collect();
        if host.starts_with('*') {
            let covered = self.exact.iter().chain(&self.by_wildcard);
            let covered = covered.filter(|(stated, _)| matches(stated, host));
            found.extend(covered.flat_map(|(_, at)| at));
        } else {
            found.extend(self.exact.get(host).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|at| self.rules[at].clone()).collect()
    }
}
