//! Conditions on requests.
//!
//! Istio: pilot/pkg/networking/core/route/route.go TranslateRouteMatch, 1.32.

use proto_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto_envoy::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher, RouteMatch};
use proto_envoy::envoy::r#type::matcher::v3::metadata_matcher::{PathSegment, path_segment};
use proto_envoy::envoy::r#type::matcher::v3::{
    ListMatcher, MetadataMatcher, OrMatcher, RegexMatcher, StringMatcher, ValueMatcher,
    list_matcher, string_matcher, value_matcher,
};
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, StringMatch};

use mesh::virtual_service::Semantics;

/// Everything.
pub(super) fn any_request() -> RouteMatch {
    RouteMatch {
        path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
        ..RouteMatch::default()
    }
}

/// The requests that a match of a rule takes, as far as requests decide it.
pub(super) fn route_match(stated: Option<&HttpMatchRequest>, semantics: Semantics) -> RouteMatch {
    let mut out = any_request();
    let Some(stated) = stated else {
        return out;
    };
    for (name, text) in &stated.headers {
        match claim(name) {
            Some(path) => out.dynamic_metadata.push(claim_matcher(path, text)),
            None => out.headers.push(header(name, text)),
        }
    }
    for (name, text) in &stated.without_headers {
        if let Some(path) = claim(name) {
            out.dynamic_metadata.push(MetadataMatcher {
                invert: true,
                ..claim_matcher(path, text)
            });
        } else {
            out.headers.push(HeaderMatcher {
                invert_match: true,
                // Envoy takes one or the other.
                treat_missing_header_as_empty: !is_presence(text),
                ..header(name, text)
            });
        }
    }
    out.headers.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(path) = stated.uri.as_ref().and_then(|u| path(u, semantics)) {
        out.path_specifier = Some(path);
    }
    out.case_sensitive = Some(!stated.ignore_uri_case);
    let pseudo = [
        (":method", &stated.method),
        (":authority", &stated.authority),
        (":scheme", &stated.scheme),
    ];
    for (name, text) in pseudo {
        out.headers
            .extend(text.as_ref().map(|text| header(name, text)));
    }
    out.query_parameters = stated
        .query_params
        .iter()
        .map(|(name, text)| query_parameter(name, text))
        .collect();
    out
}

/// Whether no request goes past a route with this match.
pub(super) fn is_catch_all(matched: &RouteMatch) -> bool {
    let path = match &matched.path_specifier {
        Some(PathSpecifier::Prefix(p) | PathSpecifier::PathSeparatedPrefix(p)) => p == "/",
        Some(PathSpecifier::SafeRegex(r)) => r.regex == ".*",
        _ => false,
    };
    path && matched.headers.is_empty()
        && matched.query_parameters.is_empty()
        && matched.dynamic_metadata.is_empty()
}

fn path(uri: &StringMatch, semantics: Semantics) -> Option<PathSpecifier> {
    Some(match uri.match_type.as_ref()? {
        MatchType::Exact(text) => PathSpecifier::Path(text.clone()),
        MatchType::Prefix(text) if semantics != Semantics::Istio && text != "/" => {
            let text = text.strip_suffix('/').unwrap_or(text);
            PathSpecifier::PathSeparatedPrefix(text.to_owned())
        }
        MatchType::Prefix(text) => PathSpecifier::Prefix(text.clone()),
        MatchType::Regex(text) => PathSpecifier::SafeRegex(regex(text)),
    })
}

fn regex(text: &str) -> RegexMatcher {
    RegexMatcher {
        regex: text.to_owned(),
        ..RegexMatcher::default()
    }
}

/// A text as Envoy compares it; none where nothing is stated.
pub(super) fn text_matcher(text: &StringMatch) -> Option<StringMatcher> {
    use string_matcher::MatchPattern;
    Some(StringMatcher {
        match_pattern: Some(match text.match_type.as_ref()? {
            MatchType::Exact(text) => MatchPattern::Exact(text.clone()),
            MatchType::Prefix(text) => MatchPattern::Prefix(text.clone()),
            MatchType::Regex(text) => MatchPattern::SafeRegex(regex(text)),
        }),
        ..StringMatcher::default()
    })
}

