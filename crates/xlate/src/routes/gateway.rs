//! Route configurations of gateways.
//!
//! Istio: pilot/pkg/networking/core/gateway.go buildGatewayHTTPRouteConfig, 1.32.

mod challenges;
mod closed;
mod redirect;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, KeyedMap, Query};
use judge::Domains;
use model::diagnostic::Diagnostic;
use model::host::{Hostname, more_specific};
use model::kinds::istio::Gateway;
use model::object::ObjectName;
use model::service::Service;
use model::session::Session;
use proto_envoy::envoy::config::route::v3::VirtualHost;
use proto_envoy::envoy::config::route::v3::virtual_host::TlsRequirementType;
use store::{Reads, Snapshot};

use super::client::RouteClient;
use super::config::configuration;
use super::domains::with_port;
use super::encode::{ConfigBytes, Head, Written};
use super::filters;
use super::headers;
use super::patched::Config;
use super::plan::alias;
use super::rule::{HasRoutes, RuleRoutes, Target, session_of};

use crate::judged;
use mesh::challenges::Challenges;
use mesh::edge::AskedOf;
use mesh::gateways::{
    self, GatewayKey, GatewayServer, MergedGatewayOf, Owners, OwnersAt, Redirects, is_tls,
};
use mesh::limits;
use mesh::scope::{ScopeOf, SidecarScope};
use mesh::services::OfHost;
use mesh::virtual_service::{DestinationsOf, VirtualServiceOf, VirtualServicesFor};
use model::challenges::Answer;
use policy::edge::options::OptionsOf;
use policy::edge::{self, Can, Closed};
use policy::envoy_filter::route::port_of_gateway_route;
use xds::{Resource, any};

pub(super) use closed::closes_all;
use written::WrittenHostsOf;

/// A route configuration of a gateway proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct GatewayConfigOf {
    pub(super) client: Arc<RouteClient>,
    pub(super) gateway: Arc<GatewayKey>,
    /// Its name: `http.8080`, `https.443.web.shop.edge`.
    pub(super) name: Arc<str>,
}

impl Query<Snapshot> for GatewayConfigOf {
    type Value = Arc<Resource>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<Resource> {
        Arc::new(self.encoded(cx, &self.name).resource(self.name.clone()))
    }
}

impl Config for GatewayConfigOf {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn encoded(&self, cx: &Cx<'_, Snapshot>, name: &str) -> Written {
        let hosts = cx.query(&WrittenHostsOf(self.clone()));
        let mut config = configuration(name);
        let asked = cx.query(&AskedOf((*self.gateway).clone()));
        if let Some(asked) = &*asked {
            config.typed_per_filter_config = edge::scripts(&asked.needs, self.client.can);
            if self.client.can.keeps_forwarded() {
                headers::hide_stated(&mut config);
            }
        }
        let options = cx.query(&OptionsOf((*self.gateway).clone()));
        if let Some(options) = &*options
            && options.adds_real_ip
        {
            headers::tell_address(&mut config);
        }
        let mut bytes = ConfigBytes::new(&config);
        bytes.found(hosts.left_out());
        hosts.iter().for_each(|host| bytes.append(host));
        bytes.finish()
    }

    fn service_ports(&self, cx: &Cx<'_, Snapshot>, port: u32) -> Vec<u32> {
        let merged = cx.query(&MergedGatewayOf((*self.gateway).clone()));
        let Some(merged) = merged.as_ref() else {
            return vec![port];
        };
        let routes = merged.by_route.iter();
        let of_port = routes.filter(|(name, _)| port_of_gateway_route(name) == port);
        let servers = of_port
            .flat_map(|(_, servers)| servers)
            .filter_map(|at| merged.servers.get(*at));
        let stated: Vec<u32> = servers.map(|s| u32::from(s.port())).collect();
        if stated.is_empty() {
            vec![port]
        } else {
            stated
        }
    }
}

/// The virtual hosts of a route configuration, without their routes, sorted by name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GatewayPlanOf(GatewayConfigOf);

