//! The budget of a namespace: many objects, each below every limit of one.

use std::sync::Arc;

use mesh::finding::code;
use model::settings::Settings;
use pilothouse_xlate::View;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

use crate::limits::hostile::{everybody, list, object};

/// Five objects of a kind, of which so many may be served with a budget of 1 MiB.
struct Case {
    name: &'static str,
    kind: &'static str,
    /// The field that is told.
    field: &'static str,
    served: usize,
    /// What the object of that number says.
    spec: fn(usize) -> String,
}

const TO_CART: &str = "route: [{destination: {host: cart}}]";
const PORTS: &str = "[{number: 80, name: http, protocol: HTTP}]";

const CASES: [Case; 7] = [
    Case {
        name: "matches",
        kind: "VirtualService",
        field: "spec",
        served: 3,
        spec: |n| {
            let matches = list(100, |at| format!("{{uri: {{prefix: /p{at}}}}}"));
            format!("{{hosts: [r{n}.test], http: [{{match: {matches}, {TO_CART}}}]}}")
        },
    },
    Case {
        name: "hosts",
        kind: "VirtualService",
        field: "spec",
        served: 3,
        spec: |n| {
            let hosts = list(100, |at| format!("h{at}.r{n}.test"));
            format!("{{hosts: {hosts}, http: [{{{TO_CART}}}]}}")
        },
    },
    Case {
        name: "delegates",
        kind: "VirtualService",
        field: "spec",
        served: 3,
        spec: |n| format!("{{hosts: [d{n}.test], http: [{{delegate: {{name: leaf}}}}]}}"),
    },
    Case {
        name: "subsets",
        kind: "DestinationRule",
        field: "spec.subsets",
        served: 3,
        spec: |n| {
            let subsets = list(75, |at| format!("{{name: s{at}}}"));
            format!("{{host: s{n}.test, subsets: {subsets}}}")
        },
    },
    Case {
        name: "subsets-of-wildcards",
        kind: "DestinationRule",
        field: "spec.subsets",
        served: 3,
        spec: |_| {
            // Five services are below it.
            let subsets = list(15, |at| format!("{{name: s{at}}}"));
            format!("{{host: '*.test', subsets: {subsets}}}")
        },
    },
    Case {
        name: "ports",
        kind: "ServiceEntry",
        field: "spec.hosts",
        served: 3,
        spec: |n| {
            let hosts = list(75, |at| format!("e{at}.x{n}.test"));
            format!("{{hosts: {hosts}, resolution: DNS, ports: {PORTS}}}")
        },
    },
    Case {
        name: "endpoints",
        kind: "ServiceEntry",
        field: "spec.hosts",
        served: 3,
        spec: |n| {
            let hosts = list(15, |at| format!("e{at}.x{n}.test"));
            let endpoints = list(100, |at| format!("{{address: 10.9.0.{at}}}"));
            format!(
                "{{hosts: {hosts}, resolution: STATIC, ports: {PORTS}, endpoints: {endpoints}}}"
            )
        },
    },
];

fn small() -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.namespace_budget = 1.into();
    settings.features = Arc::new(features);
    settings
}

/// What objects of the cases refer to.
fn around() -> String {
    let routes = list(100, |n| {
        format!("{{match: [{{uri: {{prefix: /p{n}}}}}], {TO_CART}}}")
    });
    let services: String = (0..5)
        .map(|n| {
            let spec = format!("{{hosts: [s{n}.test], resolution: DNS, ports: {PORTS}}}");
            object("ServiceEntry", &format!("s{n}"), &spec)
        })
        .collect();
    everybody() + &services + &object("VirtualService", "leaf", &format!("{{http: {routes}}}"))
}

/// The object of that number, the older the greater it is: names do not decide.
fn at(kind: &str, number: usize, spec: &str) -> String {
    let created = format!(
        "creationTimestamp: '2026-01-01T00:00:{:02}Z', namespace",
        9 - number
    );
    object(kind, &format!("o{number}"), spec).replacen("namespace", &created, 1)
}

