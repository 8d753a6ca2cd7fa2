//! Regular expressions of routes, which Envoy tries one after the other for each request: how long their programs are, and what
//! stands in place of routes whose expressions are too many.

use model::diagnostic::{Diagnostic, Severity};
use model::object::ObjectKey;
use model::work::TRIED_INSTRUCTIONS;
use prost::Message;
use proto_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto_envoy::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher, Route};
use proto_envoy::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use proto_envoy::envoy::r#type::matcher::v3::{
    MetadataMatcher, StringMatcher, ValueMatcher, list_matcher, string_matcher, value_matcher,
};

use super::filters;
use crate::judged;
use mesh::finding::code;

/// The finding about routes whose expressions are too many: what came of it.
pub(super) fn finding(object: Option<ObjectKey>, effect: &str) -> Diagnostic {
    let why = format!(
        "{effect}: the regular expressions that are tried for one request become programs of more than {TRIED_INSTRUCTIONS} instructions"
    );
    Diagnostic {
        object,
        ..Diagnostic::new(code::OVER_LIMIT, Severity::Error, why)
    }
    .help("use prefixes and exact values in place of expressions, or repeat less in them")
}

/// How many instructions Envoy tries to know whether a request is for a route.
pub(super) fn instructions(route: &Route) -> usize {
    let Some(matched) = &route.r#match else {
        return 0;
    };
    let path = match &matched.path_specifier {
        Some(PathSpecifier::SafeRegex(regex)) => of_expression(&regex.regex),
        _ => 0,
    };
    let headers = matched.headers.iter().map(of_header);
    let parameters = matched.query_parameters.iter().map(of_parameter);
    let claims = matched.dynamic_metadata.iter().map(of_metadata);
    let conditions = headers.chain(parameters).chain(claims);
    conditions.fold(path, usize::saturating_add)
}

/// Whether the origins that a route allows are too many expressions for a request.
pub(super) fn allows_too_much(route: &Route) -> bool {
    let cors = route.typed_per_filter_config.get(filters::CORS);
    let Some(Ok(cors)) = cors.map(|any| CorsPolicy::decode(&*any.value)) else {
        return false;
    };
    let origins = cors.allow_origin_string_match.iter().map(of_text);
    origins.fold(0, usize::saturating_add) > TRIED_INSTRUCTIONS
}

/// A route that answers 503 in place of another, and tries no expression: it takes the requests of the other and more, which
/// could else reach a route behind it.
pub(super) fn closed(route: &Route) -> Route {
    let mut matched = route.r#match.clone().unwrap_or_default();
    if let Some(PathSpecifier::SafeRegex(_)) = &matched.path_specifier {
        let beginning = judged::beginning(&matched).to_owned();
        matched.path_specifier = Some(PathSpecifier::Prefix(beginning));
    }
    matched.headers.retain(|one| of_header(one) == 0);
    matched
        .query_parameters
        .retain(|one| of_parameter(one) == 0);
    matched.dynamic_metadata.retain(|one| of_metadata(one) == 0);
    judged::closed(route, matched)
}

fn of_header(matcher: &HeaderMatcher) -> usize {
    match &matcher.header_match_specifier {
        Some(HeaderMatchSpecifier::StringMatch(text)) => of_text(text),
        _ => 0,
    }
}

fn of_parameter(matcher: &QueryParameterMatcher) -> usize {
    match &matcher.query_parameter_match_specifier {
        Some(QueryParameterMatchSpecifier::StringMatch(text)) => of_text(text),
        _ => 0,
    }
}

fn of_metadata(matcher: &MetadataMatcher) -> usize {
    matcher.value.as_ref().map_or(0, of_value)
}

fn of_value(value: &ValueMatcher) -> usize {
    use value_matcher::MatchPattern;
    match &value.match_pattern {
        Some(MatchPattern::StringMatch(text)) => of_text(text),
        Some(MatchPattern::ListMatch(list)) => match &list.match_pattern {
            Some(list_matcher::MatchPattern::OneOf(value)) => of_value(value),
            None => 0,
        },
        Some(MatchPattern::OrMatch(or)) => {
            let values = or.value_matchers.iter().map(of_value);
            values.fold(0, usize::saturating_add)
        }
        _ => 0,
    }
}

fn of_text(text: &StringMatcher) -> usize {
    match &text.match_pattern {
        Some(string_matcher::MatchPattern::SafeRegex(regex)) => of_expression(&regex.regex),
        _ => 0,
    }
}

/// The instructions of an expression, at least one. What is no expression is closed before it is tried.
fn of_expression(expression: &str) -> usize {
    let size = validate::text::program_size(expression).unwrap_or(1);
    usize::try_from(size).unwrap_or(usize::MAX).max(1)
}