/// Virtual hosts of gateways, and rules that are not followed in them.
#[derive(PartialEq, Debug, Default)]
struct GatewayPlan {
    hosts: Vec<GatewayHost>,
    /// The domains that no virtual host has, because another has them or they are not any, and the redirects that do not act.
    found: Vec<Diagnostic>,
    /// The rules whose requests are refused, because their routes would be copied too often.
    refused: BTreeSet<ObjectName>,
    /// Everything is closed, because what is to be closed would be copied too often.
    closes_all: bool,
}

/// The rules that gateways refuse to follow, because their routes would be copied too often.
pub(super) fn refused(
    cx: &Cx<'_, Snapshot>,
    configs: impl Iterator<Item = GatewayConfigOf>,
) -> BTreeSet<ObjectName> {
    let plans = configs.map(|config| cx.query(&GatewayPlanOf(config)));
    plans.flat_map(|plan| plan.refused.clone()).collect()
}

/// A virtual host without its routes.
#[derive(PartialEq, Debug)]
struct GatewayHost {
    /// Its own fields, encoded.
    head: Head,
    routes: Vec<Arc<RuleRoutes>>,
}

impl Query<Snapshot> for GatewayPlanOf {
    type Value = Arc<GatewayPlan>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<GatewayPlan> {
        let key = &self.0;
        let merged = cx.query(&MergedGatewayOf((*key.gateway).clone()));
        let Some(merged) = merged.as_ref() else {
            return Arc::default();
        };
        let servers: Vec<&GatewayServer> = merged
            .by_route
            .get(&key.name)
            .into_iter()
            .flatten()
            .filter_map(|at| merged.servers.get(*at))
            .collect();
        let options = cx.query(&OptionsOf((*key.gateway).clone()));
        let options = (*options).as_ref();
        let mut hosts = Hosts {
            cx,
            key,
            owners: (*cx.query(&OwnersAt((*key.gateway).clone()))).clone(),
            http3: merged.http3_routes.contains(&key.name),
            edge: merged.edge,
            route_timeout: options.map_or(0, |options| options.downstream.route_timeout),
            closed: closed::of(cx, key, options.map(|options| &**options)),
            made: KeyedMap::default(),
            weights: KeyedMap::default(),
            hosts: BTreeMap::new(),
            redirects: Redirects::of(cx, &key.gateway, &servers),
            found: BTreeSet::new(),
        };
        let mut repeated: KeyedMap<(&str, &[String]), usize> = KeyedMap::default();
        for server in &servers {
            let alike = (&*server.gateway_name, &*server.server.hosts);
            let times = repeated.entry(alike).or_default();
            *times += 1;
            if *times <= limits::REPEATED_GATEWAYS {
                hosts.rules(server);
            }
            hosts.redirects(server);
        }
        for server in &servers {
            hosts.isolate(server);
        }
        if servers.iter().any(|server| !is_tls(&server.server)) {
            challenges::spread(&cx.query(&Challenges), &mut hosts.hosts);
        }
        hosts.finish(servers.first().map_or(0, |s| s.port()))
    }
}

/// What the routes of one rule at a gateway are made of; `None` where it makes none. A gateway may have very many rules:
/// an edit of one leaves what was looked up for the others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RoutesOfRule {
    client: Arc<RouteClient>,
    rule: ObjectName,
    gateway: Arc<str>,
    port: u16,
    tls: bool,
    http3: bool,
    edge: bool,
    route_timeout: u32,
}

