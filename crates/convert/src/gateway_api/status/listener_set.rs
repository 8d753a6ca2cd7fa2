//! The status of a ListenerSet.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/conversion.go ReportListenerSetStatus, 1.32.

use std::collections::BTreeSet;

use model::ObjectKey;
use model::kinds::gateway_api::ListenerSet;
use serde_json::{Value, json};

use super::Conditions;
use super::listeners::{AttachedTo, listeners};
use super::reach::{Reach, tell_of_programming};
use crate::gateway_api::listener::{Built, BuiltOf, Problem, Served};
use crate::reader::Reader;
use crate::strata::Routes;

/// The status of a ListenerSet; `None` where the Gateway that it names is not ours.
pub(super) fn status(read: &Reader<'_, '_, Routes>, key: &ObjectKey) -> Option<Value> {
    let set = read.get::<ListenerSet>(&key.name)?;
    let built = read.derived(BuiltOf(key.clone()));
    let generation = set.meta.generation;
    match (*built).as_ref()? {
        Built::Remote => None,
        Built::NotAllowed(message) => {
            let mut conditions = Conditions::default();
            conditions.fails("Accepted", "NotAllowed", message.clone());
            conditions.fails("Programmed", "NotAllowed", message.clone());
            Some(json!({ "conditions": conditions.list(generation), "listeners": [] }))
        }
        Built::Served(served) => {
            let attached = read.derived(AttachedTo(key.clone()));
            Some(json!({
                "conditions": conditions(read, served).list(generation),
                "listeners": listeners(served, &attached, generation),
            }))
        }
    }
}

fn conditions(read: &Reader<'_, '_, Routes>, served: &Served) -> Conditions {
    let with_server = served
        .listeners
        .iter()
        .filter(|built| built.server.is_some());
    let ports: BTreeSet<u16> = with_server.map(|built| built.listener.port).collect();
    let reach = Reach::of(read, &served.gateway.namespace, &served.services, &ports);
    let mut conditions = Conditions::default();
    tell_of_programming(&mut conditions, &served.services, &reach);
    // Nothing is known of the listeners where the Gateway serves none at all.
    let none_is_valid =
        !served.services.is_empty() && !served.listeners.iter().any(|built| built.is_valid);
    let none = "none of the listeners can be served";
    match &served.problem {
        Some(Problem { reason, message }) => {
            let message = format!("the Gateway is not accepted: {message}");
            conditions.fails("Accepted", reason, message);
        }
        None if none_is_valid => conditions.fails("Accepted", "ListenersNotValid", none),
        None => conditions.holds("Accepted", "Accepted", "the ListenerSet is valid"),
    }
    if none_is_valid {
        conditions.fails("Programmed", "ListenersNotValid", none);
    }
    conditions
}