/// Whether a condition only asks that something is there: nothing is stated, or the regular expression `*`, which is
/// none and stands for any value.
fn is_presence(text: &StringMatch) -> bool {
    match &text.match_type {
        None => true,
        Some(MatchType::Regex(regex)) => regex == "*",
        Some(_) => false,
    }
}

fn header(name: &str, text: &StringMatch) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: if is_presence(text) {
            Some(HeaderMatchSpecifier::PresentMatch(true))
        } else {
            text_matcher(text).map(HeaderMatchSpecifier::StringMatch)
        },
        ..HeaderMatcher::default()
    }
}

fn query_parameter(name: &str, text: &StringMatch) -> QueryParameterMatcher {
    QueryParameterMatcher {
        name: name.to_owned(),
        query_parameter_match_specifier: if is_presence(text) {
            Some(QueryParameterMatchSpecifier::PresentMatch(true))
        } else {
            text_matcher(text).map(QueryParameterMatchSpecifier::StringMatch)
        },
    }
}

const CLAIMS: &str = "@request.auth.claims";

/// The path to a claim of the caller's token that a header name stands for: `@request.auth.claims.a.b` or
/// `@request.auth.claims[a][b]`.
///
/// Istio: pkg/jwt/routing.go ToRoutingClaim, 1.32.
fn claim(name: &str) -> Option<Vec<&str>> {
    let prefix = name.get(..CLAIMS.len())?;
    if !prefix.eq_ignore_ascii_case(CLAIMS) {
        return None;
    }
    let rest = &name[CLAIMS.len()..];
    if let Some(path) = rest.strip_prefix('.').filter(|p| !p.is_empty()) {
        return Some(path.split('.').collect());
    }
    let path = rest.strip_prefix('[')?.strip_suffix(']')?;
    (!path.is_empty()).then(|| path.split("][").collect())
}

/// Matches a claim that is the text, or a list that holds it.
fn claim_matcher(path: Vec<&str>, text: &StringMatch) -> MetadataMatcher {
    let value = || ValueMatcher {
        match_pattern: text_matcher(text).map(value_matcher::MatchPattern::StringMatch),
    };
    let in_list = ValueMatcher {
        match_pattern: Some(value_matcher::MatchPattern::ListMatch(Box::new(
            ListMatcher {
                match_pattern: Some(list_matcher::MatchPattern::OneOf(Box::new(value()))),
            },
        ))),
    };
    let segments = std::iter::once("payload").chain(path);
    MetadataMatcher {
        filter: "envoy.filters.http.jwt_authn".to_owned(),
        path: segments
            .map(|key| PathSegment {
                segment: Some(path_segment::Segment::Key(key.to_owned())),
            })
            .collect(),
        value: Some(ValueMatcher {
            match_pattern: Some(value_matcher::MatchPattern::OrMatch(OrMatcher {
                value_matchers: vec![in_list, value()],
            })),
        }),
        invert: false,
    }
}

#[cfg(test)]
mod tests {
    use super::claim;

    #[test]
    fn claims_are_named_with_dots_or_brackets() {
        assert_eq!(claim("@request.auth.claims.a.b"), Some(vec!["a", "b"]));
        assert_eq!(claim("@Request.Auth.Claims[a][b]"), Some(vec!["a", "b"]));
        assert_eq!(claim("@request.auth.claims"), None);
        assert_eq!(claim("@request.auth.claims[]"), None);
        assert_eq!(claim("x-header"), None);
    }

    #[test]
    fn claims_are_those_of_the_recording() {
        for case in testkit::cases("jwt-claims", "jwt.ToRoutingClaim") {
            let found = claim(case["in"]["headerName"].as_str().unwrap());
            let wanted = case["out"]["Claims"].as_array().map(|list| {
                let texts = list.iter().map(|c| c.as_str().unwrap());
                texts.collect::<Vec<_>>()
            });
            assert_eq!(found, wanted, "{case}");
        }
    }
}
