//! Routes of an edge that ask for what only some proxies can do: a folder for each proxy, with its extensions (`node.json`), objects
//! that state options where there are any (`options.yaml`), and what it gets (`out.json`). `UPDATE_GOLDEN=1` rewrites the latter.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::edge::{
    Argument, ArgumentSource, Dubbo, EdgeRoute, ExternalAuth, HttpMethod, Mcp, McpEntry, Method,
    Moved, Passed, Rpc, Transport,
};
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
const EDGE: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: edge}
spec: {servers: [{port: {number: 80, protocol: HTTP, name: http-80-ingress}, hosts: ['*']}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: edge}
spec:
  hosts: [a.test]
  gateways: [web]
  http:
";

fn mcp(transport: Transport, moved: bool, upstream: Option<&'static str>) -> EdgeRoute {
    EdgeRoute {
        mcp: Some(Mcp {
            transport,
            moved: moved.then(|| Moved {
                from: "/".into(),
                to: "/mcp".into(),
            }),
            entry: upstream.map(|upstream| McpEntry {
                domains: ["*".into()].into(),
                path: "/a\\d\"".into(),
                compares: "regex",
                upstream,
                rewrites: moved,
                prefix: "/".into(),
            }),
        }),
        ..EdgeRoute::default()
    }
}

fn call(rpc: Rpc) -> EdgeRoute {
    EdgeRoute {
        rpc: Some(rpc),
        ..EdgeRoute::default()
    }
}

fn dubbo() -> Rpc {
    let argument = |from, key: &str| Argument {
        from,
        key: key.into(),
        java_type: "java.lang.String".into(),
    };
    let method = |name: &str, http, headers, arguments| Method {
        name: name.into(),
        headers,
        path: format!("/{name}/{{id}}").into(),
        http,
        arguments,
    };
    let some = ["x-a", "x-b"].map(Arc::from).into();
    Rpc::Dubbo(Arc::new(Dubbo {
        service: "com.acme.Demo".into(),
        version: "1.0.0".into(),
        group: "dev".into(),
        methods: vec![
            method(
                "hello",
                HttpMethod::Get,
                Passed::All,
                vec![
                    argument(ArgumentSource::Query, "name"),
                    argument(ArgumentSource::Path, "id"),
                ],
            ),
            method(
                "put",
                HttpMethod::Put,
                Passed::Some(some),
                vec![argument(ArgumentSource::Body, "")],
            ),
            method("gone", HttpMethod::Delete, Passed::Some([].into()), vec![]),
        ],
    }))
}

/// Routes, each under a path of its name.
fn asked() -> Vec<(&'static str, EdgeRoute)> {
    let events = || Transport::Events {
        session: "sessionId".into(),
    };
    vec![
        ("plain", EdgeRoute::default()),
        (
            "streamable",
            mcp(Transport::Streamable, false, Some("streamable")),
        ),
        ("sessions", mcp(events(), false, None)),
        ("events", mcp(events(), true, Some("sse"))),
        ("rest", mcp(Transport::Rest, false, Some("rest"))),
        ("dubbo", call(dubbo())),
        ("nothing", call(Rpc::Unknown)),
    ]
}

#[test]
fn every_proxy_gets_what_it_can_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxies_of_edge");
    testkit::golden_cases(&folder, |case| {
        let extensions = std::fs::read_to_string(case.join("node.json")).unwrap();
        let extensions: Value = serde_json::from_str(&extensions).unwrap();
        let options = std::fs::read_to_string(case.join("options.yaml")).ok();
        let mut world = match options {
            None => World::of(SHOP),
            Some(objects) => with_options(&objects),
        };
        let mut rule = EDGE.to_owned();
        for (name, _) in asked() {
            // Hosts of registries have one port, which nobody states.
            let port = match name {
                "dubbo" => "",
                _ => ", port: {number: 80}",
            };
            rule += &format!(
                "  - name: {name}\n    match: [{{uri: {{prefix: /{name}}}}}]\n    route: [{{destination: {{host: \
                 shop.shop.svc.cluster.local{port}}}}}]\n"
            );
        }
        let routes = asked().into_iter().map(|(_, route)| Arc::new(route));
        world.put_edge(&rule, &routes.enumerate().collect());
        let gateway = node(&json!({
            "id": "router~10.9.1.1~edge-0.edge~edge.svc.cluster.local",
            "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes"},
            "extensions": extensions,
            "token": "sa:edge:edge",
        }));
        shown(&world, &gateway)
    });
}

