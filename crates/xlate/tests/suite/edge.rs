//! Gateways and routes that were made of Ingresses with annotations.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Change;
use model::edge::{AddressRules, EdgeDocuments, EdgeFile, EdgeRoute};
use model::node::Node;
use model::redacted::Redacted;
use model::settings::Features;
use pilothouse_xlate::findings::FindingsOfMesh;
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

#[test]
fn backends_are_told_of_clients_and_clients_of_tls_alone() {
    let mut world = World::of(SHOP);
    let asked = EdgeRoute {
        tells_clients: true,
        hsts: Some("max-age=1".into()),
        ..EdgeRoute::default()
    };
    world.put_edge(
        &host("a", "SIMPLE"),
        &BTreeMap::from([(0, Arc::new(asked))]),
    );
    let routes = resources(&world, TypeUrl::Route);
    let route = |start: &str| {
        let config = routes.iter().find(|(name, _)| name.starts_with(start));
        config.unwrap().1["virtual_hosts"][0]["routes"][0].clone()
    };
    for (start, port, is_secure) in [("http.80", "80", false), ("https.443", "443", true)] {
        let route = route(start);
        let told = route["request_headers_to_add"].as_array().unwrap();
        let value = |name: &str| {
            let header = told.iter().find(|told| told["header"]["key"] == name);
            header.map(|told| told["header"]["value"].clone())
        };
        assert_eq!(value("x-forwarded-port"), Some(port.into()), "{route}");
        let client = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%";
        for name in ["x-real-ip", "x-forwarded-for"] {
            assert_eq!(value(name), Some(client.into()), "{route}");
        }
        let replaces = |told: &Value| told["append_action"] == "OVERWRITE_IF_EXISTS_OR_ADD";
        assert!(told.iter().all(replaces), "{route}");
        assert_eq!(
            route["response_headers_to_add"].is_array(),
            is_secure,
            "{route}"
        );
    }
}

#[test]
fn headers_with_underscores_are_dropped_for_the_routes_that_ask_for_it_before_all_that_decides() {
    const NAME: &str = "pilothouse.underscores";
    let mut world = World::of(SHOP);
    let asked = EdgeRoute {
        drops_underscores: true,
        ..EdgeRoute::default()
    };
    let asked = BTreeMap::from([(0, Arc::new(asked))]);
    world.put_edge(&host("a", "SIMPLE"), &asked);
    world.put_edge(&host("b", "SIMPLE"), &BTreeMap::new());
    world.put(
        "
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: some, namespace: edge}
spec: {rules: [{to: [{operation: {methods: [GET]}}]}]}
",
    );
    let listeners = resources(&world, TypeUrl::Listener);
    let chain = &listeners["0.0.0.0_80"]["filter_chains"][0]["filters"];
    let manager = &chain.as_array().unwrap().last().unwrap()["typed_config"];
    let filters = manager["http_filters"].as_array().unwrap();
    let place = |name: &str| filters.iter().position(|filter| filter["name"] == name);
    let at = place(NAME).unwrap();
    assert_eq!(filters[at]["disabled"], true);
    assert!(at < place("envoy.filters.http.rbac").unwrap(), "{manager}");
    let routes = resources(&world, TypeUrl::Route);
    let config = &routes["http.80"];
    // The script is there once.
    assert!(!config["typed_per_filter_config"][NAME].is_null());
    let hosts = config["virtual_hosts"].as_array().unwrap().iter();
    let asked = hosts.map(|host| &host["routes"][0]["metadata"]["filter_metadata"][NAME]["drop"]);
    let asked: Vec<&Value> = asked.collect();
    assert_eq!(asked, [&Value::Bool(true), &Value::Null]);
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

/// Ingresses of this class are served in the namespace of the gateway.
fn served(class: &str) -> World {
    let mut settings = testkit::settings("");
    let stated = [
        ("PILOTHOUSE_INGRESS_CLASSES", class),
        ("PILOTHOUSE_INGRESS_NAMESPACE", "edge"),
    ];
    let stated = stated.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.features = Arc::new(Features::from_env(stated));
    let mut world = World::new(settings);
    world.put(SHOP);
    world.put_edge(&host("a", "SIMPLE"), &BTreeMap::new());
    world
}

/// The ConfigMap with options, with these sections.
fn options(sections: &str) -> String {
    let data = json!({ "higress": sections });
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: higress-config, namespace: edge}}\ndata: {data}\n"
    )
}

/// The listener for plain text, and its connection manager.
fn plain(world: &World) -> (Value, Value) {
    let listener = resources(world, TypeUrl::Listener)["0.0.0.0_80"].clone();
    let manager = listener["filter_chains"][0]["filters"][0]["typed_config"].clone();
    (listener, manager)
}

fn http_filters(manager: &Value) -> BTreeMap<String, Value> {
    let filters = manager["http_filters"].as_array().unwrap().iter();
    let named = filters.map(|f| {
        let name = f["name"].as_str().unwrap().to_owned();
        (name, f["typed_config"].clone())
    });
    named.collect()
}

const COMPRESSOR: &str = "envoy.filters.http.compressor";

