//! Which of the routes of a host is asked first.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go sortHTTPRoutes, 1.32.

use std::cmp::Reverse;

use proto_istio::networking::HttpMatchRequest;
use proto_istio::networking::string_match::MatchType;

use super::Ruled;

/// Puts routes in the order in which they are asked; equal ones stay in theirs, which is to be by age.
///
/// A path counts before a prefix, a prefix before an expression, a long one before a short one, then a method, more headers,
/// more query parameters. What matches everything is last.
pub(crate) fn sort(routes: &mut [Ruled]) {
    routes.sort_by_key(|ruled| {
        ruled
            .route
            .r#match
            .first()
            .map_or(Reverse(None), |m| Reverse(Some(rank(m))))
    });
}

/// The more specific a match, the greater.
fn rank(matched: &HttpMatchRequest) -> (u8, usize, bool, usize, usize) {
    let path = matched.uri.as_ref().and_then(|uri| uri.match_type.as_ref());
    let (kind, length) = match path {
        Some(MatchType::Exact(path)) => (3, path.len()),
        Some(MatchType::Prefix(prefix)) => (2, prefix.len()),
        Some(MatchType::Regex(expression)) => (1, expression.len()),
        None => (0, 0),
    };
    let has_method = matched.method.is_some();
    (
        kind,
        length,
        has_method,
        matched.headers.len(),
        matched.query_params.len(),
    )
}
