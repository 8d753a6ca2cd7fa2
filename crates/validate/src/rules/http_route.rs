//! Routes of VirtualServices for HTTP.
// Istio: pkg/config/validation/virtualservice.go, validation.go, 1.32.

mod action;

use std::collections::BTreeMap;

use proto_istio::networking::string_match::MatchType;
use proto_istio::networking::{Destination, Headers, HttpMatchRequest, HttpRoute, StringMatch};

use super::destination_rule::{label_pairs, subset_name};
use super::stream_route::total_weight;
use super::traffic_policy;
use super::virtual_service::{Context, gateways};
use crate::report::{At, Report};
use crate::text::{
    Check, duration_if_set, expansion, header_name_to_match, header_name_to_remove,
    header_name_to_set, header_value, is_authority, is_label, not_negative, port, query_parameter,
    re2, wildcard_domain,
};

pub(super) fn check(route: &HttpRoute, context: &Context<'_>, at: &At<'_>, report: &mut Report) {
    conflicts(route, context, at, report);
    for (at, one) in at.field("match").each(&route.r#match) {
        matching(one, &at, report);
    }
    headers(route.headers.as_ref(), &at.field("headers"), report);
    action::cors(route.cors_policy.as_ref(), &at.field("corsPolicy"), report);
    action::fault(route.fault.as_ref(), &at.field("fault"), report);
    action::mirrors(route, at, report);
    action::redirect(route, &at.field("redirect"), report);
    action::direct_response(
        route.direct_response.as_ref(),
        &at.field("directResponse"),
        report,
    );
    traffic_policy::retries(route.retries.as_ref(), &at.field("retries"), report);
    action::rewrite(route.rewrite.as_ref(), &at.field("rewrite"), report);
    authority(route, at, report);
    let at_route = at.field("route");
    for (at, one) in at_route.each(&route.route) {
        if one.destination.is_none() {
            report.error(&at.field("destination"), "a destination is needed");
        }
        headers(one.headers.as_ref(), &at.field("headers"), report);
        if !context.converted {
            destination(one.destination.as_ref(), &at.field("destination"), report);
        }
        report.check(&at.field("weight"), not_negative(one.weight.into()));
    }
    total_weight(route.route.iter().map(|d| d.weight), &at_route, report);
    report.check(&at.field("timeout"), duration_if_set(route.timeout));
}

/// Actions that exclude each other.
fn conflicts(route: &HttpRoute, context: &Context<'_>, at: &At<'_>, report: &mut Report) {
    if route.delegate.is_some() && !context.is_delegate {
        for (field, set) in [
            ("redirect", route.redirect.is_some()),
            ("route", !route.route.is_empty()),
        ] {
            if set {
                report.error(&at.field(field), "has no meaning beside `delegate`");
            }
        }
        return;
    }
    if route.delegate.is_some() {
        report.error(
            &at.field("delegate"),
            "what is delegated cannot be delegated again",
        );
    }
    let chosen = if route.redirect.is_some() {
        Some("redirect")
    } else {
        route.direct_response.as_ref().map(|_| "directResponse")
    };
    match chosen {
        Some(chosen) => {
            let others = [
                ("route", !route.route.is_empty()),
                ("fault", route.fault.is_some()),
                ("rewrite", route.rewrite.is_some()),
                ("directResponse", route.direct_response.is_some()),
            ];
            for (field, set) in others {
                if set && field != chosen {
                    report.error(
                        &at.field(field),
                        format!("has no meaning beside `{chosen}`"),
                    );
                }
            }
        }
        None if route.route.is_empty() => {
            report.error(
                at,
                "one of `route`, `redirect` and `directResponse` is needed",
            );
        }
        None => {}
    }
    if route.mirror.is_some() && !route.mirrors.is_empty() {
        report.error(
            &at.field("mirrors"),
            "only one of `mirror` and `mirrors` may be set",
        );
    }
}

