//! How much may be derived from routes.
//!
//! A route is served at each listener and host that it attaches to with a copy of its rules: hosts, times references, times
//! listeners. What the copies of one route weigh is bounded before they are made, and so is what all routes of one host
//! weigh together. What exceeds a limit is left out whole, never an older route.

use prost::Message;
use proto_istio::networking::HttpRoute;
use proto_istio::networking::string_match::MatchType;
use validate::text::program_size;

/// So few copies of a route are made without weighing its rules.
pub(super) const FEW_COPIES: usize = 16;

/// What the copies of a route may weigh together.
pub(super) const COPIED_BYTES: usize = 64 << 20;

/// What the routes of one host of one listener may weigh together: half of what generation takes of a VirtualService.
pub(super) const HOST_BYTES: usize = 16 << 20;

/// What one route of a VirtualService costs beside what it says.
pub(super) const ROUTE_BYTES: usize = 512;

/// What routes weigh.
pub(super) fn weight<'m, M: Message + 'm>(routes: impl IntoIterator<Item = &'m M>) -> usize {
    let weights = routes
        .into_iter()
        .map(|route| route.encoded_len() + ROUTE_BYTES);
    weights.sum()
}

/// How many instructions of regular expressions are tried to know whether a request is for a route.
pub(super) fn instructions(route: &HttpRoute) -> usize {
    let texts = route.r#match.iter().flat_map(|matched| {
        let headers = matched.headers.values();
        let named = headers.chain(matched.query_params.values());
        matched.uri.iter().chain(&matched.method).chain(named)
    });
    let sizes = texts.filter_map(|text| match &text.match_type {
        Some(MatchType::Regex(regex)) => program_size(regex).ok(),
        _ => None,
    });
    sizes.fold(0, |sum: usize, size| {
        sum.saturating_add(usize::try_from(size).unwrap_or(usize::MAX))
    })
}