#[test]
fn a_service_outside_is_asked_over_tls() {
    let mut world = World::of(SHOP);
    let rule = format!(
        "{EDGE}  - route: [{{destination: {{host: shop.shop.svc.cluster.local, port: {{number: 80}}}}}}]\n"
    );
    let asked = EdgeRoute {
        external: Some(ExternalAuth {
            host: "login.example.com".into(),
            port: 443,
            authority: "login.example.com".into(),
            path: "/check".into(),
            method: None,
            tls: true,
            to_backend: Vec::new(),
            signin: None,
            always_set_cookie: false,
            headers: BTreeMap::new(),
            timeout: Duration::from_secs(1),
        }),
        ..EdgeRoute::default()
    };
    world.put_edge(&rule, &BTreeMap::from([(0, Arc::new(asked))]));
    let gateway = node(&json!({
        "id": "router~10.9.1.1~edge-0.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes"},
        "extensions": ["envoy.filters.http.basic_auth", "envoy.filters.http.rbac", "envoy.filters.http.lua"],
    }));
    let view = world.view(&gateway);
    let decoded = |ty: TypeUrl, name: &str| {
        let set = world.set(&view, ty);
        decode(ty.as_str(), &set.get(name).unwrap().body)
    };
    let cluster = decoded(TypeUrl::Cluster, "auth;login.example.com:443");
    assert_eq!(cluster["type"], "STRICT_DNS");
    let endpoint = &cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"];
    let address = &endpoint["address"]["socket_address"];
    assert_eq!(
        *address,
        json!({"address": "login.example.com", "port_value": 443})
    );
    let tls = &cluster["transport_socket"]["typed_config"];
    assert_eq!(tls["sni"], "login.example.com");
    let validation = &tls["common_tls_context"]["validation_context"];
    assert!(validation["trusted_ca"].is_object(), "{tls}");
    let name = &validation["match_subject_alt_names"][0]["exact"];
    assert_eq!(*name, "login.example.com");
    let routes = decoded(TypeUrl::Route, "http.80");
    let route = &routes["virtual_hosts"][0]["routes"][0];
    let asked = &route["metadata"]["filter_metadata"]["pilothouse.access"]["access"]["external"];
    assert_eq!(asked["cluster"], "auth;login.example.com:443");
    assert_eq!(asked["scheme"], "https");
}

#[test]
fn an_edit_of_servers_of_mcp_or_of_the_password_is_no_other_listener() {
    let section = |rest: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: higress-config, namespace: edge}}\ndata: {}\n",
            json!({"higress": format!(
                "mcpServer: {{enable: true, redis: {{address: a:1, passwordSecret: {{name: redis, key: password}}}}, {rest}}}"
            )})
        )
    };
    let secret = |password: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: redis, namespace: edge}}\nstringData: {{password: {password}}}\n"
        )
    };
    let servers = |path: &str| section(&format!("servers: [{{name: a, type: rag, path: {path}}}]"));
    let mut world = with_options(&servers("/a"));
    world.put(&secret("first"));
    world.put_edge(
        &format!("{EDGE}  - route: [{{destination: {{host: shop.shop.svc.cluster.local}}}}]\n"),
        &BTreeMap::new(),
    );
    let extensions = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxies_of_edge/higress/node.json"),
    );
    let extensions: Value = serde_json::from_str(&extensions.unwrap()).unwrap();
    let proxy = |token: &str| {
        node(&json!({
            "id": "router~10.9.1.1~edge-0.edge~edge.svc.cluster.local",
            "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes"},
            "extensions": extensions,
            "token": token,
        }))
    };
    let (proven, anybody) = (proxy("sa:edge:edge"), proxy(""));
    let told = |world: &World, proxy| {
        let set = world.set(&world.view(proxy), TypeUrl::Extension);
        let bodies = set.iter().map(|r| String::from_utf8_lossy(&r.body));
        bodies.collect::<String>()
    };
    let others = |world: &World| {
        let types = [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster];
        types.map(|ty| world.set(&world.view(&proven), ty))
    };
    let before = others(&world);
    assert!(told(&world, &proven).contains("first"));
    assert!(!told(&world, &anybody).contains("first"));
    world.put(&secret("second"));
    assert!(told(&world, &proven).contains("second"));
    assert!(!told(&world, &proven).contains("first"));
    world.put(&servers("/b"));
    assert!(told(&world, &proven).contains("/b"));
    assert!(others(&world) == before);
}

