//! The routes that a rule makes: one memo for each rule, port and kind of client.
//!
//! Istio: pilot/pkg/networking/core/route/route.go BuildHTTPRoutesForVirtualService, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::host::Hostname;
use model::kinds::Kind;
use model::labels::Labels;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::{Picker, Service};
use model::session::Session;
use policy::edge::Can;
use proto_envoy::envoy::config::route::v3::Route;
use proto_istio::networking::load_balancer_settings::ConsistentHashLb;
use proto_istio::networking::{Destination, HttpMatchRequest, HttpRetry};
use store::{Reads, Snapshot};

use super::encode::RouteList;
use super::matching::is_catch_all;
use super::{action, edge, hash};
use crate::judged;
use mesh::destination_rule::{Client, MergedDestinationRule, Side, rule_for};
use mesh::virtual_service::{RefusedVirtualService, ResolvedVirtualService, VirtualServiceOf};

/// How sessions of a service are kept, as its labels ask for it.
pub(crate) fn session_of(service: &Service) -> Option<Session> {
    let stated = |label| service.labels.get(label).filter(|v| !v.is_empty());
    if let Some(cookie) = stated("istio.io/persistent-session") {
        let (name, path) = cookie.split_once(':').unwrap_or((cookie, "/"));
        return Some(Session::Cookie {
            name: name.into(),
            path: path.into(),
            lifetime: None,
        });
    }
    stated("istio.io/persistent-session-header").map(|name| Session::Header(name.into()))
}

/// What a route needs to know of a host that it sends to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Target {
    /// The host as rules name it.
    pub(super) host: Hostname,
    /// The namespace of the service that the client knows by this host: where its DestinationRule is looked for.
    pub(super) namespace: Option<Namespace>,
    /// Its port, if it has only one and that is not the port of the listener.
    pub(super) port: Option<u16>,
    /// The host it stands for.
    pub(super) alias: Option<Hostname>,
    /// Its sticky sessions.
    pub(super) session: Option<Session>,
    /// Who picks its endpoints.
    pub(super) picker: Option<Arc<Picker>>,
}

/// The routes of a rule on a port, for all clients alike.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct RuleRoutes {
    /// The rule.
    pub(super) rule: ObjectName,
    /// Whether its requests are refused, because its routes would be copied too often.
    pub(super) refused: bool,
    /// The gateway that applies it.
    pub(super) gateway: Arc<str>,
    /// The port of the listener; 0 for a proxy that is reached on one port for all.
    pub(super) port: u16,
    /// Whether the listener terminates TLS.
    pub(super) tls: bool,
    /// Whether answers say that HTTP/3 is spoken too.
    pub(super) http3: bool,
    /// Whether the listener has the filters that routes of an edge ask for.
    pub(super) edge: bool,
    /// How long answers may take whatever routes say, in seconds; 0 leaves that to routes.
    pub(super) route_timeout: u32,
    /// What those can do of what single routes ask for.
    pub(super) can: Can,
    /// Whether `x-forwarded-host` is added where the host is rewritten.
    pub(super) forwarded_host: bool,
    /// Whether proxies before the gateway are trusted to say how clients connect.
    pub(super) trusts_forwarded: bool,
    /// Whether the client is a gRPC library.
    pub(super) proxyless: bool,
    /// The namespace of the client.
    pub(super) namespace: Namespace,
    /// Labels of the client, only those that the rule or its DestinationRules read.
    pub(super) labels: Labels,
    /// The hosts it sends to, sorted; those not known to the client are absent.
    pub(super) targets: Arc<[Target]>,
}

impl Query<Snapshot> for RuleRoutes {
    type Value = Arc<RouteList>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<RouteList> {
        let rule = match self.refused {
            true => cx.query(&RefusedVirtualService(self.rule.clone())),
            false => cx.query(&VirtualServiceOf(self.rule.clone())),
        };
        let routes = rule
            .as_ref()
            .as_ref()
            .map_or_else(Vec::new, |rule| build(&Building::new(cx, self, rule)));
        let flagged = routes.iter().map(|built| (&built.route, built.takes_all));
        Arc::new(RouteList::of(flagged, |at, closed| {
            let built = &routes[at];
            let object = judged::of_rule(cx, &self.rule, &built.route.name);
            let is_own = object.name == self.rule && object.kind == Kind::VirtualService;
            let rule = judged::rule_of(cx, &object, &built.route.name);
            let found = closed.finding(Some(object), "requests for the route get 503");
            match rule {
                Some(rule) => found.at(format!("spec.rules[{rule}]")),
                None if is_own => found.at(format!("spec.http[{}]", built.at)),
                None => found,
            }
        }))
    }
}

/// Whether a rule makes any route at all.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct HasRoutes(pub(super) Arc<RuleRoutes>);

