//! How the path of an Ingress is matched, and which match goes first.
//!
//! Istio: pilot/pkg/config/kube/ingress/virtualservices.go, 1.32.

use std::cmp::Reverse;

use model::kinds::kube::PathType;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpRoute, StringMatch};

/// How a path of a type is matched; `None` where every path is.
pub fn match_of(path: &str, path_type: Option<PathType>) -> Option<MatchType> {
    match path_type {
        Some(PathType::Exact) => Some(MatchType::Exact(path.to_owned())),
        Some(PathType::Prefix) => Some(MatchType::Prefix(path.to_owned())),
        Some(PathType::ImplementationSpecific) | None => pattern(path),
    }
}

/// A path in which `.*` or `/*` at the end stand for anything.
fn pattern(path: &str) -> Option<MatchType> {
    if matches!(path, "" | "*" | "/*" | ".*") {
        return None;
    }
    let open = path.strip_suffix(".*").or_else(|| path.strip_suffix("/*"));
    Some(match open {
        Some(before) => MatchType::Prefix(before.to_owned()),
        None => MatchType::Exact(path.to_owned()),
    })
}

/// Longer paths go first, and of equal length the exact ones.
pub(super) fn order_of(route: &HttpRoute) -> impl Ord + use<> {
    let matched = route.r#match.first().map(|m| m.uri.as_ref());
    let (length, exact) = match matched {
        None => (0, false),
        Some(uri) => length_of(uri),
    };
    (Reverse(length), !exact)
}

/// How long the path of a match is, and whether it is exact; -1 where the match is of another kind.
pub fn length_of(uri: Option<&StringMatch>) -> (i64, bool) {
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    match uri.and_then(|uri| uri.match_type.as_ref()) {
        Some(MatchType::Exact(path)) => (length(path), true),
        Some(MatchType::Prefix(path)) => (length(path), false),
        Some(MatchType::Regex(_)) | None => (-1, false),
    }
}

/// Whether Envoy takes the match: it matches prefixes by element, and refuses all routes of the proxy for one that is
/// no path.
pub(super) fn is_usable(matched: &MatchType) -> bool {
    let MatchType::Prefix(prefix) = matched else {
        return true;
    };
    if prefix == "/" {
        return true;
    }
    let path = prefix.strip_suffix('/').unwrap_or(prefix);
    path.len() > 1 && !path.ends_with('/') && !path.contains(['?', '#'])
}
