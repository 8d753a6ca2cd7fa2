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
        Value::Array(list) => list.iter_mut().for_each(normalise),
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
                let [wanted, got] =
                    [wanted, got.as_ref()].map(|v| v.map_or(Value::Null, comparable));
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
    let differences = include_str!("../differences/istio-tests-listeners.txt");
    score(TypeUrl::Listener).as_listed(differences);
}

#[test]
fn clusters_are_those_of_istios_tests() {
    let differences = include_str!("../differences/istio-tests-clusters.txt");
    score(TypeUrl::Cluster).as_listed(differences);
}

#[test]
fn routes_are_those_of_istios_tests() {
    let differences = include_str!("../differences/istio-tests-routes.txt");
    score(TypeUrl::Route).as_listed(differences);
}
