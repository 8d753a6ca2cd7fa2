//! InferencePools: endpoints of their Pods, and the endpoint picker that chooses one for each request.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::Node;
use model::{Kind, ObjectKey, ObjectName};
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

/// Two pools, the Pods of one of them, and a gateway that sends to the first.
const POOLS: &str = "
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: models}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 8000}, {number: 8001}]
  endpointPickerRef: {name: picker, port: {number: 9002}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: draw, namespace: models}
spec:
  selector: {matchLabels: {app: draw}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: other, port: {number: 9003}, failureMode: FailOpen}
---
apiVersion: v1
kind: Service
metadata: {name: picker, namespace: models}
spec: {clusterIP: 10.0.0.9, selector: {app: picker}, ports: [{name: grpc, port: 9002}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: models}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]
";

const CHAT: &str = "chat-ip-31e06f7d.models.svc.cluster.local";
const DRAW: &str = "draw-ip-50f7becd.models.svc.cluster.local";
const EXT_PROC: &str = "envoy.filters.http.ext_proc";

fn pod(name: &str, ip: &str, ready: bool) -> String {
    let ready = if ready { "True" } else { "False" };
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: models, labels: {{app: chat}}}}
spec: {{serviceAccountName: chat}}
status: {{podIP: {ip}, phase: Running, conditions: [{{type: Ready, status: '{ready}'}}]}}
"
    )
}

/// A rule of the gateway that sends to these hosts.
fn rule(hosts: &[&str]) -> String {
    let weight = 100 / hosts.len();
    let sent = hosts.iter().map(|host| {
        format!("{{destination: {{host: {host}, port: {{number: 54321}}}}, weight: {weight}}}")
    });
    let sent: Vec<String> = sent.collect();
    format!(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: chat, namespace: models}}
