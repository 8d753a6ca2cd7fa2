//! Gateways and routes that were made of Ingresses with annotations.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::edge::{AddressRules, EdgeRoute};
use model::node::Node;
use serde_json::{Value, json};
use testkit::{World, decode, node};
use xds::TypeUrl;

const SHOP: &str = "
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 80}]}
";

/// A host with a certificate of its own, and its routes.
fn host(name: &str, mode: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: edge}}
spec:
  servers:
  - {{port: {{number: 80, protocol: HTTP, name: http-80-ingress}}, hosts: [{name}.example.com]}}
  - port: {{number: 443, protocol: HTTPS, name: https-443-ingress}}
    hosts: [{name}.example.com]
    tls: {{mode: {mode}, credentialName: {name}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: edge}}
spec:
  hosts: [{name}.example.com]
  gateways: [{name}]
  http:
  - name: {name}
    match: [{{uri: {{prefix: /a}}}}]
    route: [{{destination: {{host: shop.shop.svc.cluster.local, port: {{number: 80}}}}}}]
"
    )
}

fn gateway() -> Arc<Node> {
    node(&json!({
        "id": "router~10.9.1.1~edge-0.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes"},
    }))
}

fn resources(world: &World, ty: TypeUrl) -> BTreeMap<String, Value> {
    let set = world.set(&world.view(&gateway()), ty);
    let shown = |body| decode(ty.as_str(), body);
    set.iter()
        .map(|r| (r.name.to_string(), shown(&r.body)))
        .collect()
}

fn domains(config: &Value) -> BTreeSet<String> {
    let hosts = config["virtual_hosts"].as_array().unwrap();
    let domains = hosts.iter().flat_map(|h| h["domains"].as_array().unwrap());
    domains.map(|d| d.as_str().unwrap().to_owned()).collect()
}

#[test]
fn hosts_share_the_routes_of_a_port_unless_they_ask_for_certificates() {
    let mut world = World::of(SHOP);
    for (name, mode) in [("a", "SIMPLE"), ("b", "SIMPLE"), ("c", "MUTUAL")] {
        world.put_edge(&host(name, mode), &BTreeMap::new());
    }
    let routes = resources(&world, TypeUrl::Route);
    let named: Vec<&String> = routes.keys().collect();
    assert_eq!(
        named,
        ["http.80", "https.443", "https.443.https-443-ingress.c.edge"]
    );
    let both = BTreeSet::from(["a.example.com".to_owned(), "b.example.com".to_owned()]);
    assert_eq!(domains(&routes["https.443"]), both);
    // Who certified nothing does not get there over another host's connection.
    let apart = domains(&routes["https.443.https-443-ingress.c.edge"]);
    assert_eq!(apart, BTreeSet::from(["c.example.com".to_owned()]));
    let listeners = resources(&world, TypeUrl::Listener);
    let chains = listeners["0.0.0.0_443"]["filter_chains"]
        .as_array()
        .unwrap();
    let taken: BTreeMap<&str, &str> = chains
        .iter()
        .map(|chain| {
            let name = chain["filter_chain_match"]["server_names"][0].as_str();
            let filters = chain["filters"].as_array().unwrap();
            let manager = &filters.last().unwrap()["typed_config"];
            let routes = manager["rds"]["route_config_name"].as_str();
            (name.unwrap(), routes.unwrap())
        })
        .collect();
    let expected = [
        ("a.example.com", "https.443"),
        ("b.example.com", "https.443"),
        ("c.example.com", "https.443.https-443-ingress.c.edge"),
    ];
    assert_eq!(taken, BTreeMap::from(expected));
}

#[test]
fn slashes_that_follow_one_another_are_one() {
    let mut world = World::of(SHOP);
    world.put_edge(&host("a", "SIMPLE"), &BTreeMap::new());
    let listeners = resources(&world, TypeUrl::Listener);
    assert_eq!(listeners.len(), 2);
    for (name, listener) in listeners {
        let text = listener.to_string();
        assert!(text.contains("\"merge_slashes\":true"), "{name}: {text}");
    }
}

#[test]
fn a_prefix_is_of_whole_elements() {
    let mut world = World::of(SHOP);
    world.put_edge(&host("a", "SIMPLE"), &BTreeMap::new());
    let routes = resources(&world, TypeUrl::Route);
    let route = &routes["http.80"]["virtual_hosts"][0]["routes"][0];
    assert_eq!(route["match"]["path_separated_prefix"], "/a", "{route}");
}

/// The work of an edit of the routes of one host among so many: queries that are evaluated, and resources that change.
fn work(hosts: usize) -> (u64, usize) {
    let mut world = World::of(SHOP);
    let all: Vec<String> = (0..hosts)
        .map(|n| host(&format!("h{n}"), "SIMPLE"))
        .collect();
    world.put_edge(&all.join("---"), &BTreeMap::new());
    let types = [TypeUrl::Cluster, TypeUrl::Listener, TypeUrl::Route];
    let view = world.view(&gateway());
    for ty in types {
        world.engine.root(&view.set(ty));
    }
    let asked = EdgeRoute {
        max_body: Some(1 << 20),
        ..EdgeRoute::default()
    };
    let asked = BTreeMap::from([(0, Arc::new(asked))]);
    let slow = |timeout: &str| {
        let timeout = format!("    timeout: {timeout}\n    route:");
        host("h1", "SIMPLE").replace("    route:", &timeout)
    };
    world.put_edge(&slow("3s"), &asked);
    let before = types.map(|ty| world.set(&view, ty));
    let runs = world.engine.stats().runs;
    world.put_edge(&slow("4s"), &asked);
    let after = types.map(|ty| world.set(&view, ty));
    let mut changed = 0;
    for (before, after) in before.iter().zip(&after) {
        after.since(before, |_, _| changed += 1);
    }
    (world.engine.stats().runs - runs, changed)
}

#[test]
fn an_edit_of_one_host_is_the_same_work_among_many() {
    let (few, many) = (work(10), work(300));
    assert_eq!(few.0, many.0);
    // The routes of plain text and of TLS.
    assert_eq!((few.1, many.1), (2, 2));
}

#[test]
fn a_route_is_closed_where_nothing_does_what_it_asks_for() {
    let mut world = World::of(SHOP);
    let objects = host("a", "SIMPLE");
    let (gateway, rule) = objects.split_once("---").unwrap();
    // Somebody wrote a Gateway of the same name.
    world.put(gateway);
    let rules = AddressRules {
        allowed: BTreeSet::from(["10.0.0.0/8".parse().unwrap()]),
        denied: BTreeSet::new(),
    };
    let asked = EdgeRoute {
        addresses: Some(rules),
        ..EdgeRoute::default()
    };
    world.put_edge(rule, &BTreeMap::from([(0, Arc::new(asked))]));
    let route = |world: &World| {
        let routes = resources(world, TypeUrl::Route);
        routes["http.80"]["virtual_hosts"][0]["routes"][0].clone()
    };
    let closed = route(&world);
    assert_eq!(closed["direct_response"]["status"], 503, "{closed}");
    world.put_edge(gateway, &BTreeMap::new());
    let open = route(&world);
    assert!(open["route"]["cluster"].is_string(), "{open}");
    let configs = open["typed_per_filter_config"].as_object().unwrap();
    assert!(configs.contains_key("pilothouse.addresses"), "{open}");
}
