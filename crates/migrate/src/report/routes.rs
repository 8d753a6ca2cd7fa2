//! What is served in the place of an Ingress.

mod action;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::edge::EdgeRoute;
use model::{Kind, Object, ObjectKey, ObjectName};
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, HttpRoute, StringMatch, VirtualService};
use serde::Serialize;
use store::Snapshot;

/// A route.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Route {
    /// The host; `*` is every host.
    pub host: String,
    /// How the path is matched: `exact /a`, `prefix /a`, `regex /a(/.*)?`, `any path`.
    pub path: String,
    /// What requests must have besides: `method GET|HEAD`, `header x-user is a`.
    #[serde(rename = "if", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Where requests go; nowhere where the proxy answers itself.
    pub backends: Vec<Backend>,
    /// What is done: `rewrite to /`, `basic auth`, `redirect 301 to https://…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub does: Vec<String>,
    /// Why it refuses every request, where it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Arc<str>>,
    /// It answers as one whose backend is not there.
    #[serde(skip)]
    pub(super) is_unavailable: bool,
    /// It stands before others and says nothing of whether those serve requests: it leads to https, or takes paths that would
    /// get around what is protected.
    #[serde(skip)]
    pub(super) is_before: bool,
}

/// Where requests go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Backend {
    /// A Service, `namespace/name`, or another host.
    pub to: String,
    /// Its port; 0 for its only one.
    pub port: u32,
    /// Its share in hundred.
    pub percent: u32,
}

/// The routes of all Ingresses, by the Ingress that they are named after.
pub(super) struct Routes(BTreeMap<ObjectName, Vec<Route>>);

impl Routes {
    /// Those that are derived.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let settings = &snapshot.settings;
        let reading = Reading {
            domain: &settings.domain,
            namespace: &settings.features.edge_namespace,
        };
        let mut routes = BTreeMap::new();
        for service in snapshot.tables.virtual_services.iter() {
            reading.of_service(service, &mut routes);
        }
        Self(routes)
    }

    /// Those of an Ingress.
    pub(super) fn take(&mut self, ingress: &ObjectName) -> Vec<Route> {
        self.0.remove(ingress).unwrap_or_default()
    }
}

struct Reading<'a> {
    domain: &'a str,
    /// Whose Ingresses' routes have no namespace in their names.
    namespace: &'a str,
}

impl Reading<'_> {
    fn of_service(
        &self,
        service: &Object<VirtualService>,
        routes: &mut BTreeMap<ObjectName, Vec<Route>>,
    ) {
        let Some(derived) = &service.meta.derived else {
            return;
        };
        let from = derived.from.iter();
        let from: Vec<&ObjectKey> = from.filter(|key| key.kind == Kind::Ingress).collect();
        for (at, http) in service.spec.http.iter().enumerate() {
            let edge = derived.edge.get(&at);
            for name in self.owners(http, &from) {
                let of = routes.entry(name).or_default();
                of.extend(self.routes(&service.spec.hosts, http, edge));
            }
        }
    }

    /// The Ingress that a route is named after: those of the name before what is put behind it, the longest first.
    fn owners(&self, http: &HttpRoute, from: &[&ObjectKey]) -> Vec<ObjectName> {
        let named = from.iter().filter(|key| {
            let name = &key.name;
            let text = match *name.namespace == *self.namespace {
                true => name.name.to_string(),
                false => format!("{}/{}", name.namespace, name.name),
            };
            http.name == text
                || http
                    .name
                    .strip_prefix(&text)
                    .is_some_and(|rest| rest.starts_with('-'))
        });
        let best = named.max_by_key(|key| key.name.name.len());
        let all = match (best, from) {
            (Some(best), _) => vec![*best],
            (None, [first, ..]) => vec![*first],
            (None, []) => Vec::new(),
        };
        all.into_iter().map(|key| key.name.clone()).collect()
    }

    fn routes(
        &self,
        hosts: &[String],
        http: &HttpRoute,
        edge: Option<&Arc<EdgeRoute>>,
    ) -> Vec<Route> {
        let any = [HttpMatchRequest::default()];
        let matches = match http.r#match.is_empty() {
            true => &any[..],
            false => &http.r#match,
        };
        let backends = self.backends(http);
        let does = action::of(http, edge.map(|e| &**e), self.domain);
        let mut routes = Vec::new();
        for host in hosts {
            for matched in matches {
                routes.push(Route {
                    host: host.clone(),
                    path: path(matched),
                    conditions: conditions(matched),
                    backends: backends.clone(),
                    does: does.clone(),
                    closed: closed(http),
                    is_unavailable: is_unavailable(http),
                    is_before: leads_to_https(http) || is_guard(http),
                });
            }
        }
        routes
    }

    fn backends(&self, http: &HttpRoute) -> Vec<Backend> {
        let total: i32 = http.route.iter().map(|to| to.weight.max(0)).sum();
        let all = http.route.iter().filter_map(|to| {
            let destination = to.destination.as_ref()?;
            let percent = match total {
                0 => 100 / i32::try_from(http.route.len()).unwrap_or(1).max(1),
                total => to.weight * 100 / total,
            };
            Some(Backend {
                to: service_of(&destination.host, self.domain),
                port: destination.port.as_ref().map_or(0, |port| port.number),
                percent: u32::try_from(percent).unwrap_or_default(),
            })
        });
        all.collect()
    }
}

