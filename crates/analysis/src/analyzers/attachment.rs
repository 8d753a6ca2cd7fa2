//! What listeners and routes of the Gateway API are refused for, as their statuses say it.
//!
//! What a reference leads to that is not there, or not allowed, is for [`super::route`], which names the field.

use std::sync::Arc;

use convert::status::OfGatewayApi;
use incr::Cx;
use model::kinds::Kinded;
use model::kinds::gateway_api::{Gateway, GatewayClass, Listener, ListenerSet, ParentRef, Route};
use model::{Object, ObjectName};
use serde_json::Value;
use store::{Reads, Snapshot};

use super::route::is_there;
use crate::code::{self, Code};
use crate::finding::Report;

/// Reasons that analysis finds by itself, field by field.
const FOUND_ELSEWHERE: &[&str] = &[
    "BackendNotFound",
    "RefNotPermitted",
    "InvalidCertificateRef",
    "InvalidCACertificateRef",
    "InvalidClientCertificateRef",
];

/// Why nothing attaches, for each reference to a parent.
pub(crate) fn route<T: Route>(cx: &Cx<'_, Snapshot>, route: &Object<T>, report: &mut Report<'_>) {
    let Some(status) = status(cx, route) else {
        return;
    };
    for parent in list(&status["parents"]) {
        let reference = &parent["parentRef"];
        let mut references = route.spec.parent_refs().iter().enumerate();
        let Some((at, named)) = references.find(|(_, named)| is_same(reference, named)) else {
            continue;
        };
        for condition in list(&parent["conditions"]) {
            let of = Condition::read(condition);
            let what = match (of.kind, of.holds) {
                // A parent or section that is not there is found elsewhere, a port that is not there is not.
                ("Accepted", false)
                    if of.reason == "NoMatchingParent"
                        && named.port.is_none()
                        && !is_there(cx, route.namespace(), named) =>
                {
                    continue;
                }
                ("Accepted", false) => "is not accepted",
                ("ResolvedRefs", false) => "refers to something that cannot be used",
                _ => continue,
            };
            let kind = named.kind.as_ref();
            let text = format!(
                "{what} by the {kind} {}: {}",
                named.name,
                of.message.trim_end_matches('.')
            );
            of.add(
                report,
                route,
                &code::NOT_ATTACHED,
                format!("spec.parentRefs[{at}]"),
                text,
            );
        }
    }
}

/// Listeners that are not served, and a class that nobody has.
pub(crate) fn gateway(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>, report: &mut Report<'_>) {
    match status(cx, gateway) {
        Some(status) => listeners(gateway, &gateway.spec.listeners, &status, report),
        None => class(cx, gateway, report),
    }
}

/// Listeners that are not served.
pub(crate) fn listener_set(
    cx: &Cx<'_, Snapshot>,
    set: &Object<ListenerSet>,
    report: &mut Report<'_>,
) {
    let Some(status) = status(cx, set) else {
        return;
    };
    listeners(set, &set.spec.listeners, &status, report);
    for condition in list(&status["conditions"]) {
        let of = Condition::read(condition);
        if (of.kind, of.holds, of.reason) == ("Accepted", false, "NotAllowed") {
            let text = format!("is not accepted by its parent: {}", of.message);
            of.add(report, set, &code::NOT_ATTACHED, "spec.parentRef", text);
        }
    }
}

fn class(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>, report: &mut Report<'_>) {
    if gateway.meta.name.cluster.is_some() || !cx.settings().features.gateway_api {
        return;
    }
    let class = &gateway.spec.gateway_class_name;
    // What an object gives to another controller is served elsewhere.
    if cx
        .get::<GatewayClass>(&ObjectName::new("", class.clone()))
        .is_none()
    {
        report
            .add(
                gateway,
                &code::CLASS_NOT_FOUND,
                "spec.gatewayClassName",
                format!("there is no GatewayClass {class}, so nobody serves the Gateway"),
            )
            .help("use `pilothouse` or `istio`, which need no object, or create the GatewayClass");
    }
}

fn listeners<T: Kinded>(
    object: &Object<T>,
    written: &[Listener],
    status: &Value,
    report: &mut Report<'_>,
) {
    for listener in list(&status["listeners"]) {
        let name = listener["name"].as_str().unwrap_or_default();
        let Some(at) = written.iter().position(|l| *l.name == *name) else {
            continue;
        };
        let path = format!("spec.listeners[{at}]");
        for condition in list(&listener["conditions"]) {
            let of = Condition::read(condition);
            let (code, what) = match (of.kind, of.holds) {
                ("Conflicted", true) => (&code::LISTENER_CONFLICT, "conflicts with another"),
                // That it conflicts is said already.
                ("Accepted", false) if !is_conflict(of.reason) => {
                    (&code::LISTENER_NOT_SERVED, "is not served")
                }
                ("ResolvedRefs", false) => (
                    &code::LISTENER_NOT_SERVED,
                    "refers to something that cannot be used",
                ),
                _ => continue,
            };
            let text = format!("the listener {name} {what}: {}", of.message);
            of.add(report, object, code, path.clone(), text);
        }
    }
}

fn is_conflict(reason: &str) -> bool {
    matches!(
        reason,
        "ProtocolConflict" | "HostnameConflict" | "ListenerConflict"
    )
}

/// A condition of a status.
struct Condition<'a> {
    kind: &'a str,
    holds: bool,
    reason: &'a str,
    message: &'a str,
}

impl<'a> Condition<'a> {
    fn read(value: &'a Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default();
        Self {
            kind: text("type"),
            holds: text("status") == "True",
            reason: text("reason"),
            message: text("message"),
        }
    }

    fn add<T: Kinded>(
        &self,
        report: &mut Report<'_>,
        object: &Object<T>,
        code: &Code,
        path: impl Into<Arc<str>>,
        text: String,
    ) {
        if FOUND_ELSEWHERE.contains(&self.reason) {
            return;
        }
        let help = format!(
            "its status has the condition {} with the reason {}",
            self.kind, self.reason
        );
        report
            .add(object, code, path, text.trim_end_matches('.'))
            .help(help);
    }
}

/// The status that is derived for an object.
fn status<T: Kinded>(cx: &Cx<'_, Snapshot>, object: &Object<T>) -> Option<Value> {
    (*cx.query(&OfGatewayApi(object.key()))).clone()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Whether a reference of a status is the one that a route has.
fn is_same(told: &Value, named: &ParentRef) -> bool {
    let text = |field: &str| told[field].as_str();
    text("name") == Some(&*named.name)
        && text("kind").is_none_or(|kind| *kind == *named.kind)
        && (named.namespace.is_none() || text("namespace") == named.namespace.as_deref())
        && text("sectionName") == named.section_name.as_deref()
        && told["port"].as_u64() == named.port.map(u64::from)
}
