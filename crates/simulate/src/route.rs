//! Which route of a virtual host takes a request.

use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{Route, RouteMatch, VirtualHost};

use crate::call::Call;
use crate::matcher::{header, query, regex};

/// The first route that matches.
pub(crate) fn find<'a>(host: &'a VirtualHost, call: &Call) -> Option<&'a Route> {
    let matches = |r: &&Route| {
        let wanted = r.r#match.as_ref();
        wanted.is_some_and(|wanted| difference(wanted, call).is_none())
    };
    host.routes.iter().find(matches)
}

/// What keeps a route from taking a request: the first thing of it that the route wants otherwise. None where it takes it.
pub(crate) fn difference(wanted: &RouteMatch, call: &Call) -> Option<String> {
    if !path(wanted, call) {
        return Some("the path".to_owned());
    }
    if let Some(other) = wanted.headers.iter().find(|h| !header(h, call)) {
        return Some(format!("header {}", other.name));
    }
    if let Some(other) = wanted.query_parameters.iter().find(|q| !query(q, call)) {
        return Some(format!("parameter {}", other.name));
    }
    let is_grpc = || {
        let kind = call.header("content-type");
        kind.is_some_and(|k| k == "application/grpc" || k.starts_with("application/grpc+"))
    };
    if wanted.grpc.is_some() && !is_grpc() {
        return Some("gRPC".to_owned());
    }
    // What a token said is not known here: a walk is without one.
    let claims = wanted.dynamic_metadata.iter().any(|m| !m.invert);
    claims.then(|| "the claims of a token".to_owned())
}

fn path(wanted: &RouteMatch, call: &Call) -> bool {
    let fold = wanted.case_sensitive == Some(false);
    let fold = |s: &str| {
        if fold {
            s.to_ascii_lowercase()
        } else {
            s.to_owned()
        }
    };
    let path = fold(call.bare_path());
    match &wanted.path_specifier {
        Some(PathSpecifier::Prefix(prefix)) => path.starts_with(&fold(prefix)),
        Some(PathSpecifier::Path(exact)) => path == fold(exact),
        Some(PathSpecifier::PathSeparatedPrefix(prefix)) => path
            .strip_prefix(&fold(prefix))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        Some(PathSpecifier::SafeRegex(expression)) => regex(&expression.regex, call.bare_path()),
        Some(PathSpecifier::ConnectMatcher(_)) => call.method == "CONNECT",
        Some(PathSpecifier::PathMatchPolicy(_)) | None => false,
    }
}
