//! What values of webhook configurations must say together.

use std::collections::BTreeSet;

use model::labels;
use model::parse::Raw;

use crate::cel::Condition;
use crate::report::{At, Report};
use crate::text::{is_request_url, url_part};
use crate::written::gateway_api::is_subdomain;

fn texts(value: Raw<'_>) -> Vec<&str> {
    let items = value.items().into_iter().flatten();
    items.filter_map(Raw::as_str).collect()
}

/// A name of three parts or more.
pub(super) fn is_webhook_name(text: &str) -> bool {
    is_subdomain(text) && text.split('.').count() > 2
}

pub(super) fn is_condition_name(text: &str) -> bool {
    labels::fault(text, "").is_none()
}

pub(super) fn client(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    if value.get("url").is_none() && value.get("service").is_none() {
        report.error(at, "one of `url` and `service` is needed");
    }
}

pub(super) fn url(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let Some(text) = value.as_str() else { return };
    if !is_request_url(text) && !text.contains('#') {
        return report.error(at, format!("{text:?} is no URL: https://HOST[/PATH]"));
    }
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let fault = if !text.starts_with("https://") {
        "does not start with https://"
    } else if authority.is_empty() || url_part(text, "hostname").is_empty() {
        "names no host"
    } else if authority.contains('@') {
        "names a user, which is not permitted"
    } else if text.contains('#') {
        "has a fragment, which is not permitted"
    } else if text.contains('?') {
        "has a query, which is not permitted"
    } else {
        return;
    };
    report.error(at, format!("{text:?} {fault}"));
}

pub(super) fn service_path(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let Some(text) = value.as_str().filter(|t| !matches!(*t, "" | "/")) else {
        return;
    };
    let Some(path) = text.strip_prefix('/') else {
        return report.error(at, format!("{text:?} does not start with /"));
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    for segment in path.split('/') {
        if segment.is_empty() || segment.len() > 253 || !is_subdomain(segment) {
            report.error(
                at,
                format!("{segment:?} is no segment of the path of a webhook"),
            );
        }
    }
}

pub(super) fn review_versions(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    let versions = texts(value);
    for (index, version) in versions.iter().enumerate() {
        let label = version.starts_with(|c: char| c.is_ascii_lowercase())
            && version.len() <= 63
            && !version.contains('.')
            && is_subdomain(version);
        if !seen.insert(version) {
            report.error(&at.item(index), format!("there is another {version:?}"));
        } else if !label {
            report.error(&at.item(index), format!("{version:?} is no version"));
        }
    }
    if !versions.is_empty() && !versions.iter().any(|v| matches!(*v, "v1" | "v1beta1")) {
        report.error(at, "must include v1 or v1beta1");
    }
}

/// `*` means all, so nothing stands beside it.
pub(super) fn wildcard_alone(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let texts = texts(value);
    if texts.len() > 1 && texts.contains(&"*") {
        report.error(at, "nothing may stand beside `*`");
    }
}

/// Resources with their subresources: what a wildcard covers must not be named again.
pub(super) fn resources(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let texts = texts(value);
    let (mut whole, mut each) = (BTreeSet::new(), BTreeSet::new());
    for (index, (resource, sub)) in texts
        .iter()
        .enumerate()
        .filter_map(|(index, text)| Some((index, text.split_once('/')?)))
    {
        if whole.contains(resource) {
            report.error(&at.item(index), format!("{resource}/* covers it already"));
        }
        if each.contains(sub) {
            report.error(&at.item(index), format!("*/{sub} covers it already"));
        }
        if sub == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            each.insert(sub);
        }
    }
    if texts.len() > 1 && texts.contains(&"*/*") {
        report.error(at, "nothing may stand beside `*/*`");
    }
    let names_one = |t: &&str| **t != *"*" && !t.contains('/');
    if texts.contains(&"*") && texts.iter().any(names_one) {
        report.error(at, "no resource may stand beside `*`");
    }
}

/// A condition on a label.
// Kubernetes: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go, 1.36.
pub(super) fn requirement(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let key = value.get("key").and_then(Raw::as_str).unwrap_or_default();
    if let Some(fault) = labels::fault(key, "") {
        report.error(&at.field("key"), format!("{key:?} {fault}"));
    }
    let values = value.get("values").map(texts).unwrap_or_default();
    let operator = value.get("operator").and_then(Raw::as_str);
    match operator.unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => {
            report.error(&at.field("values"), "is needed with In and NotIn");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            report.error(
                &at.field("values"),
                "has no meaning with Exists and DoesNotExist",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let message = format!("{other:?} is none of In, NotIn, Exists and DoesNotExist");
            report.error(&at.field("operator"), message);
        }
    }
    for text in values.iter().filter(|t| !t.is_empty()) {
        if text.len() > 63 || labels::fault("key", text).is_some() {
            let message = format!("{text:?} is no value of a label");
            report.error(&at.field("values"), message);
        }
    }
}

pub(super) fn expression(value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    let text = value.as_str().unwrap_or_default();
    if text.trim().is_empty() {
        return report.error(at, "must not be empty");
    }
    if let Err(fault) = Condition::compile(text) {
        report.error(at, fault);
    }
}
