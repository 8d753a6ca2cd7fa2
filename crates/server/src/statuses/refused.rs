//! What the status of a route of the Gateway API says where some of it is closed, because Envoy would refuse it.
//!
//! That is known only where resources are made, so it is added to the status that was derived: a route of which nothing is
//! served is not accepted, and one of which the rest is served is partially invalid. It is said of the proxies that are
//! connected here.

use std::collections::BTreeSet;

use model::{Diagnostic, Kind, ObjectKey};
use serde_json::{Value, json};
use store::Snapshot;

/// The reason of both conditions.
const UNSUPPORTED_VALUE: &str = "UnsupportedValue";

/// How many matches each rule of a route has.
fn matches_of(snapshot: &Snapshot, object: &ObjectKey) -> Vec<usize> {
    let tables = &snapshot.tables;
    let (http, grpc) = match object.kind {
        Kind::HttpRoute => (tables.http_routes.get(&object.name), None),
        Kind::GrpcRoute => (None, tables.grpc_routes.get(&object.name)),
        _ => (None, None),
    };
    let http = http.into_iter().flat_map(|route| &route.spec.rules);
    let grpc = grpc.into_iter().flat_map(|route| &route.spec.rules);
    let http = http.map(|rule| rule.matches.len());
    http.chain(grpc.map(|rule| rule.matches.len())).collect()
}

/// Adds to a status what of the route is closed.
pub(super) fn add(
    snapshot: &Snapshot,
    object: &ObjectKey,
    found: &[Diagnostic],
    status: &mut Value,
) {
    let closed: BTreeSet<&str> = found.iter().map(|finding| &*finding.path).collect();
    // Of several matches others may be served.
    let matches = matches_of(snapshot, object);
    let is_whole = closed.contains("")
        || matches.iter().enumerate().all(|(at, matches)| {
            *matches <= 1 && closed.contains(format!("spec.rules[{at}]").as_str())
        });
    let messages: BTreeSet<String> = found
        .iter()
        .map(|finding| match finding.path.is_empty() {
            true => finding.message.to_string(),
            false => format!("{}: {}", finding.path, finding.message),
        })
        .collect();
    let messages: Vec<String> = messages.into_iter().collect();
    let message = messages.join("; ");
    let parents = status["parents"].as_array_mut().into_iter().flatten();
    for conditions in parents.filter_map(|parent| parent["conditions"].as_array_mut()) {
        let is_accepted = |condition: &&mut Value| {
            condition["type"] == "Accepted" && condition["status"] == "True"
        };
        let Some(accepted) = conditions.iter_mut().find(is_accepted) else {
            continue;
        };
        if is_whole {
            accepted["status"] = "False".into();
            accepted["reason"] = UNSUPPORTED_VALUE.into();
            accepted["message"] = message.as_str().into();
            conditions.retain(|condition| condition["type"] != "PartiallyInvalid");
            continue;
        }
        let partly = json!({
            "type": "PartiallyInvalid",
            "status": "True",
            "observedGeneration": accepted["observedGeneration"],
            "reason": UNSUPPORTED_VALUE,
            "message": format!("Dropped Rule: {message}"),
        });
        // Where the values of the route alone tell, its status says which.
        if conditions
            .iter()
            .any(|condition| condition["type"] == "PartiallyInvalid")
        {
            continue;
        }
        conditions.push(partly);
        conditions.sort_by(|a, b| a["type"].as_str().cmp(&b["type"].as_str()));
    }
}