impl Query<Snapshot> for RoutesOfRule {
    type Value = Option<Arc<RuleRoutes>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let client = &self.client;
        let scope = cx.query(&ScopeOf(client.scope.clone()));
        let destinations = cx.query(&DestinationsOf {
            rule: self.rule.clone(),
            source: None,
        });
        let sessions = cx.settings().features.persistent_session_filter;
        let targets = destinations.keys().filter_map(|host| {
            let service = self.service(cx, &scope, host);
            let known = scope.service(host).map(|s| s.namespace.clone());
            if service.is_none() && known.is_none() {
                return None;
            }
            let only_port = service.as_ref().and_then(|s| match &*s.ports {
                [only] => Some(only.number),
                _ => None,
            });
            Some(Target {
                host: host.clone(),
                namespace: known,
                port: only_port,
                alias: service.as_ref().and_then(|s| alias(s)),
                session: service
                    .as_ref()
                    .filter(|_| sessions)
                    .and_then(|s| session_of(s)),
                picker: service.and_then(|s| s.picker.clone()),
            })
        });
        let routes = Arc::new(RuleRoutes {
            rule: self.rule.clone(),
            refused: false,
            gateway: self.gateway.clone(),
            port: self.port,
            tls: self.tls,
            http3: self.http3,
            edge: self.edge,
            route_timeout: self.route_timeout,
            can: match self.edge {
                true => client.can,
                false => Can::default(),
            },
            forwarded_host: client.forwarded_host,
            trusts_forwarded: client.trusts_forwarded,
            proxyless: client.proxyless,
            namespace: client.namespace().clone(),
            labels: client.labels_for(cx, &self.rule),
            targets: targets.collect(),
        });
        let some = *cx.query(&HasRoutes(routes.clone()));
        some.then_some(routes)
    }
}

impl RoutesOfRule {
    /// The service that the rule means by a host: that of the rule's namespace if the gateway may see it.
    fn service(
        &self,
        cx: &Cx<'_, Snapshot>,
        scope: &SidecarScope,
        host: &Hostname,
    ) -> Option<Arc<Service>> {
        let services = cx.query(&OfHost(host.clone()));
        let visible = |s: &&Arc<Service>| s.export_to.allows(self.client.namespace());
        let own = services.iter().find(|s| s.namespace == self.rule.namespace);
        own.filter(visible).or_else(|| scope.service(host)).cloned()
    }
}

/// Virtual hosts under construction.
struct Hosts<'a, 'c> {
    cx: &'a Cx<'c, Snapshot>,
    key: &'a GatewayConfigOf,
    /// Whose hosts are, where they have owners.
    owners: Option<Arc<Owners>>,
    http3: bool,
    edge: bool,
    route_timeout: u32,
    /// What is closed, whatever rules say.
    closed: Vec<Closed>,
    /// The routes of a rule, by gateway and name, as the first server of the gateway has them.
    made: KeyedMap<(Arc<str>, ObjectName), Arc<RuleRoutes>>,
    /// What the routes of each rule weigh at most.
    weights: KeyedMap<ObjectName, usize>,
    hosts: BTreeMap<String, Host>,
    /// Whose redirects to HTTPS count for which hosts.
    redirects: Redirects,
    /// What is not done as stated. Several rules for a host find the same.
    found: BTreeSet<Diagnostic>,
}

struct Host {
    name: String,
    domains: Vec<String>,
    routes: Vec<Arc<RuleRoutes>>,
    session: Option<Session>,
    require_tls: bool,
    /// What is answered to challenges of certificate authorities.
    answers: Vec<Answer>,
}