spec:
  hosts: [chat.example.com]
  gateways: [edge]
  http:
  - name: chat
    corsPolicy: {{allowOrigins: [{{exact: https://example.com}}]}}
    route: [{}]
",
        sent.join(", ")
    )
}

fn world() -> World {
    let mut settings = settings("");
    Arc::make_mut(&mut settings.features).inference_extension = true;
    let mut world = World::new(settings);
    world.put(POOLS);
    world.put(&pod("chat-0", "10.1.0.1", true));
    world.put(&pod("chat-1", "10.1.0.2", true));
    world.put(&rule(&[CHAT]));
    world
}

fn gateway() -> Arc<Node> {
    node(&json!({
        "id": "router~10.9.1.1~edge-0.models~models.svc.cluster.local",
        "metadata": {
            "NAMESPACE": "models",
            "CLUSTER_ID": "Kubernetes",
            "LABELS": {"istio": "ingressgateway"},
        },
    }))
}

fn sidecar() -> Arc<Node> {
    node(&json!({
        "id": "sidecar~10.1.0.1~chat-0.models~models.svc.cluster.local",
        "metadata": {"NAMESPACE": "models", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "chat"}},
    }))
}

/// What a proxy gets of a type, by name.
fn sent(world: &World, node: &Arc<Node>, ty: TypeUrl) -> BTreeMap<String, Value> {
    let set = world.set(&world.view(node), ty);
    let shown = set.iter();
    let shown = shown.map(|r| (r.name.to_string(), decode(ty.as_str(), &r.body)));
    shown.collect()
}

/// The addresses of a cluster's endpoints, sorted.
fn addresses(world: &World, cluster: &str) -> Vec<String> {
    let assignments = sent(world, &gateway(), TypeUrl::Endpoint);
    let localities = assignments[cluster]["endpoints"].as_array().cloned();
    let endpoints = localities.into_iter().flatten();
    let endpoints = endpoints.flat_map(|l| l["lb_endpoints"].as_array().cloned().unwrap());
    let address = endpoints.map(|e| e["endpoint"]["address"]["socket_address"].clone());
    let mut all: Vec<String> = address
        .map(|a| format!("{}:{}", a["address"].as_str().unwrap(), a["port_value"]))
        .collect();
    all.sort();
    all
}

/// The names of the filters of the gateway's requests.
fn filters(world: &World) -> Vec<String> {
    let listeners = sent(world, &gateway(), TypeUrl::Listener);
    let manager = &listeners["0.0.0.0_80"]["filter_chains"][0]["filters"];
    let manager = manager.as_array().unwrap().last().unwrap();
    let filters = manager["typed_config"]["http_filters"].as_array().unwrap();
    let names = filters.iter().map(|f| f["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// The one route of the gateway.
fn route(world: &World) -> Value {
    let routes = sent(world, &gateway(), TypeUrl::Route);
    routes["http.80"]["virtual_hosts"][0]["routes"][0].clone()
}

/// The cluster of the picker that is asked, and whether requests go on without it.
fn asked(configs: &Value) -> (String, bool) {
    let overrides = &configs[EXT_PROC]["overrides"];
    let cluster = &overrides["grpc_service"]["envoy_grpc"]["cluster_name"];
    let allowed = overrides["failure_mode_allow"]
        .as_bool()
        .unwrap_or_default();
    (cluster.as_str().unwrap().to_owned(), allowed)
}

#[test]
fn every_port_of_every_ready_pod_is_an_endpoint_of_one_cluster() {
    let mut world = world();
    let cluster = format!("outbound|54321||{CHAT}");
    let both = [
        "10.1.0.1:8000",
        "10.1.0.1:8001",
        "10.1.0.2:8000",
        "10.1.0.2:8001",
    ];
    assert_eq!(addresses(&world, &cluster), both);
    let clusters = sent(&world, &gateway(), TypeUrl::Cluster);
    assert!(!clusters.contains_key(&format!("outbound|54322||{CHAT}")));
    let policy = &clusters[&cluster]["load_balancing_policy"]["policies"][0];
    let policy = &policy["typed_extension_config"];
    assert_eq!(
        policy["name"],
        "envoy.load_balancing_policies.override_host"
    );
    assert_eq!(
        policy["typed_config"]["override_host_sources"][0]["metadata"],
        json!({"key": "envoy.lb", "path": [{"key": "x-gateway-destination-endpoint"}]})
    );
    // Sidecars choose by themselves.
    let clusters = sent(&world, &sidecar(), TypeUrl::Cluster);
    assert!(clusters[&cluster]["load_balancing_policy"].is_null());
    world.put(&pod("chat-1", "10.1.0.2", false));
    assert_eq!(addresses(&world, &cluster), both[..2]);
}

#[test]
fn a_route_asks_the_picker_of_its_pool() {
    let world = world();
    let configs = &route(&world)["typed_per_filter_config"];
    let picker = "outbound|9002||picker.models.svc.cluster.local".to_owned();
    assert_eq!(asked(configs), (picker, false));
    assert!(configs["envoy.filters.http.cors"].is_object());
    let service = &configs[EXT_PROC]["overrides"]["grpc_service"]["envoy_grpc"];
    assert_eq!(service["authority"], "picker.models.svc.cluster.local:9002");
    let mode = &configs[EXT_PROC]["overrides"]["processing_mode"];
    assert_eq!(mode["request_body_mode"], "FULL_DUPLEX_STREAMED");
    let filters = filters(&world);
    let at = |name: &str| filters.iter().position(|f| f == name).unwrap();
    assert!(at(EXT_PROC) < at("envoy.filters.http.router"));
}

#[test]
fn of_several_destinations_each_has_its_own_picker() {
    let mut world = world();
    world.put(&rule(&[CHAT, DRAW, "picker.models.svc.cluster.local"]));
    let route = route(&world);
    assert!(route["typed_per_filter_config"][EXT_PROC].is_null());
    let clusters = route["route"]["weighted_clusters"]["clusters"].clone();
    let configs = |at: usize| &clusters[at]["typed_per_filter_config"];
    let of = |service: &str, port| format!("outbound|{port}||{service}.models.svc.cluster.local");
    assert_eq!(asked(configs(0)), (of("picker", 9002), false));
    assert_eq!(asked(configs(1)), (of("other", 9003), true));
    assert!(configs(2).is_null());
}

#[test]
fn gateways_that_send_to_no_pool_have_no_filter() {
    let mut world = world();
    world.put(&rule(&["picker.models.svc.cluster.local"]));
    assert!(!filters(&world).contains(&EXT_PROC.to_owned()));
    world.put(&rule(&[CHAT]));
    assert!(filters(&world).contains(&EXT_PROC.to_owned()));
    let pool = ObjectKey {
        kind: Kind::InferencePool,
        name: ObjectName::new("models", "chat"),
    };
    world.delete(&pool);
    assert!(!filters(&world).contains(&EXT_PROC.to_owned()));
    assert!(route(&world)["typed_per_filter_config"][EXT_PROC].is_null());
    let clusters = sent(&world, &gateway(), TypeUrl::Cluster);
    assert!(!clusters.contains_key(&format!("outbound|54321||{CHAT}")));
}

#[test]
fn a_service_that_is_written_for_a_pool_changes_nothing() {
    const WRITTEN: &str = "
apiVersion: v1
kind: Service
metadata:
  name: chat-ip-31e06f7d
  namespace: models
  labels: {istio.io/inferencepool-name: chat, internal.istio.io/service-semantics: inferencepool}
spec:
  clusterIP: None
  selector: {app: chat}
  ports: [{name: http-0, port: 54321, targetPort: 8000}, {name: http-1, port: 54322, targetPort: 8001}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata: {name: chat-x, namespace: models, labels: {kubernetes.io/service-name: chat-ip-31e06f7d}}
endpoints: [{addresses: [10.1.0.1], targetRef: {kind: Pod, name: chat-0, namespace: models}}]
ports: [{name: http-0, port: 8000}, {name: http-1, port: 8001}]
";
    let mut world = world();
    let everything = |world: &World| {
        let nodes = [gateway(), sidecar()];
        let all = nodes.iter().flat_map(|node| {
            let of = |ty: &TypeUrl| sent(world, node, *ty);
            TypeUrl::ALL.iter().map(of).collect::<Vec<_>>()
        });
        all.collect::<Vec<_>>()
    };
    let before = everything(&world);
    world.put(WRITTEN);
    assert_eq!(everything(&world), before);
}

#[test]
fn the_proxy_of_a_pod_serves_the_ports_of_its_pool() {
    let world = world();
    let clusters = sent(&world, &sidecar(), TypeUrl::Cluster);
    assert!(
        clusters.contains_key("inbound|8000||"),
        "{:?}",
        clusters.keys()
    );
    assert!(clusters.contains_key("inbound|8001||"));
}

#[test]
fn pools_are_nothing_unless_they_are_asked_for() {
    let mut world = World::of(POOLS);
    world.put(&pod("chat-0", "10.1.0.1", true));
    world.put(&rule(&[CHAT]));
    let clusters = sent(&world, &gateway(), TypeUrl::Cluster);
    assert!(!clusters.keys().any(|name| name.contains("-ip-")));
    assert!(!filters(&world).contains(&EXT_PROC.to_owned()));
}