fn matching(one: &HttpMatchRequest, at: &At<'_>, report: &mut Report) {
    let at_headers = at.field("headers");
    for (name, value) in &one.headers {
        let at = at_headers.field(name);
        report.check(&at, header_name_to_match(name));
        report.check(&at, string_match(Some(value)));
    }
    let at_headers = at.field("withoutHeaders");
    for (name, value) in &one.without_headers {
        let at = at_headers.field(name);
        report.check(&at, header_name_to_match(name));
        // It stands for any value there.
        let any = matches!(&value.match_type, Some(MatchType::Regex(regex)) if regex == "*");
        if !any {
            report.check(&at, string_match(Some(value)));
        }
    }
    // A path may begin with nothing.
    report.check(&at.field("uri"), regex_match(one.uri.as_ref()));
    for (field, value) in [
        ("scheme", &one.scheme),
        ("method", &one.method),
        ("authority", &one.authority),
    ] {
        report.check(&at.field(field), string_match(value.as_ref()));
    }
    let at_params = at.field("queryParams");
    for (name, value) in &one.query_params {
        report.check(&at_params.field(name), query_parameter(name));
        report.check(&at_params.field(name), string_match(Some(value)));
    }
    if one.port != 0 {
        report.check(&at.field("port"), port(one.port.into()));
    }
    label_pairs(&one.source_labels, &at.field("sourceLabels"), report);
    // As in Istio, names of gateways warn in routes for TLS only.
    let mut found = Report::default();
    gateways(&one.gateways, false, &at.field("gateways"), &mut found);
    report.0.extend(found.into_errors());
    if !one.source_namespace.is_empty() && !is_label(&one.source_namespace) {
        let message = format!("{:?} is no namespace", one.source_namespace);
        report.error(&at.field("sourceNamespace"), message);
    }
}

fn string_match(value: Option<&StringMatch>) -> Check {
    match value.and_then(|v| v.match_type.as_ref()) {
        Some(MatchType::Prefix(prefix)) if prefix.is_empty() => {
            Err("the prefix is empty".to_owned())
        }
        _ => regex_match(value),
    }
}

pub(super) fn regex_match(value: Option<&StringMatch>) -> Check {
    match value.and_then(|v| v.match_type.as_ref()) {
        Some(MatchType::Regex(regex)) if regex.is_empty() => {
            Err("the regular expression is empty".to_owned())
        }
        Some(MatchType::Regex(regex)) => re2(regex),
        _ => Ok(()),
    }
}

/// What is set on and removed from requests and responses.
fn headers(headers: Option<&Headers>, at: &At<'_>, report: &mut Report) {
    let Some(headers) = headers else {
        return;
    };
    let mut pairs = |at: At<'_>, pairs: &BTreeMap<String, String>, name: fn(&str) -> Check| {
        for (key, value) in pairs {
            report.check(&at.field(key), name(key));
            let value = header_value(value).and_then(|()| expansion(value));
            report.check(&at.field(key), value);
        }
    };
    let at_request = at.field("request");
    let at_response = at.field("response");
    if let Some(request) = &headers.request {
        pairs(at_request.field("add"), &request.add, header_name_to_set);
        pairs(at_request.field("set"), &request.set, header_name_to_set);
    }
    if let Some(response) = &headers.response {
        pairs(
            at_response.field("add"),
            &response.add,
            header_name_to_remove,
        );
        pairs(
            at_response.field("set"),
            &response.set,
            header_name_to_remove,
        );
    }
    for (at, of) in [
        (at_request, &headers.request),
        (at_response, &headers.response),
    ] {
        let remove = of.as_ref().map_or(&[][..], |of| &of.remove);
        for (at, name) in at.field("remove").each(remove) {
            report.check(&at, header_name_to_remove(name));
        }
    }
}

/// The host that requests are for can be set once.
fn authority(route: &HttpRoute, at: &At<'_>, report: &mut Report) {
    let request = route.headers.as_ref().and_then(|h| h.request.as_ref());
    let set = request
        .into_iter()
        .flat_map(|r| r.set.keys().chain(r.add.keys()));
    let by_headers = set.filter(|name| is_authority(name)).count();
    let by_rewrite = route
        .rewrite
        .as_ref()
        .is_some_and(|r| !r.authority.is_empty());
    if by_headers + usize::from(by_rewrite) > 1 {
        report.error(&at.field("headers"), "the host of the request is set twice");
    }
}

/// Where requests go.
pub(super) fn destination(destination: Option<&Destination>, at: &At<'_>, report: &mut Report) {
    let Some(destination) = destination else {
        return;
    };
    let host = match destination.host.as_str() {
        "*" => Err("`*` is no host to send to".to_owned()),
        host => wildcard_domain(host),
    };
    report.check(&at.field("host"), host);
    if !destination.subset.is_empty() {
        report.check(&at.field("subset"), subset_name(&destination.subset));
    }
    if let Some(selector) = &destination.port {
        report.check(
            &at.field("port").field("number"),
            port(selector.number.into()),
        );
    }
}
