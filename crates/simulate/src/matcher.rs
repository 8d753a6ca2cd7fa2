//! Matchers of strings, headers and query parameters.

use proto_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto_envoy::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use proto_envoy::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher};
use proto_envoy::envoy::r#type::matcher::v3::StringMatcher;
use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use regex::Regex;

use crate::call::Call;

/// Whether an expression matches the whole of a text. One that cannot be read matches nothing.
pub(crate) fn regex(expression: &str, text: &str) -> bool {
    Regex::new(&format!("^(?:{expression})$")).is_ok_and(|r| r.is_match(text))
}

/// Whether a text is as a matcher wants it.
pub(crate) fn string(matcher: &StringMatcher, text: &str) -> bool {
    let fold = |s: &str| {
        if matcher.ignore_case {
            s.to_ascii_lowercase()
        } else {
            s.to_owned()
        }
    };
    let folded = fold(text);
    match &matcher.match_pattern {
        Some(MatchPattern::Exact(exact)) => folded == fold(exact),
        Some(MatchPattern::Prefix(prefix)) => folded.starts_with(&fold(prefix)),
        Some(MatchPattern::Suffix(suffix)) => folded.ends_with(&fold(suffix)),
        Some(MatchPattern::Contains(part)) => folded.contains(&fold(part)),
        Some(MatchPattern::SafeRegex(expression)) => regex(&expression.regex, text),
        Some(MatchPattern::Custom(_)) | None => false,
    }
}

/// Whether a request has a header as a matcher wants it.
pub(crate) fn header(matcher: &HeaderMatcher, call: &Call) -> bool {
    let value = call.header(&matcher.name.to_ascii_lowercase());
    let value = match (value, matcher.treat_missing_header_as_empty) {
        (None, true) => Some(String::new()),
        (value, _) => value,
    };
    let matches = match (&matcher.header_match_specifier, &value) {
        (Some(HeaderMatchSpecifier::PresentMatch(wanted)), value) => *wanted == value.is_some(),
        // A header that is not there matches nothing, turned around or not.
        (Some(_), None) => return false,
        (None, value) => value.is_some(),
        (Some(HeaderMatchSpecifier::StringMatch(m)), Some(value)) => string(m, value),
        #[allow(deprecated)]
        (Some(HeaderMatchSpecifier::ExactMatch(exact)), Some(value)) => value == exact,
        #[allow(deprecated)]
        (Some(HeaderMatchSpecifier::PrefixMatch(prefix)), Some(value)) => value.starts_with(prefix),
        #[allow(deprecated)]
        (Some(HeaderMatchSpecifier::SuffixMatch(suffix)), Some(value)) => value.ends_with(suffix),
        #[allow(deprecated)]
        (Some(HeaderMatchSpecifier::ContainsMatch(part)), Some(value)) => value.contains(part),
        #[allow(deprecated)]
        (Some(HeaderMatchSpecifier::SafeRegexMatch(expression)), Some(value)) => {
            regex(&expression.regex, value)
        }
        (Some(HeaderMatchSpecifier::RangeMatch(range)), Some(value)) => value
            .parse::<i64>()
            .is_ok_and(|number| (range.start..range.end).contains(&number)),
    };
    matches != matcher.invert_match
}

/// Whether a request has a query parameter as a matcher wants it.
pub(crate) fn query(matcher: &QueryParameterMatcher, call: &Call) -> bool {
    let value = call.query(&matcher.name);
    match &matcher.query_parameter_match_specifier {
        Some(QueryParameterMatchSpecifier::PresentMatch(wanted)) => *wanted == value.is_some(),
        Some(QueryParameterMatchSpecifier::StringMatch(m)) => value.is_some_and(|v| string(m, v)),
        None => value.is_some(),
    }
}
