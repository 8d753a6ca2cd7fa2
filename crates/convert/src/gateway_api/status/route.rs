//! The status of routes of any kind: what became of each at each of its parents.
//!
//! Istio: pilot/pkg/config/kube/gateway/conditions.go createRouteStatus, 1.32.

use std::collections::BTreeSet;

use model::kinds::gateway_api::ParentRef;
use model::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::Conditions;
use crate::gateway_api::attachment::{
    Attachment, AttachmentsOf, NoWaypoint, Refused, RefusedReason,
};
use crate::gateway_api::route::generation;
use crate::gateway_api::rules::stream::StreamRulesOf;
use crate::gateway_api::rules::{HttpRulesOf, RouteError};
use crate::reader::Reader;
use crate::strata::Routes;

const ACCEPTED: &str = "Accepted";
const RESOLVED_REFS: &str = "ResolvedRefs";
const PARTIALLY_INVALID: &str = "PartiallyInvalid";
const RESOLVED_WAYPOINTS: &str = "ResolvedWaypoints";

/// The status of a route: its parents that are ours, the last reference as text first. None of them are parents of a route
/// that only others serve.
pub(super) fn status(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<Value> {
    let features = &read.settings().features;
    if !features.gateway_api {
        return None;
    }
    let generation = generation(read, key)?;
    let attachments = read.derived(AttachmentsOf(key.clone()));
    let by_reference = attachments.chunk_by(|a, b| a.reference == b.reference);
    let parents = by_reference.rev().filter_map(|attached| {
        let first = attached.first()?;
        let mut conditions = Conditions::default();
        let in_mesh = first.listener.is_none();
        let mut error = error(read, key, in_mesh);
        let mut unsupported = unsupported(read, key, in_mesh);
        let refusal = error.take_if(|error| error.refuses);
        let of_values = unsupported.take_if(|error| error.refuses);
        accepted(attached, refusal.or(of_values), &mut conditions);
        let is_attached = attached.iter().any(|a| a.refused.is_none());
        if let Some(partly) = unsupported.filter(|_| is_attached) {
            conditions.holds(PARTIALLY_INVALID, partly.reason, partly.message);
        }
        match error {
            Some(error) => conditions.fails(RESOLVED_REFS, error.reason, error.message),
            None => conditions.holds(
                RESOLVED_REFS,
                RESOLVED_REFS,
                "all references lead somewhere",
            ),
        }
        if features.ambient {
            waypoints(first.no_waypoint, &mut conditions);
        }
        Some(json!({
            "parentRef": reference(&first.reference),
            "controllerName": features.gateway_controller.as_str(),
            "conditions": conditions.list(generation),
        }))
    });
    let parents: Value = parents.collect();
    Some(json!({ "parents": parents }))
}

/// Whether a parent accepts the route: one listener is enough, unless the rules are not served at all. If none does, the
/// reason that outweighs the others counts.
fn accepted(attached: &[Attachment], of_rules: Option<RouteError>, conditions: &mut Conditions) {
    let bound: Vec<&Attachment> = attached.iter().filter(|a| a.refused.is_none()).collect();
    if !bound.is_empty() {
        if let Some(error) = of_rules {
            return conditions.fails(ACCEPTED, error.reason, error.message);
        }
        let message = match bound.len() {
            _ if bound.iter().all(|a| a.hosts.is_empty()) => {
                "attached, but more specific listeners take all its hosts".to_owned()
            }
            1 => "attached".to_owned(),
            count => format!("attached to {count} listeners"),
        };
        // A route of several listeners says once whose a host is.
        let others = attached.iter().flat_map(|a| a.not_owned.iter());
        let others: BTreeSet<&str> = others.map(|other| &*other.why).collect();
        let parts: Vec<&str> = [&*message].into_iter().chain(others).collect();
        let message = parts.join("; ");
        conditions.holds(ACCEPTED, ACCEPTED, message);
        return;
    }
    let refused = attached.iter().filter_map(|a| a.refused.as_ref());
    let Some(reason) = refused.clone().map(|refused| refused.reason).min() else {
        return;
    };
    // Where one listener serves other hosts and another no such routes, the hosts are what the author got wrong; that a
    // listener is not served is another's fault.
    let hosts = RefusedReason::NoMatchingListenerHostname;
    let shown = [reason, hosts, RefusedReason::ListenerNotServed];
    let told = refused.filter(|refused| shown.contains(&refused.reason));
    let mut told: Vec<&Refused> = told.collect();
    told.sort_by_key(|refused| refused.reason != hosts);
    let mut messages: Vec<&str> = Vec::new();
    for Refused { message, .. } in told {
        if !messages.contains(&&**message) {
            messages.push(message);
        }
    }
    conditions.fails(ACCEPTED, reason.name(), messages.join("; "));
}

/// What is wrong with the rules of the route.
fn error(read: &Reader<'_, '_, Routes>, key: &ObjectKey, in_mesh: bool) -> Option<RouteError> {
    let route = key.clone();
    match key.kind {
        Kind::HttpRoute | Kind::GrpcRoute => {
            let rules = HttpRulesOf { route, in_mesh };
            read.derived(rules).error.clone()
        }
        _ => read.derived(StreamRulesOf { route, in_mesh }).error.clone(),
    }
}

/// What of the rules of the route is not served since Envoy refuses values of it.
fn unsupported(
    read: &Reader<'_, '_, Routes>,
    key: &ObjectKey,
    in_mesh: bool,
) -> Option<RouteError> {
    let route = key.clone();
    match key.kind {
        Kind::HttpRoute | Kind::GrpcRoute => {
            let rules = HttpRulesOf { route, in_mesh };
            read.derived(rules).unsupported()
        }
        _ => None,
    }
}

/// Whether a waypoint would route by it, in the ambient mode.
fn waypoints(missing: Option<NoWaypoint>, conditions: &mut Conditions) {
    match missing {
        None => conditions.holds(RESOLVED_WAYPOINTS, RESOLVED_WAYPOINTS, "nothing is missing"),
        Some(NoWaypoint::NoLabel) => conditions.fails(
            RESOLVED_WAYPOINTS,
            "MissingUseWaypointLabel",
            "neither the service nor its namespace has the label istio.io/use-waypoint, so the route has no effect on \
             workloads of the ambient mode",
        ),
        Some(NoWaypoint::NoParent) => conditions.fails(
            RESOLVED_WAYPOINTS,
            "NoMatchingParent",
            "the service does not exist",
        ),
    }
}

/// The reference as it was written, with what the API defaults.
fn reference(parent: &ParentRef) -> Value {
    let mut value = json!({
        "group": *parent.group,
        "kind": *parent.kind,
        "name": *parent.name,
    });
    if let Some(namespace) = &parent.namespace {
        value["namespace"] = Value::from(&**namespace);
    }
    if let Some(section) = &parent.section_name {
        value["sectionName"] = Value::from(&**section);
    }
    if let Some(port) = parent.port {
        value["port"] = Value::from(port);
    }
    value
}