/// The options of HTTP of the cluster of the shop, and the cluster.
fn cluster(world: &World, name: &str) -> (Value, Value) {
    let clusters = resources(world, TypeUrl::Cluster);
    let cluster = clusters[name].clone();
    let options = cluster["typed_extension_protocol_options"]
        ["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
        .clone();
    (options, cluster)
}

const SHOP_CLUSTER: &str = "outbound|80||shop.shop.svc.cluster.local";

#[test]
fn gateways_have_the_defaults_of_higress_where_its_class_is_served() {
    let world = served("nginx,higress");
    let (listener, manager) = plain(&world);
    assert_eq!(listener["per_connection_buffer_limit_bytes"], 32768);
    assert_eq!(
        manager["common_http_protocol_options"]["idle_timeout"],
        "180s"
    );
    assert_eq!(manager["stream_idle_timeout"], "180s");
    assert_eq!(manager["max_request_headers_kb"], 60);
    let http2 = json!({
        "max_concurrent_streams": 100,
        "initial_stream_window_size": 65535,
        "initial_connection_window_size": 1_048_576,
    });
    assert_eq!(manager["http2_protocol_options"], http2);
    assert!(http_filters(&manager).contains_key(COMPRESSOR));
    let (options, cluster) = cluster(&world, SHOP_CLUSTER);
    assert_eq!(
        options["common_http_protocol_options"]["idle_timeout"],
        "10s"
    );
    assert_eq!(cluster["per_connection_buffer_limit_bytes"], 10_485_760);
    assert_eq!(manager["tracing"]["provider"], Value::Null);
    let routes = &resources(&world, TypeUrl::Route)["http.80"];
    assert_eq!(routes["request_headers_to_add"], Value::Null);
}

#[test]
fn gateways_have_no_options_where_nothing_of_higress_is_there() {
    let alone = |class| {
        let mut world = served(class);
        let (listener, manager) = plain(&world);
        assert_eq!(listener["per_connection_buffer_limit_bytes"], Value::Null);
        assert_eq!(manager["max_request_headers_kb"], Value::Null);
        assert!(!http_filters(&manager).contains_key(COMPRESSOR));
        assert_eq!(cluster(&world, SHOP_CLUSTER).0, Value::Null);
        world.put(&options(""));
        plain(&world).1["max_request_headers_kb"].clone()
    };
    // An empty document says that all is as with Higress, unless no Ingress with annotations is served at all.
    assert_eq!(alone("nginx"), 60);
    assert_eq!(alone(""), Value::Null);
}

#[test]
fn a_gateway_that_users_wrote_has_no_options() {
    let mut world = served("higress");
    world.put(&options(
        "{addXRealIpHeader: true, mcpServer: {enable: true, servers: [{name: a, path: /a, type: rag}]}}",
    ));
    // The Gateway of the edge is for other proxies.
    let selects = "spec:\n  selector: {app: edge}\n  servers";
    let of_edge = host("a", "SIMPLE").replace("spec:\n  servers", selects);
    world.put_edge(&of_edge, &BTreeMap::new());
    let own = host("b", "SIMPLE").replace("namespace: edge", "namespace: other");
    world.put(&own);
    let mut alone = World::of(SHOP);
    alone.put(&own);
    let other = node(&json!({
        "id": "router~10.9.1.2~other-0.other~other.svc.cluster.local",
        "metadata": {"NAMESPACE": "other", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": "other"}},
    }));
    for ty in [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster] {
        let (a, b) = (world.view(&other), alone.view(&other));
        assert_eq!(world.set(&a, ty), alone.set(&b, ty), "{ty}");
    }
}

#[test]
fn options_become_what_they_say() {
    let mut world = served("higress");
    let collector = SHOP
        .replace("name: shop", "name: otel")
        .replace("10.0.0.9", "10.0.0.8");
    world.put(&collector.replace("port: 80", "port: 4317"));
    world.put(&options(
        "{addXRealIpHeader: true, disableXEnvoyHeaders: true, gzip: {enable: false}, \
         downstream: {idleTimeout: 0, routeTimeout: 7}, upstream: {idleTimeout: 3}, \
         tracing: {enable: true, sampling: 12.5, timeout: 1500, \
         opentelemetry: {service: otel.shop.svc.cluster.local, port: 4317}}}",
    ));
    let (_, manager) = plain(&world);
    assert_eq!(manager["stream_idle_timeout"], "0s");
    let filters = http_filters(&manager);
    assert!(!filters.contains_key(COMPRESSOR));
    assert_eq!(
        filters["envoy.filters.http.router"]["suppress_envoy_headers"],
        true
    );
    let tracing = &manager["tracing"];
    assert_eq!(tracing["random_sampling"]["value"], 12.5);
    let provider = &tracing["provider"]["typed_config"];
    assert_eq!(provider["service_name"], "higress-gateway.edge");
    let grpc = &provider["grpc_service"];
    assert_eq!(grpc["timeout"], "1.500s");
    let told = "outbound|4317||otel.shop.svc.cluster.local";
    assert_eq!(grpc["envoy_grpc"]["cluster_name"], told);
    // It speaks gRPC, though its port is named http.
    let of_collector = &cluster(&world, told).0["explicit_http_config"];
    assert!(
        of_collector["http2_protocol_options"].is_object(),
        "{of_collector}"
    );
    assert_eq!(
        cluster(&world, SHOP_CLUSTER).0["common_http_protocol_options"]["idle_timeout"],
        "3s"
    );
    let routes = &resources(&world, TypeUrl::Route)["http.80"];
    assert_eq!(routes["request_headers_to_remove"], json!(["x-real-ip"]));
    let added = &routes["request_headers_to_add"][0];
    assert_eq!(added["header"]["value"], "%REQ(X-ENVOY-EXTERNAL-ADDRESS)%");
    let route = &routes["virtual_hosts"][0]["routes"][0]["route"];
    assert_eq!(route["timeout"], "7s");
    assert_eq!(found(&world), [""; 0]);
}

/// What is told of the gateway and the mesh, about options.
fn found(world: &World) -> Vec<String> {
    let of_view = world.get(&world.view(&gateway()).findings());
    let of_mesh = world.get(&FindingsOfMesh);
    let found = of_mesh.iter().chain(of_view.iter());
    let found = found.filter(|f| f.code == "PIL0504");
    found.map(ToString::to_string).collect()
}

#[test]
fn what_options_cannot_do_is_told_and_the_rest_counts() {
    let mut world = served("higress");
    world.put(&options(
        "{gzip: {windowBits: 99}, upstream: {idleTimeout: 3}, \
         tracing: {enable: true, zipkin: {service: nowhere.shop, port: 9411}}}",
    ));
    let (_, manager) = plain(&world);
    assert_eq!(manager["tracing"]["provider"], Value::Null);
    // A section that never was good has its default.
    assert!(http_filters(&manager).contains_key(COMPRESSOR));
    assert_eq!(
        cluster(&world, SHOP_CLUSTER).0["common_http_protocol_options"]["idle_timeout"],
        "3s"
    );
    let told = found(&world);
    for wanted in ["gzip.windowBits", "nowhere.shop"] {
        let about = |told: &&String| told.contains(wanted) && told.contains("data.higress");
        assert_eq!(told.iter().filter(about).count(), 1, "{wanted}: {told:?}");
    }
    // What was remembered of it counts instead; a file stands in place of all of it.
    let good = BTreeMap::from([("gzip".into(), Redacted::new(r#"{"enable":false}"#))]);
    let remembered = EdgeDocuments { file: None, good };
    world.apply([Change::EdgeDocuments(Arc::new(remembered))]);
    assert!(!http_filters(&plain(&world).1).contains_key(COMPRESSOR));
    let file = EdgeFile {
        path: std::path::Path::new("options.yaml").into(),
        text: Ok(Redacted::new("gzip: {memoryLevel: 0}")),
    };
    let file = EdgeDocuments {
        file: Some(file),
        ..EdgeDocuments::default()
    };
    world.apply([Change::EdgeDocuments(Arc::new(file))]);
    assert!(http_filters(&plain(&world).1).contains_key(COMPRESSOR));
    let told = found(&world);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("options.yaml:1: error[PIL0504]: gzip.memoryLevel: is no"),
        "{told:?}"
    );
}

/// The section `mcpServer` with so many servers inside of the gateway, each for hosts.
fn servers_inside(count: usize, hosts: impl Fn(usize) -> String) -> String {
    let path = "x".repeat(1000);
    let servers = (0..count).map(|n| {
        let hosts = hosts(n);
        format!("{{name: a, type: rag, path: /{n}{path}, domain_list: [{hosts}]}}")
    });
    let servers: Vec<String> = servers.collect();
    options(&format!(
        "mcpServer: {{enable: true, servers: [{}]}}",
        servers.join(",")
    ))
}

#[test]
fn what_would_be_closed_too_often_closes_everything() {
    let mut world = served("higress");
    let hosts: Vec<String> = (0..200).map(|n| host(&format!("h{n}"), "SIMPLE")).collect();
    world.put_edge(&hosts.join("---"), &BTreeMap::new());
    // Each for one host.
    world.put(&servers_inside(500, |n| format!("h{n}.example.com")));
    let closed = |world: &World| {
        let routes = resources(world, TypeUrl::Route);
        let hosts = routes["http.80"]["virtual_hosts"].as_array().unwrap();
        let routes = hosts.iter().flat_map(|h| h["routes"].as_array().unwrap());
        let closed = routes.filter(|route| route["name"] == "mcp-closed");
        let everything = closed.clone().filter(|r| r["match"]["prefix"] == "/");
        (closed.count(), everything.count())
    };
    assert_eq!(closed(&world), (200, 0));
    // Each for all.
    world.put(&servers_inside(500, |_| "'*'".to_owned()));
    assert_eq!(closed(&world), (201, 201));
    let found = world.get(&world.view(&gateway()).findings());
    let told = found.iter().filter(|found| found.code == "PIL0601");
    let told: Vec<String> = told.map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("higress-config"), "{told:?}");
}
