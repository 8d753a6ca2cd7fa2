//! Sessions that rules of HTTPRoutes keep with an endpoint, at gateways and sidecars.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::Node;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

/// A route at a gateway and in the mesh. The rule that keeps sessions is written last and asked first.
const SHOP: &str = "
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec: {gatewayClassName: pilothouse, listeners: [{name: web, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: shop}
spec:
  parentRefs: [{name: edge}, {group: '', kind: Service, name: shop}]
  rules:
  - name: all
    backendRefs: [{name: shop, port: 80}]
  - name: cart
    matches: [{path: {value: /cart}}]
    sessionPersistence: {absoluteTimeout: 1h, cookie: {name: cart, path: /cart, lifetimeType: Permanent}}
    backendRefs: [{name: shop, port: 80}]
";

const SESSION: &str = "envoy.filters.http.stateful_session";

fn proxy(id: &str, metadata: Value) -> Arc<Node> {
    let mut all = json!({"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes"});
    all.as_object_mut()
        .unwrap()
        .extend(metadata.as_object().unwrap().clone());
    node(&json!({"id": id, "metadata": all}))
}

/// The sessions of the routes that a proxy gets for port 80, by the name of the rule.
fn sessions(world: &World, node: &Arc<Node>) -> BTreeMap<String, Value> {
    let set = world.set(&world.view(node), TypeUrl::Route);
    let mut found = BTreeMap::new();
    for resource in set.iter().filter(|r| r.name.ends_with("80")) {
        let shown = decode(TypeUrl::Route.as_str(), &resource.body);
        let hosts = shown["virtual_hosts"].as_array().unwrap();
        let routes = hosts.iter().flat_map(|host| host["routes"].as_array());
        for route in routes.flatten().filter(|r| r["name"].is_string()) {
            let state = &route["typed_per_filter_config"][SESSION]["stateful_session"];
            let name = route["name"].as_str().unwrap().to_owned();
            found.insert(name, state["session_state"]["typed_config"].clone());
        }
    }
    found
}

#[test]
fn routes_of_the_rule_alone_keep_sessions() {
    let mut settings = settings("");
    Arc::make_mut(&mut settings.features).persistent_session_filter = true;
    let mut world = World::new(settings);
    world.put(SHOP);
    let gateway = proxy(
        "router~10.9.1.1~edge-0.shop~shop.svc.cluster.local",
        json!({"PILOTHOUSE_GATEWAY": "edge"}),
    );
    let sidecar = proxy("sidecar~10.1.0.1~a.shop~shop.svc.cluster.local", json!({}));
    for proxy in [&gateway, &sidecar] {
        let sessions = sessions(&world, proxy);
        assert_eq!(
            sessions["cart"]["cookie"],
            json!({"name": "cart", "path": "/cart", "ttl": "3600s"}),
            "{sessions:?}"
        );
        assert_eq!(sessions["all"], Value::Null, "{sessions:?}");
    }
    // Without the rule's wish nothing is left of it.
    world.put(&SHOP.replace("sessionPersistence: {", "filters: [] #"));
    assert_eq!(sessions(&world, &gateway)["cart"], Value::Null);
}
