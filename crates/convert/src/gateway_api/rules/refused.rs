//! Values of routes that Envoy refuses. Such a route stays, and what has the value is closed alone where the resources of a proxy are
//! judged; here the values of a route by itself are found, for its status and for who looks at manifests.
//!
//! They are judged by the functions by which those of VirtualServices are.

use std::collections::BTreeSet;

use model::AnyObject;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, StringMatch};
use validate::text::re2_program;

use super::matches::Matched;
use super::rule::Rule;

/// A value of a rule that Envoy refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    /// Its place in the rule.
    pub at: String,
    /// What is wrong with it, as the end of a sentence about it.
    pub why: String,
}

/// The index of the match that a place of a rule is within; `None` where it is about the whole rule.
fn match_of(at: &str) -> Option<&str> {
    at.strip_prefix("matches[")?.split(']').next()
}

/// Whether nothing of a rule with so many matches is served, because of these values.
pub(super) fn drops(refused: &[Refused], matches: usize) -> bool {
    let of_rule = refused
        .iter()
        .any(|refused| match_of(&refused.at).is_none());
    let places: BTreeSet<&str> = refused.iter().filter_map(|r| match_of(&r.at)).collect();
    of_rule || (matches > 0 && places.len() == matches)
}

/// The places of the values of an HTTPRoute or GRPCRoute that Envoy refuses, with the reasons.
pub fn refused_values(object: &AnyObject) -> Vec<(String, String)> {
    let rules: Vec<Rule<'_>> = match object {
        AnyObject::HttpRoute(route) => route.spec.rules.iter().map(Rule::of_http).collect(),
        AnyObject::GrpcRoute(route) => route.spec.rules.iter().map(Rule::of_grpc).collect(),
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let refused = of_rule(rule).into_iter();
        found.extend(refused.map(|r| (format!("spec.rules[{index}].{}", r.at), r.why)));
    }
    found
}

/// The values of a rule that Envoy refuses.
pub(super) fn of_rule(rule: &Rule<'_>) -> Vec<Refused> {
    let mut found = Vec::new();
    for (index, matched) in rule.matches.iter().enumerate() {
        of_match(matched, &format!("matches[{index}]"), &mut found);
    }
    found.extend(rule.refused());
    found
}

/// The expressions of a match that Envoy refuses.
fn of_match(matched: &Matched<'_>, at: &str, found: &mut Vec<Refused>) {
    // What has no meaning at all is not accepted, and its status says so.
    let Ok(request) = matched.request() else {
        return;
    };
    let of_path = match matched {
        Matched::Http(_) => "path.value",
        Matched::Grpc(_) => "method",
    };
    let lists = [
        ("headers", matched.headers()),
        ("queryParams", matched.query_params()),
    ];
    let place = |field: &str, name: &str| {
        let (_, names) = lists.iter().find(|(list, _)| *list == field)?;
        let index = names
            .iter()
            .rposition(|condition| *condition.name == *name)?;
        Some(format!("{at}.{field}[{index}].value"))
    };
    for (field, name, why) in faults(&request) {
        let place = match field {
            "" => Some(format!("{at}.{of_path}")),
            field => place(field, name),
        };
        found.push(Refused {
            at: place.unwrap_or_else(|| at.to_owned()),
            why,
        });
    }
}

/// What Envoy refuses of a match: the list that it stands in, none for the path, the name that it is about, and why.
fn faults(request: &HttpMatchRequest) -> Vec<(&'static str, &str, String)> {
    let path = request.uri.iter().map(|uri| ("", "", uri));
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| ("headers", name.as_str(), value));
    let params = request.query_params.iter();
    let params = params.map(|(name, value)| ("queryParams", name.as_str(), value));
    let all = path.chain(headers).chain(params);
    all.filter_map(|(field, name, value)| Some((field, name, fault(value)?)))
        .collect()
}

fn fault(value: &StringMatch) -> Option<String> {
    match &value.match_type {
        Some(MatchType::Regex(regex)) => re2_program(regex).err(),
        _ => None,
    }
}
