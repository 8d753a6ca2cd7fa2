//! How much one number in an object can make a proxy do that others share.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use serde_json::{Value, json};
use testkit::{World, decode, node};
use xds::TypeUrl;

const HOST: &str = "web.shop.svc.cluster.local";

/// A service with endpoints of these weights, and its rules: `HTTP` stands for the fields of its route, `POLICY` for its
/// traffic policy.
fn world(weights: &[u32], http: &Value, policy: &Value) -> World {
    let endpoints: Vec<Value> = weights
        .iter()
        .enumerate()
        .map(|(at, weight)| json!({ "address": format!("10.0.0.{at}"), "weight": weight }))
        .collect();
    let mut route = json!({ "route": [{ "destination": { "host": HOST } }] });
    let fields = http.as_object().unwrap().clone();
    route.as_object_mut().unwrap().extend(fields);
    let object = |kind: &str, spec: Value| {
        json!({ "apiVersion": "networking.istio.io/v1", "kind": kind,
            "metadata": { "name": "web", "namespace": "shop" }, "spec": spec })
        .to_string()
    };
    let objects = [
        object(
            "ServiceEntry",
            json!({ "hosts": [HOST], "location": "MESH_INTERNAL", "resolution": "STATIC",
                "ports": [{ "number": 80, "name": "http", "protocol": "HTTP" }], "endpoints": endpoints }),
        ),
        object(
            "DestinationRule",
            json!({ "host": HOST, "trafficPolicy": policy }),
        ),
        object(
            "VirtualService",
            json!({ "hosts": [HOST], "http": [route] }),
        ),
    ];
    World::of(&objects.join("\n---\n"))
}

/// Every value of a field in what a sidecar of the namespace gets of a type for the service.
fn values(world: &World, ty: TypeUrl, field: &str) -> Vec<Value> {
    fn collect(value: &Value, field: &str, found: &mut Vec<Value>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get(field).cloned());
                fields.values().for_each(|v| collect(v, field, found));
            }
            Value::Array(items) => items.iter().for_each(|v| collect(v, field, found)),
            _ => {}
        }
    }
    let view = world.view(&node(&json!({
        "id": "sidecar~10.0.0.9~client.shop~shop.svc.cluster.local",
        "metadata": { "NAMESPACE": "shop", "ISTIO_VERSION": "1.32.0" },
    })));
    let mut found = Vec::new();
    for resource in &world.set(&view, ty) {
        let is_of_port = resource.name.contains(HOST) || &*resource.name == "80";
        if is_of_port && !resource.name.starts_with("inbound") {
            collect(&decode(ty.as_str(), &resource.body), field, &mut found);
        }
    }
    found
}

/// The weights of the endpoints, without those of localities.
fn weights_of(weights: &[u32], policy: &Value) -> Vec<u64> {
    let world = world(weights, &json!({}), policy);
    let lists = values(&world, TypeUrl::Endpoint, "lb_endpoints");
    let endpoints = lists.iter().flat_map(|list| list.as_array().unwrap());
    endpoints
        .map(|one| one["load_balancing_weight"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_ring_is_not_made_large_by_uneven_weights() {
    let ring = json!({ "loadBalancer": { "consistentHash": { "useSourceIp": true } } });
    assert_eq!(
        weights_of(&[1, 2_000_000_000], &ring),
        [15_258, 2_000_000_000]
    );
    assert_eq!(weights_of(&[1, 100_000], &ring), [1, 100_000]);
    assert_eq!(weights_of(&[1, 1], &ring), [1, 1]);
    let maglev = json!({ "loadBalancer": { "consistentHash": { "useSourceIp": true, "maglev": { "tableSize": 1021 } } } });
    for other in [maglev, json!({})] {
        assert_eq!(weights_of(&[1, 2_000_000_000], &other), [1, 2_000_000_000]);
    }
}

#[test]
fn a_request_is_not_repeated_without_end() {
    let retried = |attempts: u32| {
        let http = json!({ "retries": { "attempts": attempts, "retryOn": "5xx" } });
        values(
            &world(&[1], &http, &json!({})),
            TypeUrl::Route,
            "num_retries",
        )
    };
    assert_eq!(retried(100), [json!(100)]);
    assert_eq!(retried(2_147_483_647), [json!(100)]);
    let mirrored = |count: usize| {
        let mirror = json!({ "destination": { "host": HOST } });
        let http = json!({ "mirrors": vec![mirror; count] });
        let found = values(
            &world(&[1], &http, &json!({})),
            TypeUrl::Route,
            "request_mirror_policies",
        );
        found
            .iter()
            .map(|list| list.as_array().unwrap().len())
            .collect::<Vec<_>>()
    };
    assert_eq!(mirrored(16), [16]);
    assert_eq!(mirrored(5000), [16]);
}

#[test]
fn a_route_that_makes_too_much_of_a_request_is_closed() {
    let is_closed = |http: &Value| {
        let world = world(&[1], http, &json!({}));
        !values(&world, TypeUrl::Route, "direct_response").is_empty()
    };
    let setting = |commands: usize| {
        let value = "%REQ(x)%".repeat(commands / 10);
        let set: serde_json::Map<String, Value> = (0..10)
            .map(|at| (format!("x-{at}"), json!(value)))
            .collect();
        json!({ "headers": { "response": { "set": set } } })
    };
    assert!(!is_closed(&setting(60)));
    assert!(is_closed(&setting(70)));
    let rewriting =
        |text: &str| json!({ "rewrite": { "uriRegexRewrite": { "match": "a", "rewrite": text } } });
    assert!(!is_closed(&rewriting(&"\\0".repeat(16))));
    assert!(is_closed(&rewriting(&"\\0".repeat(8000))));
}

#[test]
fn a_service_of_few_clusters_looks_for_outliers_as_often_as_it_says() {
    let interval = |time: &str| {
        let policy = json!({ "outlierDetection": { "interval": time } });
        let found = values(
            &world(&[1], &json!({}), &policy),
            TypeUrl::Cluster,
            "outlier_detection",
        );
        let stated = found.iter().filter_map(|one| one["interval"].as_str());
        stated.map(str::to_owned).collect::<Vec<_>>()
    };
    // A service with few clusters may have an interval that is short.
    assert_eq!(interval("8ms"), ["0.008s"]);
    assert_eq!(interval("2s"), ["2s"]);
}
