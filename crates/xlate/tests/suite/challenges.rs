//! Challenges of certificate authorities: gateways answer them over plain text while an order is under way, and only then.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::node::Node;
use model::{Kind, ObjectKey, ObjectName};
use serde_json::{Value, json};
use testkit::{World, decode, node};
use xds::TypeUrl;

fn gateway(name: &str, host: &str, tls: &str) -> String {
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: edge}}
spec:
  selector: {{app: edge}}
  servers:
  - port: {{number: 80, protocol: HTTP, name: http}}
    hosts: ['{host}']
    {tls}
  - port: {{number: 443, protocol: HTTPS, name: https}}
    hosts: ['{host}']
    tls: {{mode: SIMPLE, credentialName: {name}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: edge}}
spec:
  hosts: ['{host}']
  gateways: [{name}]
  http: [{{name: all, directResponse: {{status: 204}}}}]
"
    )
}

fn order(name: &str, label: &str, answers: &Value) -> String {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "higress-system", "labels": {"pilothouse.io/acme": label}},
        "stringData": {"answers.json": answers.to_string(), "tls.key": "hidden"},
    });
    format!("---\n{secret}\n")
}

fn answer(host: &str, token: &str) -> Value {
    json!({"host": host, "token": token, "text": format!("{token}.thumb")})
}

fn edge() -> Arc<Node> {
    node(&json!({
        "id": "router~10.9.1.1~edge-0.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "edge"}},
    }))
}

fn config(world: &World, name: &str) -> Value {
    let set = world.set(&world.view(&edge()), TypeUrl::Route);
    decode(TypeUrl::Route.as_str(), &set.get(name).unwrap().body)
}

/// The virtual host of a domain.
fn host(world: &World, name: &str, domain: &str) -> Value {
    let config = config(world, name);
    let hosts = config["virtual_hosts"].as_array().unwrap();
    let found = hosts
        .iter()
        .find(|h| h["domains"].as_array().unwrap().contains(&json!(domain)));
    found
        .unwrap_or_else(|| panic!("{domain}: {config:#}"))
        .clone()
}

const PATH: &str = "/.well-known/acme-challenge/t-1";

#[test]
fn a_host_answers_before_its_own_routes_and_over_plain_text_alone() {
    let mut world = World::of(&gateway("a", "a.example.com", ""));
    let before = config(&world, "http.80");
    world.put(&order(
        "o",
        "order",
        &json!([answer("a.example.com", "t-1")]),
    ));
    let routes = host(&world, "http.80", "a.example.com")["routes"].clone();
    assert_eq!(routes[0]["match"], json!({"path": PATH}));
    assert_eq!(routes[0]["direct_response"]["status"], 200);
    assert_eq!(
        routes[0]["direct_response"]["body"]["inline_string"],
        "t-1.thumb"
    );
    assert_eq!(routes[1]["name"], "all");
    assert_eq!(routes.as_array().unwrap().len(), 2);
    let set = world.set(&world.view(&edge()), TypeUrl::Route);
    for resource in set.iter().filter(|r| &*r.name != "http.80") {
        let shown = decode(TypeUrl::Route.as_str(), &resource.body).to_string();
        assert!(!shown.contains(PATH), "{}: {shown}", resource.name);
    }
    // Without answers, and without an order, it is as it was.
    world.put(&order("o", "order", &json!([])));
    assert_eq!(config(&world, "http.80"), before);
    world.put(&order(
        "o",
        "order",
        &json!([answer("a.example.com", "t-1")]),
    ));
    let name = ObjectName::new("higress-system", "o");
    world.delete(&ObjectKey {
        kind: Kind::Secret,
        name,
    });
    assert_eq!(config(&world, "http.80"), before);
}