/// Where options of gateways are read.
fn with_options(objects: &str) -> World {
    let mut settings = testkit::settings("");
    let stated = [
        ("PILOTHOUSE_INGRESS_CLASSES", "higress"),
        ("PILOTHOUSE_INGRESS_NAMESPACE", "edge"),
        ("PILOTHOUSE_SECRET_TEMPLATES", "true"),
    ];
    let stated = stated.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.features = Arc::new(Features::from_env(stated));
    let mut world = World::new(settings);
    world.put(SHOP);
    world.put(objects);
    world
}

fn shown(world: &World, gateway: &Arc<model::node::Node>) -> Value {
    let view = world.view(gateway);
    let resources = |ty: TypeUrl| -> BTreeMap<String, Value> {
        let set = world.set(&view, ty);
        set.iter()
            .map(|r| (r.name.to_string(), decode(ty.as_str(), &r.body)))
            .collect()
    };
    let routes = resources(TypeUrl::Route);
    let config = &routes["http.80"];
    let routes = config["virtual_hosts"][0]["routes"].as_array().unwrap();
    let (closed, routes): (Vec<&Value>, Vec<&Value>) = routes
        .iter()
        .partition(|route| route["name"] == "mcp-closed");
    let routes: BTreeMap<String, Value> = routes
        .into_iter()
        .map(|route| {
            let name = route["name"].as_str().unwrap().to_owned();
            let mut metadata = route["metadata"]["filter_metadata"].clone();
            metadata.as_object_mut().unwrap().remove("istio");
            let shown = json!({
                "answer": route["direct_response"],
                "cluster": route["route"]["cluster"],
                "upgrades": route["route"]["upgrade_configs"],
                "configs": route["typed_per_filter_config"],
                "metadata": metadata,
                "hidden": route["request_headers_to_remove"],
            });
            (name, shown)
        })
        .collect();
    let scripts = config["typed_per_filter_config"].as_object();
    let scripts: Vec<&String> = scripts
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .collect();
    let listeners = resources(TypeUrl::Listener);
    let chain = &listeners["0.0.0.0_80"]["filter_chains"][0]["filters"];
    let manager = &chain.as_array().unwrap().last().unwrap()["typed_config"];
    let filters: Vec<Value> = manager["http_filters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|filter| match filter["name"].as_str().unwrap() {
            name if name.contains("mcp")
                || name.contains("dubbo")
                || name.contains("session")
                || name.contains("golang") =>
            {
                filter.clone()
            }
            name => json!(name),
        })
        .collect();
    let clusters = resources(TypeUrl::Cluster);
    let clusters: BTreeMap<&String, &Value> = clusters
        .iter()
        .filter(|(name, _)| name.contains("|shop."))
        .collect();
    let extensions = resources(TypeUrl::Extension);
    let shown = world.set(&view, TypeUrl::Extension);
    let shown: BTreeMap<&str, Value> = shown
        .iter()
        .map(|r| (&*r.name, decode(TypeUrl::Extension.as_str(), r.shown())))
        .filter(|(name, shown)| extensions[*name] != *shown)
        .collect();
    let of_view = world.get(&view.findings());
    let of_mesh = world.get(&FindingsOfMesh);
    let findings = of_mesh.iter().chain(of_view.iter());
    let findings: Vec<String> = findings.map(told).collect();
    let mut all = json!({
        "routes": routes,
        "scripts": scripts,
        "refuses": manager["route_config"],
        "filters": filters,
        "clusters": clusters,
        "extensions": extensions,
        "findings": findings,
    });
    for (name, value) in [("closed", json!(closed)), ("shown", json!(shown))] {
        // Of most proxies there is nothing to say.
        if value != json!([]) && value != json!({}) {
            all[name] = value;
        }
    }
    all
}

fn told(found: &model::Diagnostic) -> String {
    let object = found.object.as_ref().map(ToString::to_string);
    let help = found.help.iter();
    let help: String = help.map(|help| format!("; help: {help}")).collect();
    format!(
        "{} {:?} {object:?}: {}{help}",
        found.code, found.severity, found.message
    )
}
