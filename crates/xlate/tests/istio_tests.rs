//! What Istio's own tests generate, generated here: skipped where there are no recordings.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::{IstioTest, Score, decode, differences};
use xds::TypeUrl;

/// Without what differs in how a test and an installation put things in: a test hands services to the model past every
/// kind of object, so that they have no name as one, and its objects have no domain that completes short names and maybe
/// no namespace.
fn comparable(value: &Value) -> Value {
    let mut value = value.clone();
    normalise(&mut value);
    value
}

const DOMAIN: &str = ".svc.cluster.local";

fn normalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Array(services)) = map.get_mut("services") {
                for service in services {
                    service.as_object_mut().map(|s| {
                        s.remove("name");
                        s.remove("namespace")
                    });
                }
            }
            if let Some(Value::Array(domains)) = map.get_mut("domains") {
                domains.sort_by_key(Value::to_string);
            }
            map.values_mut().for_each(normalise);
        }
        Value::String(text) if text == "10.000000001s" => *text = "10s".into(),
        Value::String(text) if text.contains("/namespaces//") => {
            *text = text.replace("/namespaces//", "/namespaces/default/");
        }
        Value::String(text) if text.contains(DOMAIN) => *text = text.replace(DOMAIN, ""),
        Value::Array(list) => list.iter_mut().for_each(normalise),
        _ => {}
    }
}

/// Endpoints that a test handed to the model are no workloads.
fn forget_workloads(wanted: &Value, got: &mut Value) {
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => {
            for (name, wanted) in wanted {
                match got.get_mut(name) {
                    Some(workload) if name == "workload" && wanted == ";;;;" => {
                        *workload = wanted.clone();
                    }
                    Some(got) => forget_workloads(wanted, got),
                    None => {}
                }
            }
        }
        (Value::Array(wanted), Value::Array(got)) => {
            for (wanted, got) in wanted.iter().zip(got) {
                forget_workloads(wanted, got);
            }
        }
        _ => {}
    }
}

fn score(ty: TypeUrl) -> Score {
    let only = std::env::var("RECORDED").ok();
    let mut score = Score::default();
    let tests = IstioTest::recorded();
    for test in tests.iter().filter(|t| !t.is_elsewhere()) {
        if only
            .as_ref()
            .is_some_and(|o| !test.name.contains(o.as_str()))
        {
            continue;
        }
        for output in test.outputs.iter().filter(|o| o.ty == ty) {
            let (world, node) = test.world_of(output);
            let set = world.set(&world.view(&node), ty);
            let mut names: BTreeSet<&str> = output.resources.keys().map(String::as_str).collect();
            // Proxies ask for the routes that listeners name; there may be more.
            if ty != TypeUrl::Route {
                names.extend(set.iter().map(|r| &*r.name));
            }
            for name in names {
                let got = set.get(name).map(|r| decode(ty.as_str(), &r.body));
                let wanted = output.resources.get(name);
                let [wanted, mut got] =
                    [wanted, got.as_ref()].map(|v| v.map_or(Value::Null, comparable));
                forget_workloads(&wanted, &mut got);
                score.count(
                    &format!("{}/{} {name}", test.group, test.name),
                    &differences(&wanted, &got),
                );
            }
        }
    }
    score
}

#[test]
fn listeners_are_those_of_istios_tests() {
    score(TypeUrl::Listener).at_least(95.0);
}

#[test]
fn clusters_are_those_of_istios_tests() {
    score(TypeUrl::Cluster).at_least(95.0);
}

#[test]
fn routes_are_those_of_istios_tests() {
    score(TypeUrl::Route).at_least(95.0);
}
