//! What Envoy would refuse is closed alone: hostile objects of one namespace, a file each, beside an honest one. A file says in
//! its first line at which object and field it is reported, or of which resource; `-` where nothing is.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message;
use proto_envoy::envoy::config::listener::v3::Listener;
use serde_json::{Value, json};
use testkit::{World, decode, node};
use xds::TypeUrl;

/// Gateways that all share, a bank that is honest, and a service of another namespace.
const WORLD: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: edge}
spec:
  gatewayClassName: istio
  listeners: [{name: http, port: 8080, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: bank}
spec:
  parentRefs: [{name: front, namespace: edge}]
  hostnames: [a.bank.example]
  rules: [{backendRefs: [{kind: Hostname, group: networking.istio.io, name: web.bank.svc.cluster.local, port: 80}]}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: edge}
spec:
  selector: {role: edge}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: bank}
spec:
  hosts: [a.bank.example, web.bank.svc.cluster.local]
  gateways: [edge/edge, mesh]
  http: [{route: [{destination: {host: web.bank.svc.cluster.local}}]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: bank}
spec:
  hosts: [web.bank.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.1}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: bank}
spec:
  hosts: [api.bank.example]
  ports: [{number: 443, name: tls, protocol: TLS}]
  location: MESH_EXTERNAL
  resolution: NONE
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: evil}
spec:
  hosts: [web.evil.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.2}]
";

const TYPES: [TypeUrl; 5] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
    TypeUrl::Extension,
];

fn proxies() -> [Value; 3] {
    [
        json!({
            "id": "router~10.0.0.8~front.edge~edge.svc.cluster.local",
            "metadata": {
                "NAMESPACE": "edge",
                "LABELS": {"gateway.networking.k8s.io/gateway-name": "front"},
                "PILOTHOUSE_GATEWAY": "front",
                "ISTIO_VERSION": "1.32.0",
            },
        }),
        json!({
            "id": "router~10.0.0.9~edge.edge~edge.svc.cluster.local",
            "metadata": {"NAMESPACE": "edge", "LABELS": {"role": "edge"}, "ISTIO_VERSION": "1.32.0"},
        }),
        json!({
            "id": "sidecar~10.0.0.1~web.bank~bank.svc.cluster.local",
            "metadata": {"NAMESPACE": "bank", "LABELS": {"app": "web"}, "ISTIO_VERSION": "1.32.0"},
        }),
    ]
}

/// No two chains of a listener take the same connections, nor one chain by two entries of its lists.
fn take_connections(body: &[u8]) {
    let listener = Listener::decode(body).unwrap();
    let mut chains = judge::Chains::default();
    for chain in listener.filter_chains {
        let stated = chain.filter_chain_match;
        let mut left = stated.clone();
        assert_eq!(chains.take(left.as_mut()), Ok(Vec::new()));
        assert_eq!(left, stated, "{}", listener.name);
    }
}

/// What proxies get, by type and name, and what is found.
fn got(world: &World, proxy: &Value) -> (BTreeMap<String, Value>, Vec<String>) {
    let view = world.view(&node(proxy));
    let mut resources = BTreeMap::new();
    for ty in TYPES {
        for resource in &world.set(&view, ty) {
            let judged = judge::judge_any(ty.as_str(), &resource.body);
            assert_eq!(judged, Ok(()), "{} of {proxy}", resource.name);
            if ty == TypeUrl::Listener {
                take_connections(&resource.body);
            }
            let is_short = resource.name.len() <= xds::NAME_BYTES;
            assert!(is_short, "{} of {proxy}", resource.name);
            let message = decode(ty.as_str(), &resource.body);
            resources.insert(format!("{ty:?} {}", resource.name), message);
        }
    }
    let found = world.get(&view.findings());
    let of_mesh = world.get(&pilothouse_xlate::findings::FindingsOfMesh);
    let found = found.iter().chain(of_mesh.iter());
    let found = found.filter(|found| ["PIL0501", "PIL0602"].contains(&found.code));
    let found = found.map(|found| {
        let object = found.object.as_ref().map(ToString::to_string);
        format!(
            "{} {}: {}",
            object.unwrap_or_default(),
            found.path,
            found.message
        )
    });
    (resources, found.collect())
}

/// What of resources is the bank's.
fn of_bank(resources: &BTreeMap<String, Value>) -> Vec<String> {
    let mut parts = Vec::new();
    for (name, resource) in resources {
        let lists = ["virtual_hosts", "filter_chains"].map(|field| resource[field].as_array());
        let mut items: Vec<&Value> = lists.into_iter().flatten().flatten().collect();
        if items.is_empty() {
            items.push(resource);
        }
        let own = items
            .into_iter()
            .filter(|item| item.to_string().contains("bank"));
        parts.extend(own.map(|item| format!("{name}: {item}")));
    }
    parts
}

/// Where resources are made: where they are judged, of parts that are, or of what no configuration has a say in.
const MAKERS: [&str; 9] = [
    "filled.rs",
    "judged/assignment.rs",
    "judged/cluster.rs",
    "judged/extension.rs",
    "judged/listener.rs",
    "name_table.rs",
    "routes/encode.rs",
    "secrets/",
    "trust_bundle.rs",
];

#[test]
fn resources_are_made_where_they_are_judged() {
    fn visit(root: &Path, folder: &Path, made: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(root, &path, made);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            if text.contains("Resource::encode(") || text.contains("Resource::from_bytes(") {
                made.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut made = Vec::new();
    visit(&root, &root, &mut made);
    assert!(
        made.iter().any(|file| file == "judged/cluster.rs"),
        "{made:?}"
    );
    made.retain(|file| !MAKERS.iter().any(|maker| file.starts_with(maker)));
    assert!(made.is_empty(), "use `judged` in {made:?}");
}

#[test]
fn what_envoy_would_refuse_is_closed_alone_and_reported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judged");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    names.sort();
    let mut wrong = Vec::new();
    let honest = World::of(WORLD);
    for path in &names {
        let case = path.file_stem().unwrap().display();
        let text = std::fs::read_to_string(path).unwrap();
        let reported = text
            .lines()
            .next()
            .unwrap()
            .strip_prefix("# Reported: ")
            .unwrap();
        let mut world = World::of(WORLD);
        world.put(&text);
        let mut all = Vec::new();
        for proxy in proxies() {
            let (resources, found) = got(&world, &proxy);
            all.extend(found);
            let (before, _) = got(&honest, &proxy);
            let (before, after) = (of_bank(&before), of_bank(&resources));
            assert!(
                before.iter().any(|part| part.starts_with("Route ")),
                "{before:#?}"
            );
            if let Some(lost) = before.iter().find(|part| !after.contains(part)) {
                wrong.push(format!("{case}: the bank has lost {lost}"));
            }
        }
        let is_reported = match reported {
            "-" => true,
            place => all.iter().any(|found| found.contains(place)),
        };
        if !is_reported {
            wrong.push(format!("{case}: {reported} is not among {all:#?}"));
        }
    }
    assert!(names.len() > 35, "only {} cases", names.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
