//! The routes of a rule: redirects to HTTPS, retries by method, and 503 where it is closed.

use std::collections::BTreeMap;
use std::sync::Arc;

use annotations::Retry;
use model::edge::EdgeRoute;
use model::settings::Features;
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{
    Headers, HttpDirectResponse, HttpMatchRequest, HttpRedirect, HttpRetry, HttpRoute, StringMatch,
};

use super::draft::Draft;
use super::matching::{matched, methods};

/// The header that says why a route is closed.
pub const REASON: &str = "x-pilothouse-closed";

/// Methods whose requests are not sent again, since they may not mean the same twice.
const NOT_REPEATED: [&str; 3] = ["POST", "LOCK", "PATCH"];

/// A route with what Istio's kind has no field for.
pub(super) type Route = (HttpRoute, Option<Arc<EdgeRoute>>);

/// The routes of a rule, in order.
pub(super) fn routes(draft: &Draft, features: &Features) -> Vec<Route> {
    let mut asked = matched(&draft.asks);
    if let Some(reason) = &draft.closed {
        return vec![(closed(&draft.route.name, vec![asked], reason), None)];
    }
    let mut routes = Vec::new();
    if let Some(https) = draft.https {
        let mut plain = asked.clone();
        plain.port = features.edge_http_port.get().into();
        match https.by_forwarded {
            // Whoever is trusted to say so has ended TLS.
            true => {
                let header = ("x-forwarded-proto".to_owned(), exact("https"));
                plain.without_headers.extend([header]);
            }
            false => asked.port = features.edge_https_port.get().into(),
        }
        let status = https.status;
        routes.push((secured(&draft.route.name, plain, status, features), None));
    }
    if draft.excludes_queries {
        let mut with_query = asked.clone();
        let header = (":path".to_owned(), regex(WITH_QUERY));
        with_query.headers.extend([header]);
        let reason = "rewrite-target has a query, and so has the request";
        routes.push((closed(&draft.route.name, vec![with_query], reason), None));
    }
    let mut route = draft.route.clone();
    route.r#match = vec![asked];
    let is_answer = route.route.is_empty();
    let edge = &draft.policy.edge;
    let edge = (!is_answer && *edge != EdgeRoute::default()).then(|| Arc::new(edge.clone()));
    match &draft.retry {
        Some(retry) if !is_answer => routes.extend(retried(draft, &route, retry, edge.as_ref())),
        _ => routes.push((route, edge)),
    }
    routes
}

/// Paths with a query.
const WITH_QUERY: &str = r"[^?]*\?.*";

fn exact(text: &str) -> StringMatch {
    StringMatch {
        match_type: Some(MatchType::Exact(text.to_owned())),
    }
}

fn regex(text: &str) -> StringMatch {
    StringMatch {
        match_type: Some(MatchType::Regex(text.to_owned())),
    }
}

/// A route that answers 503 and says why.
pub fn closed(name: &str, asked: Vec<HttpMatchRequest>, reason: &str) -> HttpRoute {
    let reason = reason.replace('%', "%%");
    HttpRoute {
        name: name.to_owned(),
        r#match: asked,
        direct_response: Some(HttpDirectResponse {
            status: 503,
            body: None,
        }),
        headers: Some(Headers {
            request: None,
            response: Some(HeaderOperations {
                set: BTreeMap::from([(REASON.to_owned(), reason)]),
                ..HeaderOperations::default()
            }),
        }),
        ..HttpRoute::default()
    }
}

/// A route that sends clients to HTTPS.
pub(crate) fn secured(
    name: &str,
    asked: HttpMatchRequest,
    code: u16,
    features: &Features,
) -> HttpRoute {
    use proto_istio::networking::http_redirect::RedirectPort;
    let port = features.edge_https_port.get();
    HttpRoute {
        name: name.to_owned(),
        r#match: vec![asked],
        redirect: Some(HttpRedirect {
            scheme: "https".to_owned(),
            redirect_code: code.into(),
            redirect_port: (port != 443).then(|| RedirectPort::Port(port.into())),
            ..HttpRedirect::default()
        }),
        ..HttpRoute::default()
    }
}

/// The routes of requests that are sent again, and of those that are not.
fn retried(
    draft: &Draft,
    route: &HttpRoute,
    retry: &Retry,
    edge: Option<&Arc<EdgeRoute>>,
) -> Vec<Route> {
    let again = HttpRetry {
        attempts: i32::try_from(retry.attempts).unwrap_or(i32::MAX),
        per_try_timeout: retry.per_try.map(Into::into),
        retry_on: retry.on.to_string(),
        ..HttpRetry::default()
    };
    let never = HttpRetry::default();
    let with = |retries: &HttpRetry, only: Option<&[&str]>| {
        let mut route = route.clone();
        route.retries = Some(retries.clone());
        if let (Some(only), Some(asked)) = (only, route.r#match.first_mut()) {
            asked.method = methods(only);
        }
        (route, edge.cloned())
    };
    if retry.attempts == 0 || retry.non_idempotent {
        let retries = if retry.attempts == 0 { never } else { again };
        return vec![with(&retries, None)];
    }
    let stated = &draft.asks.methods;
    let is_risky = |method: &str| NOT_REPEATED.contains(&method);
    if stated.is_empty() {
        // Whatever is not known to be risky is sent again.
        return vec![with(&never, Some(&NOT_REPEATED)), with(&again, None)];
    }
    let (risky, safe): (Vec<&str>, Vec<&str>) =
        stated.iter().map(|m| &**m).partition(|m| is_risky(m));
    let mut routes = Vec::new();
    if !risky.is_empty() {
        routes.push(with(&never, Some(&risky)));
    }
    if !safe.is_empty() {
        routes.push(with(&again, Some(&safe)));
    }
    routes
}