impl Query<Snapshot> for HasRoutes {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        !cx.query(&*self.0).is_empty()
    }
}

/// The names of the client's labels that the matches of a rule read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct LabelsReadBy(pub(super) ObjectName);

impl Query<Snapshot> for LabelsReadBy {
    type Value = Arc<BTreeSet<Arc<str>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let rule = cx.query(&VirtualServiceOf(self.0.clone()));
        let matches = rule
            .iter()
            .flat_map(|r| &r.spec.http)
            .flat_map(|h| &h.r#match);
        let keys = matches.flat_map(|m| m.source_labels.keys());
        Arc::new(keys.map(|k| k.as_str().into()).collect())
    }
}

/// A rule being turned into routes.
pub(super) struct Building<'a> {
    pub(super) key: &'a RuleRoutes,
    pub(super) rule: &'a ResolvedVirtualService,
    pub(super) default_retries: Option<&'a HttpRetry>,
    destination_rules: Vec<(&'a Hostname, Arc<MergedDestinationRule>)>,
}

impl<'a> Building<'a> {
    fn new(
        cx: &'a Cx<'_, Snapshot>,
        key: &'a RuleRoutes,
        rule: &'a ResolvedVirtualService,
    ) -> Self {
        let client = Client {
            namespace: &key.namespace,
            labels: &key.labels,
            side: Side::Client,
        };
        let found = key.targets.iter().filter_map(|target| {
            let rule = rule_for(cx, client, target.namespace.as_ref()?, &target.host)?;
            Some((&target.host, rule))
        });
        Self {
            key,
            rule,
            default_retries: cx.settings().mesh.default_http_retry_policy.as_ref(),
            destination_rules: found.collect(),
        }
    }

    pub(super) fn target(&self, host: &str) -> Option<&'a Target> {
        let targets = &self.key.targets;
        let at = targets
            .binary_search_by(|t| t.host.as_str().cmp(host))
            .ok()?;
        targets.get(at)
    }

    /// What is hashed on the way to a destination.
    pub(super) fn hash(&self, destination: &Destination) -> Option<&ConsistentHashLb> {
        let (_, rule) = self
            .destination_rules
            .iter()
            .find(|(host, _)| ***host == *destination.host)?;
        hash::of_destination(rule.spec(), destination)
    }

    /// The cluster of a destination.
    pub(super) fn cluster(&self, destination: Option<&Destination>) -> String {
        let Some(stated) = destination.filter(|d| !d.host.is_empty()) else {
            // Only a route of the Gateway API can have an invalid destination.
            return "UnknownService".to_owned();
        };
        let target = self.target(&stated.host);
        let host = target
            .and_then(|t| t.alias.as_deref())
            .unwrap_or(&stated.host);
        let port = match &stated.port {
            Some(port) => port.number,
            None => target.and_then(|t| t.port).unwrap_or(self.key.port).into(),
        };
        cluster_name(port, &stated.subset, host)
    }
}

/// The name of an outbound cluster.
pub(super) fn cluster_name(port: u32, subset: &str, host: &str) -> String {
    format!("outbound|{port}|{subset}|{host}")
}

/// A route of a rule.
struct Built {
    route: Route,
    /// Whether it, or the one that it belongs to, takes every request.
    takes_all: bool,
    /// The place of the HTTP route in the rule.
    at: usize,
}

/// The routes of a rule.
fn build(building: &Building<'_>) -> Vec<Built> {
    let mut routes = Vec::new();
    let mut add = |at: usize, route: Route, takes_all: bool| {
        let variants = edge::before(building, at, &route);
        routes.extend(variants.into_iter().chain([route]).map(|route| Built {
            route,
            takes_all,
            at,
        }));
    };
    for (at, http) in building.rule.spec.http.iter().enumerate() {
        if http.r#match.is_empty() {
            add(at, action::route(building, (at, http), None), true);
            break;
        }
        let applied = http.r#match.iter().filter(|m| applies(building.key, m));
        for matched in applied {
            let route = action::route(building, (at, http), Some(matched));
            let last = route.r#match.as_ref().is_some_and(is_catch_all);
            add(at, route, last);
            // No request goes past this route.
            if last {
                return routes;
            }
        }
    }
    routes
}

/// Whether a match concerns this port and this client.
fn applies(key: &RuleRoutes, matched: &HttpMatchRequest) -> bool {
    if matched.port != 0 && matched.port != u32::from(key.port) {
        return false;
    }
    if !matched.gateways.is_empty() {
        return matched.gateways.iter().any(|g| **g == *key.gateway);
    }
    key.labels.matches_map(&matched.source_labels)
        && (matched.source_namespace.is_empty() || matched.source_namespace == *key.namespace)
}
