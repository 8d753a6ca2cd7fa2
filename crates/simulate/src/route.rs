//! Which route of a virtual host takes a request.

use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{Route, RouteMatch, VirtualHost};

use crate::call::Call;
use crate::matcher::{header, query, regex};

/// The first route that matches.
pub(crate) fn find<'a>(host: &'a VirtualHost, call: &Call) -> Option<&'a Route> {
    let matches = |r: &&Route| r.r#match.as_ref().is_some_and(|m| takes(m, call));
    host.routes.iter().find(matches)
}

fn takes(wanted: &RouteMatch, call: &Call) -> bool {
    let is_grpc = || {
        let kind = call.header("content-type");
        kind.is_some_and(|k| k == "application/grpc" || k.starts_with("application/grpc+"))
    };
    path(wanted, call)
        && wanted.headers.iter().all(|h| header(h, call))
        && wanted.query_parameters.iter().all(|q| query(q, call))
        && (wanted.grpc.is_none() || is_grpc())
        // What a token said is not known here: a walk is without one.
        && wanted.dynamic_metadata.iter().all(|m| m.invert)
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