#[test]
fn a_host_that_sends_all_to_https_answers_first() {
    let mut world = World::of(&gateway("a", "a.example.com", "tls: {httpsRedirect: true}"));
    let before = host(&world, "http.80", "a.example.com");
    assert_eq!(before["require_tls"], "ALL");
    world.put(&order(
        "o",
        "order",
        &json!([answer("a.example.com", "t-1")]),
    ));
    let host = host(&world, "http.80", "a.example.com");
    assert_eq!(host["require_tls"], Value::Null);
    assert_eq!(host["routes"][0]["match"]["path"], PATH);
    assert_eq!(host["routes"][1]["match"], json!({"prefix": "/"}));
    assert_eq!(
        host["routes"][1]["redirect"],
        json!({"https_redirect": true})
    );
}

#[test]
fn a_host_below_a_wildcard_is_answered_for_there_and_its_neighbours_are_not() {
    let all = gateway("all", "*", "") + &gateway("wild", "*.b.example.com", "");
    let mut world = World::of(&all);
    let answers = json!([
        answer("x.b.example.com", "t-1"),
        answer("c.example.com", "t-2")
    ]);
    world.put(&order("o", "order", &answers));
    let wild = host(&world, "http.80", "*.b.example.com")["routes"][0].clone();
    assert_eq!(wild["match"]["path"], PATH);
    let header = &wild["match"]["headers"][0];
    assert_eq!(header["name"], ":authority");
    assert_eq!(
        header["string_match"]["safe_regex"]["regex"],
        r"(?i)x\.b\.example\.com(:[0-9]+)?"
    );
    let rest = host(&world, "http.80", "*")["routes"].clone();
    assert!(rest[0]["match"]["path"].as_str().unwrap().ends_with("/t-2"));
    assert_eq!(rest[1]["name"], "all");
}

#[test]
fn what_is_no_order_or_makes_no_sense_is_answered_by_nobody() {
    let good = json!([answer("a.example.com", "t-1")]);
    let mut world = World::of(&gateway("a", "a.example.com", ""));
    let before = config(&world, "http.80");
    world.put(&order("certificate", "certificate", &good));
    world.put(&order(
        "path",
        "order",
        &json!([answer("a.example.com", "../../admin")]),
    ));
    world.put(&order(
        "text",
        "order",
        &json!([{"host": "a.example.com", "token": "t", "text": "else"}]),
    ));
    world.put(&order("none", "order", &json!("x")));
    let elsewhere = order("o", "order", &good).replace("higress-system", "edge");
    world.put(&elsewhere);
    assert_eq!(config(&world, "http.80"), before);
}

#[test]
fn piece_by_piece_is_as_from_nothing() {
    let gateways = [
        gateway("a", "a.example.com", ""),
        gateway("a", "a.example.com", "tls: {httpsRedirect: true}"),
        gateway("w", "*.example.com", ""),
        gateway("all", "*", ""),
    ];
    let orders = [
        order("o", "order", &json!([answer("a.example.com", "t-1")])),
        order(
            "o",
            "order",
            &json!([
                answer("a.example.com", "t-2"),
                answer("b.example.com", "t-3")
            ]),
        ),
        order("p", "order", &json!([answer("b.example.org", "t-4")])),
        order("p", "certificate", &json!([])),
    ];
    let steps: Vec<&String> = gateways.iter().chain(&orders).collect();
    let mut world = World::of("");
    let mut taken: Vec<&String> = Vec::new();
    for turn in 0..40usize {
        let step = steps[(turn * 5 + turn / 8) % steps.len()];
        world.put(step);
        taken.push(step);
        let mut fresh = World::of("");
        // The last of each name counts.
        taken.iter().for_each(|step| _ = fresh.put(step));
        let all = |world: &World| -> Vec<(String, u64)> {
            let set = world.set(&world.view(&edge()), TypeUrl::Route);
            set.iter()
                .map(|r| (r.name.to_string(), r.version))
                .collect()
        };
        assert_eq!(all(&world), all(&fresh), "turn {turn}");
    }
}