fn over(world: &World) -> Vec<(String, String)> {
    let found = world.get(&FindingsOfMesh);
    let over = found.iter().filter(|found| found.code == code::OVER_BUDGET);
    let mut over: Vec<_> = over
        .map(|found| {
            (
                found
                    .object
                    .as_ref()
                    .expect("it is about an object")
                    .to_string(),
                found.path.to_string(),
            )
        })
        .collect();
    over.sort();
    over
}

fn told(case: &Case, numbers: impl Iterator<Item = usize>) -> Vec<(String, String)> {
    numbers
        .map(|n| (format!("{} shop/o{n}", case.kind), case.field.to_owned()))
        .collect()
}

#[test]
fn the_youngest_are_over_the_budget_and_others_go_on() {
    for case in CASES {
        let mut world = World::new(small());
        world.put(&around());
        for number in 0..5 {
            world.put(&at(case.kind, number, &(case.spec)(number)));
        }
        // 4 is the oldest.
        let left_out = 5 - case.served;
        assert_eq!(over(&world), told(&case, 0..left_out), "{}", case.name);
        // The same in another namespace is another budget.
        for number in 0..5 {
            let other = at(case.kind, number, &(case.spec)(number)).replace("shop", "other");
            world.put(&other);
        }
        let of_shop = over(&world);
        let of_shop = of_shop
            .iter()
            .filter(|(object, _)| object.contains(" shop/"));
        assert_eq!(of_shop.count(), left_out, "{}", case.name);
        // Room that is made is taken by the next.
        let little = match case.kind {
            "VirtualService" => format!("{{hosts: [x.test], http: [{{{TO_CART}}}]}}"),
            "DestinationRule" => "{host: x.test}".to_owned(),
            _ => format!("{{hosts: [x.test], resolution: DNS, ports: {PORTS}}}"),
        };
        world.put(&at(case.kind, 4, &little));
        let of_shop = over(&world);
        let of_shop = of_shop
            .iter()
            .filter(|(object, _)| object.contains(" shop/"));
        assert_eq!(of_shop.count(), left_out - 1, "{}", case.name);
        // And with the usual budget nobody is near.
        let mut world = World::new(settings(""));
        world.put(&around());
        for number in 0..5 {
            world.put(&at(case.kind, number, &(case.spec)(number)));
        }
        assert_eq!(over(&world), [], "{}", case.name);
    }
}

fn sidecar(world: &World) -> Arc<View> {
    world.view(&node(&json!({
        "id": "sidecar~10.0.0.5~cart.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0"},
    })))
}

fn resource(world: &World, ty: TypeUrl, name: &str) -> Option<Value> {
    let set = world.set(&sidecar(world), ty);
    Some(decode(ty.as_str(), &set.get(name)?.body))
}

#[test]
fn a_rule_over_the_budget_answers_503_for_its_hosts_alone() {
    let mut world = World::new(small());
    world.put(&around());
    for number in 0..5 {
        world.put(&at("VirtualService", number, &(CASES[0].spec)(number)));
    }
    let config = resource(&world, TypeUrl::Route, "80").unwrap();
    let routes = |domain: &str| {
        let hosts = config["virtual_hosts"].as_array().unwrap().iter();
        let mut named = hosts.filter(|host| {
            let domains = host["domains"].as_array().unwrap();
            domains.contains(&json!(domain))
        });
        named.next().unwrap()["routes"].as_array().unwrap().clone()
    };
    assert_eq!(routes("r4.test").len(), 100);
    assert_eq!(routes("r2.test").len(), 100);
    for closed in ["r0.test", "r1.test"] {
        let routes = routes(closed);
        assert_eq!(routes.len(), 1);
        assert_eq!(routes[0]["direct_response"]["status"], 503);
    }
}

#[test]
fn subsets_over_the_budget_are_not_there_and_the_service_is() {
    let mut world = World::new(small());
    world.put(&around());
    for number in 0..5 {
        world.put(&at("DestinationRule", number, &(CASES[3].spec)(number)));
    }
    let cluster = |name: &str| resource(&world, TypeUrl::Cluster, name).is_some();
    assert!(cluster("outbound|80|s7|s4.test") && cluster("outbound|80||s0.test"));
    assert!(!cluster("outbound|80|s7|s0.test"));
}