impl Hosts<'_, '_> {
    /// Adds the routes of every rule that names the gateway, for the hosts that both have.
    fn rules(&mut self, server: &GatewayServer) {
        let namespace = self.key.client.namespace().clone();
        let lists = self.cx.query(&VirtualServicesFor {
            namespace: namespace.clone(),
            gateway: server.gateway_name.clone(),
        });
        for head in lists.for_gateway(&namespace) {
            let owners = self.owners.as_deref();
            let hosts = gateways::routed(self.cx, owners, &server.server.hosts, head);
            if hosts.is_empty() {
                continue;
            }
            let made = (server.gateway_name.clone(), head.name.clone());
            let routes = match self.made.get(&made) {
                Some(routes) => routes.clone(),
                None => {
                    let made_of = RoutesOfRule {
                        client: self.key.client.clone(),
                        rule: head.name.clone(),
                        gateway: server.gateway_name.clone(),
                        port: server.port(),
                        tls: server.server.tls.is_some(),
                        http3: self.http3,
                        edge: self.edge,
                        route_timeout: self.route_timeout,
                    };
                    let Some(routes) = (*self.cx.query(&made_of)).clone() else {
                        continue;
                    };
                    self.made.insert(made, routes.clone());
                    self.weights.insert(head.name.clone(), head.weight());
                    routes
                }
            };
            for host in hosts {
                let domain = host.to_ascii_lowercase();
                let session = routes.targets.iter().find(|t| *t.host == *domain);
                let host = self.hosts.entry(domain.clone()).or_insert_with(|| Host {
                    name: with_port(&domain, server.port()),
                    domains: vec![domain],
                    routes: Vec::new(),
                    session: session.and_then(|t| t.session.clone()),
                    require_tls: false,
                    answers: Vec::new(),
                });
                host.routes.push(routes.clone());
                if server.https_redirect() {
                    match self.redirects.refusal(self.cx, server, &host.domains[0]) {
                        Some(refusal) => {
                            self.found.insert(refusal);
                        }
                        None => host.require_tls = true,
                    }
                }
            }
        }
    }

    /// Keeps requests for a listener of the Gateway API that has no routes from those of a listener for a wildcard.
    ///
    /// Gateway API: GatewaySpec.listeners, "listener isolation". Istio serves them by the wildcard.
    fn isolate(&mut self, server: &GatewayServer) {
        for host in &server.server.hosts {
            let host = host.rsplit('/').next().unwrap_or(host);
            let domain = host.to_ascii_lowercase();
            if self.hosts.contains_key(&domain) {
                continue;
            }
            // What begins with an asterisk sorts before what begins with a plus sign.
            let mut wildcards = self.hosts.range("*".to_owned().."+".to_owned());
            let covers = |wildcard: &str| domain.ends_with(wildcard.trim_start_matches('*'));
            if !wildcards.any(|(wildcard, _)| covers(wildcard)) {
                continue;
            }
            let gateway = self.cx.get::<Gateway>(&server.gateway);
            if gateway.is_none_or(|gateway| gateway.meta.gateway_api().is_none()) {
                return;
            }
            let host = Host {
                name: with_port(&domain, server.port()),
                domains: vec![domain.clone()],
                routes: Vec::new(),
                session: None,
                require_tls: false,
                answers: Vec::new(),
            };
            self.hosts.insert(domain, host);
        }
    }

    /// The rules whose routes would be copied too often.
    fn copied_too_often(&self, hosts: &[Host]) -> BTreeSet<ObjectName> {
        let mut copies: KeyedMap<&ObjectName, usize> = KeyedMap::default();
        for routes in hosts.iter().flat_map(|host| &host.routes) {
            *copies.entry(&routes.rule).or_default() += 1;
        }
        let too_much = |weight: usize, copies| weight.saturating_mul(copies) > limits::COPIED_BYTES;
        let refused = copies.into_iter().filter(|(name, copies)| {
            let most = self.weights.get(*name).copied().unwrap_or(0);
            let exact = || weight_of(self.cx, name);
            too_much(most, *copies) && too_much(exact(), *copies)
        });
        refused.map(|(name, _)| name.clone()).collect()
    }

