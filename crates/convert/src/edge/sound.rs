//! Routes that Envoy takes: one that it refuses would cost all routes of the gateway.

use std::sync::Arc;

use model::ObjectName;
use proto_istio::networking::{HttpDirectResponse, HttpRoute, VirtualService};
use validate::report::Report;
use validate::text::re2;

use super::draft::Draft;
use super::expression;
use super::matching::{captures, matched};
use crate::outcome::object;

/// Why a rule is closed whose route is not valid.
pub(super) const NOT_VALID: &str = "the route is not valid";

/// Closes a rule whose route Envoy would refuse; returns why, as a sentence about its path.
pub(super) fn check(draft: &mut Draft) -> Option<String> {
    let fault = fault(draft)?;
    draft.closed.get_or_insert_with(|| Arc::from(NOT_VALID));
    // It takes at least what it would: what cannot be asked is not asked.
    let asks = &mut draft.asks;
    asks.headers
        .retain(|name, text| header_is_sound(name, text));
    asks.query.retain(|_, text| text_is_sound(text));
    let answer = HttpRoute {
        r#match: vec![matched(asks)],
        direct_response: Some(HttpDirectResponse {
            status: 503,
            body: None,
        }),
        ..HttpRoute::default()
    };
    if refused(answer).is_some() {
        asks.below = Some(expression::beginning(&asks.path).into());
    }
    Some(format!("{fault}, so requests for it get 503"))
}

fn header_is_sound(name: &str, text: &annotations::Text) -> bool {
    validate::text::header_name_to_match(name).is_ok() && text_is_sound(text)
}

fn text_is_sound(text: &annotations::Text) -> bool {
    match text {
        annotations::Text::Regex(regex) => regex_fault(regex).is_none(),
        _ => true,
    }
}

fn regex_fault(regex: &str) -> Option<String> {
    re2(regex).err()
}

/// What Envoy would refuse of the route of a rule, as a sentence about its path.
pub(super) fn fault(draft: &Draft) -> Option<String> {
    let mut route: HttpRoute = draft.route.clone();
    route.r#match = vec![matched(&draft.asks)];
    if let Some(fault) = substitution(&route) {
        return Some(fault);
    }
    refused(route)
}

/// Why a route is not valid, as a sentence about its path.
pub(crate) fn refused(route: HttpRoute) -> Option<String> {
    if let Some(authority) = route.rewrite.as_ref().map(|rewrite| &rewrite.authority)
        && authority.contains(|c: char| c.is_control() || c == ' ')
    {
        return Some("the host that it is rewritten to is not one".to_owned());
    }
    let service = VirtualService {
        hosts: vec!["edge.test".to_owned()],
        gateways: vec!["edge/edge".to_owned()],
        http: vec![route],
        ..VirtualService::default()
    };
    let name = ObjectName::new("edge", "edge");
    let object = object(name, super::derived([], []), service);
    let mut report = Report::default();
    validate::rules::object(
        &model::AnyObject::VirtualService(Arc::new(object)),
        &mut report,
    );
    let error = report
        .0
        .iter()
        .find(|remark| remark.severity == model::Severity::Error)?;
    Some(match error.message.starts_with("not ") {
        true => format!("it is {}", error.message),
        false => format!("it is not valid: {}", error.message),
    })
}

/// What is wrong with the rewrite of a path: RE2 refuses groups that the expression does not have.
fn substitution(route: &HttpRoute) -> Option<String> {
    let rewrite = route.rewrite.as_ref()?.uri_regex_rewrite.as_ref()?;
    if let Some(fault) = regex_fault(&rewrite.r#match) {
        return Some(format!("its path is {fault}"));
    }
    let groups = captures(&rewrite.r#match);
    let mut chars = rewrite.rewrite.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            continue;
        }
        match chars
            .next()
            .and_then(|c| if c == '\\' { Some(0) } else { c.to_digit(10) })
        {
            Some(group) if group as usize <= groups => {}
            Some(group) => {
                return Some(format!(
                    "its rewrite has ${group}, but its path has {groups} groups"
                ));
            }
            None => return Some("its rewrite ends with a backslash".to_owned()),
        }
    }
    None
}
