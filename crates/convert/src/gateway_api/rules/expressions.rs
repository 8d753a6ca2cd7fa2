//! Regular expressions of routes that Envoy refuses. Such a route stays, and its match alone is closed where the resources of a
//! proxy are judged; here the expressions of a route by itself are found, for who looks at manifests.

use model::AnyObject;
use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{HttpMatchRequest, StringMatch};
use validate::text::re2_program;

use super::rule::Rule;

/// The places of the regular expressions of an HTTPRoute or GRPCRoute that Envoy refuses, with the reasons.
pub fn refused_expressions(object: &AnyObject) -> Vec<(String, String)> {
    let (rules, is_grpc): (Vec<Rule<'_>>, bool) = match object {
        AnyObject::HttpRoute(route) => {
            (route.spec.rules.iter().map(Rule::of_http).collect(), false)
        }
        AnyObject::GrpcRoute(route) => (route.spec.rules.iter().map(Rule::of_grpc).collect(), true),
        _ => return Vec::new(),
    };
    let of_path = match is_grpc {
        true => "method",
        false => "path.value",
    };
    let mut found = Vec::new();
    for (i, rule) in rules.iter().enumerate() {
        for (j, matched) in rule.matches.iter().enumerate() {
            // What has no meaning at all is not accepted, and its status says so.
            let Ok(request) = matched.request() else {
                continue;
            };
            let at = format!("spec.rules[{i}].matches[{j}]");
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
            let faults = faults(&request);
            found.extend(faults.into_iter().map(|(field, name, why)| {
                let at = match field {
                    "" => Some(format!("{at}.{of_path}")),
                    field => place(field, name),
                };
                (
                    at.unwrap_or_else(|| format!("spec.rules[{i}].matches[{j}]")),
                    why,
                )
            }));
        }
    }
    found
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
