//! What the routes of a rule weigh: about the bytes that Envoy's routes or filter chains made of them have.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::edge::EdgeRoute;
use prost::Message;
use proto_istio::networking::http_body::Specifier;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{
    Destination, HttpBody, HttpDirectResponse, HttpMatchRequest, HttpRoute, RouteDestination,
    StringMatch, TcpRoute, TlsMatchAttributes, TlsRoute, VirtualService,
};

use crate::limits::{COPIED_BYTES, ROUTE_BYTES};

const UNAVAILABLE: u32 = 503;
/// What refused requests are told.
const REASON: &str = "refused: the configuration of this route is too large";
/// What a range of addresses takes in a policy.
const RANGE_BYTES: usize = 48;
/// What a text takes beside itself.
const TEXT_BYTES: usize = 16;
/// The step of [`class`].
const STEP: usize = 4;
/// The largest weight of class 0.
const LIGHT: usize = 1 << 10;

/// What the HTTP routes of a rule weigh.
pub(super) fn of_http(routes: &[HttpRoute]) -> usize {
    routes
        .iter()
        .fold(0, |sum, route| sum.saturating_add(Route::of(route).total()))
}

/// What is held for HTTP routes: what they weigh, and more for each than Envoy's route has.
pub(super) fn held(routes: &[HttpRoute]) -> usize {
    let count = routes.iter().map(|route| route.r#match.len().max(1));
    let besides = count
        .sum::<usize>()
        .saturating_mul(model::budget::ROUTE_BYTES);
    of_http(routes).saturating_add(besides)
}

/// What its HTTP routes weigh by what they ask of filters: each match repeats it, twice where bodies are limited.
pub(super) fn of_edge(routes: &[HttpRoute], edge: &BTreeMap<usize, Arc<EdgeRoute>>) -> usize {
    let each = edge.iter().filter_map(|(at, asked)| {
        let matches = routes.get(*at)?.r#match.len().max(1);
        let copies = if asked.max_body.is_some() { 2 } else { 1 };
        Some(bytes_of(asked).saturating_mul(matches * copies))
    });
    each.fold(0, usize::saturating_add)
}

/// About the bytes of what a route asks of filters.
fn bytes_of(asked: &EdgeRoute) -> usize {
    let ranges = |count: usize| count.saturating_mul(RANGE_BYTES);
    let headers = |list: &BTreeMap<Arc<str>, Arc<str>>| -> usize {
        list.iter()
            .map(|(n, v)| n.len() + v.len() + TEXT_BYTES)
            .sum()
    };
    let mut sum = 0;
    if let Some(rules) = &asked.addresses {
        sum += ROUTE_BYTES + ranges(rules.allowed.len() + rules.denied.len());
    }
    if let Some(users) = &asked.users {
        sum += ROUTE_BYTES + users.realm.len() + users.lines.len();
    }
    if let Some(external) = &asked.external {
        let names = external.to_backend.iter();
        let names: usize = names.map(|name| name.len() + TEXT_BYTES).sum();
        let url = external.signin.as_ref().map_or(0, |url| url.len());
        let texts = external.host.len() + external.authority.len() + external.path.len();
        sum += ROUTE_BYTES + names + url + texts + headers(&external.headers);
    }
    for limit in &asked.limits {
        sum += ROUTE_BYTES + ranges(limit.except.len());
    }
    if let Some(fallback) = &asked.fallback {
        let statuses = fallback.statuses.len() * TEXT_BYTES;
        sum += ROUTE_BYTES + fallback.host.len() + statuses + headers(&fallback.headers);
    }
    if asked.max_body.is_some() {
        sum += ROUTE_BYTES;
    }
    if let Some(mcp) = &asked.mcp {
        let moved = mcp.moved.as_ref().map_or(0, |m| m.from.len() + m.to.len());
        sum += 2 * ROUTE_BYTES + moved;
    }
    if let Some(rpc) = &asked.rpc {
        sum += ROUTE_BYTES + rpc.bytes();
    }
    sum
}

/// What its TCP and TLS routes weigh: for each chain what its route says.
pub(super) fn of_layer4(spec: &VirtualService) -> usize {
    let tls = spec.tls.iter().map(|route| {
        let matches: usize = route.r#match.iter().map(Message::encoded_len).sum();
        let rest = route.encoded_len().saturating_sub(matches);
        let count = route.r#match.len().max(1);
        Route {
            rest,
            count,
            matches,
        }
        .total()
    });
    let tcp = spec
        .tcp
        .iter()
        .map(|route| route.encoded_len().saturating_add(ROUTE_BYTES));
    tls.chain(tcp).fold(0, usize::saturating_add)
}

/// What decides the weight of a route.
#[derive(Clone, Copy)]
pub(super) struct Route {
    /// Bytes of everything but matches.
    pub(super) rest: usize,
    /// How many matches; at least one.
    pub(super) count: usize,
    /// Bytes of the matches.
    pub(super) matches: usize,
}

impl Route {
    pub(super) fn of(route: &HttpRoute) -> Self {
        let matches: usize = route.r#match.iter().map(Message::encoded_len).sum();
        Self {
            rest: route.encoded_len().saturating_sub(matches),
            count: route.r#match.len().max(1),
            matches,
        }
    }

    /// Every match becomes a route of its own.
    pub(super) fn total(self) -> usize {
        let each = self.rest.saturating_add(ROUTE_BYTES);
        each.saturating_mul(self.count).saturating_add(self.matches)
    }
}

/// The class of a weight: 0 up to 1 KiB, then one more for each factor of four. Coarse, so that most edits of a rule
/// leave it as it is.
pub(super) fn class(weight: usize) -> u8 {
    let mut class = 0;
    let mut bound = LIGHT;
    while weight > bound && class < u8::MAX {
        bound = bound.saturating_mul(STEP);
        class += 1;
    }
    class
}

/// The largest weight of a class, and of every class below.
pub(super) fn bound(class: u8) -> usize {
    let mut bound = LIGHT;
    for _ in 0..class {
        bound = bound.saturating_mul(STEP);
        if bound > COPIED_BYTES {
            return usize::MAX;
        }
    }
    bound
}

/// A route that answers 503 to what these matches take, and to everything where there are none.
pub(super) fn refused_route(name: String, matches: Vec<HttpMatchRequest>) -> HttpRoute {
    HttpRoute {
        name,
        r#match: matches,
        direct_response: Some(HttpDirectResponse {
            status: UNAVAILABLE,
            body: Some(HttpBody {
                specifier: Some(Specifier::String(REASON.to_owned())),
            }),
        }),
        ..HttpRoute::default()
    }
}

/// Takes the place of all routes of a rule.
pub(super) fn refuse(spec: &mut VirtualService) {
    if !spec.http.is_empty() {
        refuse_http(spec);
    }
    refuse_layer4(spec);
}

/// Takes the place of HTTP routes that are too many: every request is answered with 503. That all requests match is said
/// with a condition, so that routes of other rules for the host do not come before it on gateways.
pub(super) fn refuse_http(spec: &mut VirtualService) {
    let any = StringMatch {
        match_type: Some(MatchType::Regex("*".to_owned())),
    };
    let every = HttpMatchRequest {
        headers: [(":path".to_owned(), any)].into(),
        ..HttpMatchRequest::default()
    };
    spec.http = vec![refused_route("refused".to_owned(), vec![every])];
}

/// Takes the place of TCP and TLS routes that are too many: connections go to a cluster that is not there, which closes
/// them.
pub(super) fn refuse_layer4(spec: &mut VirtualService) {
    let nowhere = || {
        vec![RouteDestination {
            destination: Some(Destination::default()),
            ..RouteDestination::default()
        }]
    };
    if !spec.tls.is_empty() {
        spec.tls = vec![TlsRoute {
            r#match: vec![TlsMatchAttributes {
                sni_hosts: spec.hosts.clone(),
                ..TlsMatchAttributes::default()
            }],
            route: nowhere(),
        }];
    }
    if !spec.tcp.is_empty() {
        spec.tcp = vec![TcpRoute {
            route: nowhere(),
            ..TcpRoute::default()
        }];
    }
}

#[cfg(test)]
mod tests {
    use super::{bound, class};

    #[test]
    fn a_class_holds_what_its_bound_says() {
        for weight in [0, 1, 1024, 1025, 4096, 4097, 100_000, 30 << 20] {
            let of = class(weight);
            assert!(weight <= bound(of), "{weight}");
            assert!(of == 0 || weight > bound(of - 1), "{weight}");
        }
    }
}
