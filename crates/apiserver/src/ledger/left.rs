//! What a rollback of everything leaves as it is: what runs, who runs, and what the control plane keeps for itself. To put
//! that back would bring back machines that have gone, take away those that have come, and make tokens and certificates void.

use serde_json::{Map, Value, json};

use super::{Difference, Key, unreadable};
use crate::api::{Api, TOKEN_SECRET};
use crate::status::Failure;

/// The user by whose name the control plane writes into its own store.
const OWN: &str = "system:pilothouse";

/// How many of the latest changes of an object are asked who made them.
const ASKED: usize = 1000;

/// Kinds that are no configuration, and what they are.
const KINDS: [(&str, &str); 7] = [
    ("events", "it says what happened"),
    ("events.events.k8s.io", "it says what happened"),
    ("leases.coordination.k8s.io", "it says who leads"),
    ("namespaces", "its end cannot be taken back"),
    ("nodes", "it says what runs"),
    ("pods", "it says what runs"),
    ("serviceaccounts", "tokens are for this one only"),
];

/// Objects that the control plane makes for itself, whoever has touched them.
const NAMES: [(&str, &str); 2] = [
    ("secrets", "istio-ca-secret"),
    ("configmaps", "istio-ca-root-cert"),
];

/// The annotation of a workload that has registered itself.
const REGISTERED: &str = "istio.io/autoRegistrationGroup";

/// Why an object is left as it is by a rollback of everything to a revision, if it is.
fn why(api: &Api, change: &Difference, to: u64) -> Result<Option<&'static str>, Failure> {
    let ((resource, id), now, then) = change;
    let kind = KINDS.iter().find(|(kind, _)| *kind == resource.as_str());
    if let Some((_, why)) = kind {
        return Ok(Some(why));
    }
    let either = |holds: fn(&Value) -> bool| now.iter().chain(then).any(holds);
    let is_own = NAMES.contains(&(resource.as_str(), &*id.name));
    if is_own || by_us_alone(api, &change.0, to)? {
        return Ok(Some("the control plane keeps it"));
    }
    if either(|object| object["metadata"]["annotations"][REGISTERED].is_string()) {
        return Ok(Some("a workload registers itself by it"));
    }
    if resource.as_str() == "secrets" && either(|object| object["type"] == TOKEN_SECRET) {
        return Ok(Some("tokens are for this account only"));
    }
    Ok(None)
}

/// Whether nobody but the control plane has written an object after a revision.
fn by_us_alone(api: &Api, (resource, id): &Key, to: u64) -> Result<bool, Failure> {
    let records = api.store().history(Some((resource, id)), ASKED);
    let records = records.map_err(unreadable)?;
    let mut since = records.iter().filter(|r| r.revision > to).peekable();
    Ok(since.peek().is_some() && since.all(|r| &*r.author.user == OWN))
}

/// Takes out of changes what a rollback of everything to a revision leaves as it is; returns it as it is told. Statuses stay
/// those that are, and what differs by them only is no change.
pub(super) fn take_out(
    api: &Api,
    changes: &mut Vec<Difference>,
    to: u64,
) -> Result<Vec<Value>, Failure> {
    let mut left = Vec::new();
    let mut kept = Vec::new();
    for mut change in std::mem::take(changes) {
        keep_status(&mut change);
        if is_same(&change) {
            continue;
        }
        match why(api, &change, to)? {
            Some(why) => {
                let (resource, id) = &change.0;
                left.push(json!({
                    "resource": resource.as_str(), "namespace": &*id.namespace, "name": &*id.name, "why": why,
                }));
            }
            None => kept.push(change),
        }
    }
    *changes = kept;
    Ok(left)
}

/// Gives what is put back the status that is now.
fn keep_status((_, now, then): &mut Difference) {
    let Some(then) = then.as_mut().and_then(Value::as_object_mut) else {
        return;
    };
    match now.as_ref().and_then(|now| now.get("status")) {
        Some(status) => _ = then.insert("status".into(), status.clone()),
        None => _ = then.remove("status"),
    }
}

/// Whether two versions differ in nothing but what the API writes itself.
fn is_same((_, now, then): &Difference) -> bool {
    let (Some(now), Some(then)) = (now, then) else {
        return now == then;
    };
    let said = |object: &Value| -> Map<String, Value> {
        let mut object = object.as_object().cloned().unwrap_or_default();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in [
                "resourceVersion",
                "generation",
                "managedFields",
                "uid",
                "creationTimestamp",
            ] {
                meta.remove(field);
            }
        }
        object
    };
    said(now) == said(then)
}
