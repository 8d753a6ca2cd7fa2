//! Routes in terms that a stock istiod can enforce.
//!
//! A route of an edge says beside its HTTPRoute what it asks of filters that this program puts into its own gateways: who may
//! send requests, how many, how long they may be. Nothing of that travels, so that a route that asks for it is closed: it
//! keeps its place and answers 503 to what it matches. The same becomes of a route that sends a value of a Secret, which
//! nobody is told. What changes headers only is said in the words of Istio.
//!
//! Closed routes take every spelling of their paths ([`spellings`]), those that were closed before as well.

use std::collections::BTreeMap;

use model::derived::{Derived, Semantics};
use model::edge::{EdgeRoute, Need};
use model::kinds::istio::VirtualService;
use model::template;
use prost::Message;
use proto_istio::networking::headers::HeaderOperations;
use proto_istio::networking::http_body::Specifier;
use proto_istio::networking::{HttpBody, HttpDirectResponse, HttpRoute};

use crate::spellings;

const UNAVAILABLE: u32 = 503;
const LACKING: &str =
    "refused: the control plane of this proxy cannot enforce what this route asks for";
const SECRET: &str =
    "refused: this route needs a value of a Secret, which is not served to other control planes";

/// Closes the routes that the other side could not enforce, and says in headers what it can do for the rest. `templates` says
/// whether the templates that people write have values.
pub(crate) fn enforceable(spec: &mut VirtualService, derived: Option<&Derived>, templates: bool) {
    let has_values = templates || derived.is_some();
    for (at, route) in spec.http.iter_mut().enumerate() {
        let asked = derived.and_then(|derived| derived.edge.get(&at));
        if asked.is_some_and(|asked| asked.needs().into_iter().any(Need::closes)) {
            close(route, LACKING);
        } else if has_values && template::is_marked(&route.encode_to_vec()) {
            close(route, SECRET);
        } else if let Some(asked) = asked {
            tell(route, asked);
        }
        if let Some(derived) = derived.filter(|_| is_closed(route)) {
            let by_segments = derived.semantics != Semantics::Istio;
            let matches = route.r#match.iter_mut();
            matches.for_each(|asked| spellings::widen(asked, by_segments));
        }
    }
}

/// Whether a route answers 503.
fn is_closed(route: &HttpRoute) -> bool {
    let answer = route.direct_response.as_ref();
    answer.is_some_and(|answer| answer.status == UNAVAILABLE)
}

/// Has a route answer 503 to the requests that it is for, and do nothing else.
fn close(route: &mut HttpRoute, why: &str) {
    *route = HttpRoute {
        name: std::mem::take(&mut route.name),
        r#match: std::mem::take(&mut route.r#match),
        direct_response: Some(HttpDirectResponse {
            status: UNAVAILABLE,
            body: Some(HttpBody {
                specifier: Some(Specifier::String(why.to_owned())),
            }),
        }),
        ..HttpRoute::default()
    };
}

/// What backends of ingress-nginx are told of clients, whatever these say of it themselves.
const TOLD: [(&str, &str); 6] = [
    ("x-real-ip", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
    ("x-original-forwarded-for", "%REQ(x-forwarded-for)%"),
    (
        "x-forwarded-for",
        "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    ),
    ("x-forwarded-host", "%REQ(:authority)%"),
    ("x-forwarded-scheme", "%REQ(x-forwarded-proto)%"),
    ("x-scheme", "%REQ(x-forwarded-proto)%"),
];

/// What clients say of themselves that backends are not told: which port it was is not known here, and some backends take
/// `proxy` for the proxy that they are to use.
const DROPPED: [&str; 2] = ["x-forwarded-port", "proxy"];

/// Says in headers what a route asks for beside its HTTPRoute, unless it says it itself.
fn tell(route: &mut HttpRoute, asked: &EdgeRoute) {
    let says_something = asked.tells_clients || asked.hsts.is_some();
    if !says_something {
        return;
    }
    let headers = route.headers.get_or_insert_default();
    if asked.tells_clients {
        let request = headers.request.get_or_insert_default();
        let told = TOLD.iter().filter(|(name, _)| !is_stated(request, name));
        let told: BTreeMap<String, String> = told
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let dropped = DROPPED.iter().filter(|name| !is_stated(request, name));
        let dropped: Vec<String> = dropped.map(|name| (*name).to_owned()).collect();
        request.set.extend(told);
        request.remove.extend(dropped);
    }
    if let Some(hsts) = &asked.hsts {
        const NAME: &str = "strict-transport-security";
        let response = headers.response.get_or_insert_default();
        if !is_stated(response, NAME) {
            response.set.insert(NAME.to_owned(), hsts.to_string());
        }
    }
}

/// Whether operations are about a header already.
fn is_stated(operations: &HeaderOperations, name: &str) -> bool {
    let HeaderOperations { set, add, remove } = operations;
    let mut stated = set.keys().chain(add.keys()).chain(remove);
    stated.any(|stated| stated.eq_ignore_ascii_case(name))
}