    fn finish(mut self, port: u16) -> Arc<GatewayPlan> {
        let attempt_count = self.key.client.attempt_count;
        if self.hosts.is_empty() {
            // Without routes every request is answered with 404.
            let nothing = Head::of(VirtualHost {
                name: with_port("blackhole", port),
                domains: vec!["*".to_owned()],
                ..VirtualHost::default()
            });
            let nothing = nothing.map(|head| GatewayHost {
                head,
                routes: Vec::new(),
            });
            return Arc::new(GatewayPlan {
                hosts: nothing.into_iter().collect(),
                found: self.found.into_iter().collect(),
                ..GatewayPlan::default()
            });
        }
        let made = std::mem::take(&mut self.hosts);
        let mut hosts = collapse(made.into_values().collect());
        let refused = self.copied_too_often(&hosts);
        if !refused.is_empty() {
            for routes in hosts.iter_mut().flat_map(|host| &mut host.routes) {
                if refused.contains(&routes.rule) {
                    *routes = Arc::new(RuleRoutes {
                        refused: true,
                        ..RuleRoutes::clone(routes)
                    });
                }
            }
        }
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        let closes_all = closed::too_many(&self.closed, &hosts);
        self.found.extend(share_out(&mut hosts));
        let hosts = hosts
            .into_iter()
            .filter_map(|host| {
                let session = host.session.iter();
                let answers = &host.answers;
                let answered = (!answers.is_empty())
                    .then(|| challenges::routes(answers, &host.domains, host.require_tls));
                let require_tls = host.require_tls && answered.is_none();
                let mut routes = answered.unwrap_or_default();
                routes.extend(closed::routes(&self.closed, closes_all, &host.domains));
                let head = Head::of(VirtualHost {
                    name: host.name,
                    domains: host.domains,
                    require_tls: if require_tls {
                        TlsRequirementType::All as i32
                    } else {
                        TlsRequirementType::None as i32
                    },
                    include_request_attempt_count: attempt_count,
                    typed_per_filter_config: session
                        .map(|s| (filters::SESSION.to_owned(), any(&filters::session(s))))
                        .collect(),
                    routes,
                    ..VirtualHost::default()
                })?;
                Some(GatewayHost {
                    head,
                    routes: host.routes,
                })
            })
            .collect();
        Arc::new(GatewayPlan {
            hosts,
            found: self.found.into_iter().collect(),
            refused,
            closes_all,
        })
    }
}

/// Gives each domain to the first virtual host that wants it; says which are left out.
fn share_out(hosts: &mut [Host]) -> Vec<Diagnostic> {
    let mut domains = Domains::default();
    let mut found = Vec::new();
    for (at, host) in hosts.iter_mut().enumerate() {
        let Host {
            domains: wanted,
            name,
            ..
        } = host;
        wanted.retain(|domain| match domains.take(domain, at) {
            Ok(()) => true,
            Err(fault) => {
                let effect = format!("virtual host {name}: a domain is left out");
                found.push(judged::finding(None, &effect, &fault));
                false
            }
        });
    }
    found
}

/// What the routes of a rule weigh.
fn weight_of(cx: &Cx<'_, Snapshot>, rule: &ObjectName) -> usize {
    let rule = cx.query(&VirtualServiceOf(rule.clone()));
    rule.as_ref().as_ref().map_or(0, |rule| rule.weight)
}

/// Makes one virtual host of several that have the same routes; the most specific host gives it its name.
///
/// Istio: pilot/pkg/networking/core/gateway.go collapseDuplicateRoutes, 1.32.
fn collapse(mut hosts: Vec<Host>) -> Vec<Host> {
    hosts.sort_by(|a, b| {
        let (a, b) = (&a.domains[0], &b.domains[0]);
        match (more_specific(a, b), a == b) {
            (_, true) => std::cmp::Ordering::Equal,
            (true, _) => std::cmp::Ordering::Less,
            (false, _) => std::cmp::Ordering::Greater,
        }
    });
    let mut kept: Vec<Host> = Vec::new();
    let mut known: KeyedMap<Vec<Arc<RuleRoutes>>, usize> = KeyedMap::default();
    for host in hosts {
        let same = known.get(&host.routes).and_then(|at| kept.get_mut(*at));
        let is_like =
            |s: &&mut Host| s.require_tls == host.require_tls && s.answers == host.answers;
        if let Some(same) = same.filter(is_like) {
            same.domains.extend(host.domains);
            continue;
        }
        known.insert(host.routes.clone(), kept.len());
        kept.push(host);
    }
    kept
}
