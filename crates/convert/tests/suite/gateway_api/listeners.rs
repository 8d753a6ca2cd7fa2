//! Recorded calls of Istio's functions about classes and listeners, asked through the statuses that come of them.

use std::collections::BTreeMap;

use pilothouse_convert::status::{self, Status};
use serde_json::{Value, json};
use testkit::{Score, World, cases, differences};

use crate::gateway_api::fixture::mesh;

/// The statuses of a Gateway, of ListenerSets that add to it, and of whatever else is there.
fn statuses(objects: &[Value]) -> Vec<Status> {
    let mut world = World::new(mesh());
    world.apply_json(objects);
    status::all(&world.store.snapshot())
}

/// A recorded Gateway that takes all ListenerSets.
fn gateway(recorded: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": recorded["metadata"],
        "spec": {
            "gatewayClassName": "istio", "listeners": listeners(recorded),
            "allowedListeners": {"namespaces": {"from": "All"}},
        },
    })
}

/// A recorded ListenerSet that adds to a Gateway.
fn set(recorded: &Value, gateway: &Value) -> Value {
    let metadata = &gateway["metadata"];
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet", "metadata": recorded["metadata"],
        "spec": {
            "parentRef": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "listeners": listeners(recorded),
        },
    })
}

/// Recorded listeners. The API wants a port, which one of them lacks.
fn listeners(recorded: &Value) -> Vec<Value> {
    let listeners = recorded["spec"]["listeners"].as_array();
    let mut listeners = listeners.cloned().unwrap_or_default();
    for listener in &mut listeners {
        if listener["port"].is_null() {
            listener["port"] = json!(80);
        }
    }
    listeners
}

/// The reasons of conflicts, by object and listener.
fn conflicts(statuses: &[Status]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut found: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for status in statuses {
        for listener in status.status["listeners"].as_array().into_iter().flatten() {
            let conditions = listener["conditions"].as_array().unwrap();
            let conflict = conditions.iter().find(|of| of["type"] == "Conflicted");
            let conflict = conflict.filter(|of| of["status"] == "True");
            if let Some(conflict) = conflict {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let reasons = found.entry(status.object.name.to_string()).or_default();
                reasons.insert(text(&listener["name"]), text(&conflict["reason"]));
            }
        }
    }
    found
}

/// Maps as Go prints them.
fn printed(conflicts: &BTreeMap<String, BTreeMap<String, String>>) -> String {
    let objects = conflicts.iter().map(|(object, reasons)| {
        let reasons: Vec<String> = reasons
            .iter()
            .map(|(name, reason)| format!("{name}:{reason}"))
            .collect();
        format!("{object}:map[{}]", reasons.join(" "))
    });
    format!("map[{}]", objects.collect::<Vec<_>>().join(" "))
}

#[test]
fn listeners_conflict_as_recorded() {
    let mut score = Score::default();
    for case in cases(
        "gateway-api-helpers",
        "gatewaycommon.ComputeGatewayListenerConflicts",
    ) {
        let parent = gateway(&case["in"]["parent"]);
        let sets = case["in"]["eligible"].as_array().into_iter().flatten();
        let sets = sets.map(|recorded| set(recorded, &parent));
        let objects: Vec<Value> = std::iter::once(parent.clone()).chain(sets).collect();
        let got = printed(&conflicts(&statuses(&objects)));
        score.count(
            case["test"].as_str().unwrap(),
            &differences(&case["out"], &json!(got)),
        );
    }
    score.all_as_recorded();
}

/// The conflicts of a Gateway with two recorded listeners.
fn of_pair(case: &Value) -> Option<String> {
    let named = |name: &str| {
        let mut listener = case["in"][name].clone();
        listener["name"] = json!(name);
        listener
    };
    let recorded = json!({
        "metadata": {"name": "pair", "namespace": "infra"}, "spec": {"listeners": [named("b"), named("a")]},
    });
    let found = conflicts(&statuses(&[gateway(&recorded)]));
    Some(found.get("infra/pair")?["a"].clone())
}

#[test]
fn pairs_of_listeners_conflict_as_recorded() {
    let mut score = Score::default();
    for case in cases("gateway-api-helpers", "gatewaycommon.listenersDistinct") {
        let got = json!(of_pair(&case).is_none());
        score.count(
            case["test"].as_str().unwrap(),
            &differences(&case["out"], &got),
        );
    }
    for case in cases(
        "gateway-api-helpers",
        "gatewaycommon.listenerConflictReason",
    ) {
        let got = json!(of_pair(&case));
        score.count(
            case["test"].as_str().unwrap(),
            &differences(&case["out"], &got),
        );
    }
    score.all_as_recorded();
}

#[test]
fn classes_are_ours_without_an_object_as_recorded_and_not_with_the_object_of_another() {
    for case in cases(
        "gateway-api-helpers",
        "gatewaycommon.GetBuiltinGatewayClasses",
    ) {
        for (class, controller) in case["out"].as_object().unwrap() {
            let gateway = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                "metadata": {"name": "g", "namespace": "infra"},
                "spec": {"gatewayClassName": class, "listeners": [{"name": "l", "port": 80, "protocol": "HTTP"}]},
            });
            let object = |controller: &Value| {
                json!({
                    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": class},
                    "spec": {"controllerName": controller},
                })
            };
            let told = |objects: &[Value]| statuses(objects).len();
            assert_eq!(told(std::slice::from_ref(&gateway)), 1, "{class}");
            assert_eq!(told(&[gateway.clone(), object(controller)]), 2, "{class}");
            assert_eq!(
                told(&[gateway, object(&json!("example.com/other"))]),
                0,
                "{class}"
            );
        }
    }
}