/// Why a route is closed.
fn closed(http: &HttpRoute) -> Option<Arc<str>> {
    http.direct_response.as_ref()?;
    let response = http.headers.as_ref()?.response.as_ref()?;
    let reason = response.set.get(convert::edge::REASON)?;
    Some(reason.replace("%%", "%").into())
}

/// Whether a route is closed because of what other routes protect.
fn is_guard(http: &HttpRoute) -> bool {
    closed(http).is_some() && !is_unavailable(http)
}

/// Whether a route answers as one whose backend is not there.
fn is_unavailable(http: &HttpRoute) -> bool {
    let answer = http.direct_response.as_ref();
    answer.is_some_and(|answer| answer.status == 503)
}

/// Whether a route sends clients to the same place over https.
fn leads_to_https(http: &HttpRoute) -> bool {
    http.redirect
        .as_ref()
        .is_some_and(|to| to.scheme == "https" && to.authority.is_empty() && to.uri.is_empty())
}

/// A Service's host as `namespace/name`; other hosts as they are.
pub(crate) fn service_of(host: &str, domain: &str) -> String {
    let rest = host.strip_suffix(domain);
    let infixes = [".svc.", convert::edge::ELSEWHERE];
    let rest = rest.and_then(|rest| infixes.iter().find_map(|infix| rest.strip_suffix(infix)));
    match rest.and_then(|rest| rest.rsplit_once('.')) {
        Some((name, namespace)) => format!("{namespace}/{name}"),
        None => host.to_owned(),
    }
}

/// How a path is matched: `exact /a`, `prefix /a`, `regex /a(/.*)?`, `any path`.
pub(crate) fn path(matched: &HttpMatchRequest) -> String {
    let text = match matched.uri.as_ref().and_then(|uri| uri.match_type.as_ref()) {
        None => return "any path".to_owned(),
        Some(MatchType::Exact(text)) => format!("exact {text}"),
        Some(MatchType::Prefix(text)) => format!("prefix {text}"),
        Some(MatchType::Regex(text)) => format!("regex {text}"),
    };
    match matched.ignore_uri_case {
        true => format!("{text}, in any case"),
        false => text,
    }
}

fn conditions(matched: &HttpMatchRequest) -> Vec<String> {
    let mut conditions = Vec::new();
    if let Some(method) = &matched.method {
        conditions.push(format!("method {}", text(method)));
    }
    if let Some(scheme) = &matched.scheme {
        conditions.push(format!("scheme {}", text(scheme)));
    }
    if matched.port != 0 {
        conditions.push(format!("port {}", matched.port));
    }
    for (name, value) in &matched.headers {
        conditions.push(format!("header {name} {}", text(value)));
    }
    for (name, value) in &matched.without_headers {
        conditions.push(format!("not header {name} {}", text(value)));
    }
    for (name, value) in &matched.query_params {
        conditions.push(format!("query {name} {}", text(value)));
    }
    conditions
}

fn text(matched: &StringMatch) -> String {
    match &matched.match_type {
        None => "present".to_owned(),
        Some(MatchType::Exact(text)) => format!("is {text}"),
        Some(MatchType::Prefix(text)) => format!("begins with {text}"),
        Some(MatchType::Regex(text)) => format!("matches {text}"),
    }
}
