//! InferencePools as backends of routes, and their statuses.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::{Kind, ObjectKey, ObjectName};
use pilothouse_convert::status;
use serde_json::{Value, json};
use testkit::{World, settings};

const POOL: &str = "
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: models, generation: 3}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: picker, port: {number: 9002}}
";

const PICKER: &str = "
apiVersion: v1
kind: Service
metadata: {name: picker, namespace: models}
spec: {clusterIP: 10.0.0.9, ports: [{name: grpc, port: 9002}]}
";

/// A Gateway that takes routes of its own namespace, or of all.
fn gateway(name: &str, from: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: edge}}
spec:
  gatewayClassName: istio
  listeners:
  - {{name: web, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {{from: {from}}}}}}}
"
    )
}

/// A route of the pool's namespace that goes to backends by way of Gateways.
fn route(name: &str, gateways: &[&str], backends: &str) -> String {
    let parents: Vec<String> = gateways
        .iter()
        .map(|gateway| format!("{{name: {gateway}, namespace: edge}}"))
        .collect();
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: models}}
spec:
  parentRefs: [{}]
  hostnames: [chat.example.com]
  rules: [{{backendRefs: [{backends}]}}]
",
        parents.join(", ")
    )
}

const TO_POOL: &str = "{group: inference.networking.k8s.io, kind: InferencePool, name: chat}";

fn world(inference_extension: bool) -> World {
    let mut settings = settings("");
    Arc::make_mut(&mut settings.features).inference_extension = inference_extension;
    let mut world = World::new(settings);
    world.put(POOL);
    world.put(&gateway("open", "All"));
    world.put(&gateway("closed", "Same"));
    world
}

/// The status of an object; `null` where it has none.
fn status_of(world: &World, kind: Kind, name: &str) -> Value {
    let key = ObjectKey {
        kind,
        name: ObjectName::new("models", name),
    };
    let all = status::all(&world.store.snapshot());
    let found = all.into_iter().find(|status| status.object == key);
    found.map_or(Value::Null, |found| found.status)
}

/// Parent, and status and reason of each condition.
fn told(status: &Value) -> Vec<(String, Vec<String>)> {
    let parents = status["parents"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of_parent = |parent: Value| {
        let reference = &parent["parentRef"];
        let name = format!("{}/{}", text(&reference["kind"]), text(&reference["name"]));
        let conditions = parent["conditions"].as_array().cloned().unwrap();
        let conditions = conditions.iter().map(|condition| {
            let of = |field: &str| text(&condition[field]);
            format!("{} {} {}", of("type"), of("status"), of("reason"))
        });
        (name, conditions.collect())
    };
    parents.into_iter().map(of_parent).collect()
}

/// Hosts and ports that the routes of the one host go to.
fn destinations(world: &World) -> Vec<(String, u32)> {
    let snapshot = world.store.snapshot();
    let rules = snapshot.tables.virtual_services.iter();
    let routes = rules.flat_map(|rule| rule.spec.http.clone());
    let destinations = routes.flat_map(|route| route.route);
    let destinations = destinations.filter_map(|route| route.destination);
    destinations
        .map(|to| (to.host, to.port.map_or(0, |port| port.number)))
        .collect()
}

fn conditions(accepted: &str, resolved: &str) -> Vec<String> {
    vec![
        format!("Accepted {accepted}"),
        format!("ResolvedRefs {resolved}"),
    ]
}

#[test]
fn a_route_to_a_pool_goes_to_the_service_that_it_stands_for() {
    let mut world = world(true);
    world.put(&route("chat", &["open"], TO_POOL));
    let host = "chat-ip-31e06f7d.models.svc.cluster.local".to_owned();
    assert_eq!(destinations(&world), [(host, 54321)]);
    let route = told(&status_of(&world, Kind::HttpRoute, "chat"));
    assert_eq!(route[0].1, conditions("True Accepted", "True ResolvedRefs"));
    world.delete(&ObjectKey {
        kind: Kind::InferencePool,
        name: ObjectName::new("models", "chat"),
    });
    assert_eq!(destinations(&world), [(String::new(), 0)]);
    let route = told(&status_of(&world, Kind::HttpRoute, "chat"));
    assert_eq!(
        route[0].1,
        conditions("True Accepted", "False BackendNotFound")
    );
}

#[test]
fn a_pool_that_is_not_translated_is_of_an_invalid_kind() {
    let mut world = world(false);
    world.put(&route("chat", &["open"], TO_POOL));
    assert_eq!(destinations(&world), [(String::new(), 0)]);
    let route = told(&status_of(&world, Kind::HttpRoute, "chat"));
    assert_eq!(route[0].1, conditions("True Accepted", "False InvalidKind"));
    assert!(status_of(&world, Kind::InferencePool, "chat").is_null());
}

#[test]
fn the_status_of_a_pool_tells_of_the_gateways_whose_routes_name_it() {
    let mut world = world(true);
    let nobody = json!({"parents": []});
    assert_eq!(status_of(&world, Kind::InferencePool, "chat"), nobody);

    world.put(&route("chat", &["open", "closed"], TO_POOL));
    let status = status_of(&world, Kind::InferencePool, "chat");
    let missing = "False InvalidExtensionRef";
    assert_eq!(
        told(&status),
        [
            (
                "Gateway/closed".to_owned(),
                conditions("False HTTPRouteNotAccepted", missing),
            ),
            (
                "Gateway/open".to_owned(),
                conditions("True Accepted", missing),
            ),
        ]
    );
    let first = &status["parents"][0];
    assert_eq!(first["controllerName"], "istio.io/gateway-controller");
    assert_eq!(first["conditions"][0]["observedGeneration"], 3);

    world.put(PICKER);
    let status = told(&status_of(&world, Kind::InferencePool, "chat"));
    assert_eq!(
        status[1].1,
        conditions("True Accepted", "True ResolvedRefs")
    );

    // A route that leads elsewhere does not tell of the pool.
    world.put(&route("chat", &["open"], "{name: picker, port: 9002}"));
    assert_eq!(status_of(&world, Kind::InferencePool, "chat"), nobody);
}

#[test]
fn one_accepted_route_is_enough() {
    let mut world = world(true);
    world.put(PICKER);
    let section = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: absent, namespace: models}
spec:
  parentRefs: [{name: open, namespace: edge, sectionName: absent}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: chat}]}]
";
    world.put(section);
    let refused = told(&status_of(&world, Kind::InferencePool, "chat"));
    let resolved = "True ResolvedRefs";
    assert_eq!(
        refused[0].1,
        conditions("False HTTPRouteNotAccepted", resolved)
    );
    world.put(&route("chat", &["open"], TO_POOL));
    let accepted = told(&status_of(&world, Kind::InferencePool, "chat"));
    assert_eq!(accepted[0].1, conditions("True Accepted", resolved));
}
