//! Clusters and endpoints: against recordings of the real istiod, and how little is derived again after a change.

use std::path::Path;
use std::sync::Arc;

use model::node::Node;
use pilothouse_xlate::View;
use serde_json::json;
use testkit::{Scenario, Score, World, golden};
use xds::{Resource, ResourceSet, TypeUrl};

#[test]
fn golden_cases_give_the_clusters_and_endpoints_that_stand_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden(&folder.join("clusters"), TypeUrl::Cluster);
    golden(&folder.join("endpoints"), TypeUrl::Endpoint);
}

/// The groups of scenarios whose clusters and endpoints are complete.
const GROUPS: &[&str] = &[
    "base",
    "se",
    "node",
    "kube-services",
    "istio-bookinfo",
    "istio-bench",
    "dr",
    "ef",
    "gw",
    "vs",
    "sidecar",
    "mesh",
    "pa",
    "istio-net",
    "proxy-config",
    "traffic",
    "trust-domain",
    "wasm",
];

#[test]
fn clusters_and_endpoints_are_those_of_the_recordings() {
    let mut score = Score::default();
    let of_group = |name: &String| GROUPS.iter().any(|g| name.starts_with(g));
    for name in Scenario::names().into_iter().filter(of_group) {
        let Some(scenario) = Scenario::recorded(&name) else {
            continue;
        };
        for node in scenario.nodes.keys() {
            for ty in [TypeUrl::Cluster, TypeUrl::Endpoint] {
                let Some(wanted) = scenario.expected(node, ty) else {
                    continue;
                };
                let got = scenario.generated(node, ty);
                let names = wanted.keys().chain(got.keys());
                for resource in names.collect::<std::collections::BTreeSet<_>>() {
                    let null = json!(null);
                    let wanted = wanted.get(resource).unwrap_or(&null);
                    let got = got.get(resource).unwrap_or(&null);
                    let case = format!("{name}/{node}/{ty} {resource}");
                    score.count(&case, &testkit::differences(wanted, got));
                }
            }
        }
    }
    score.as_listed(include_str!("../differences/scenario-clusters.txt"));
}

const SHOP: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: NAME, namespace: shop}
spec:
  hosts: [NAME.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: ADDRESS, serviceAccount: NAME}]
---
";

fn entry(name: &str, address: &str) -> String {
    SHOP.replace("NAME", name).replace("ADDRESS", address)
}

fn shop() -> World {
    let entries: Vec<String> = ["carts", "orders", "users"]
        .into_iter()
        .map(|name| entry(name, "10.0.0.1"))
        .collect();
    World::of(&entries.concat())
}

fn proxy(world: &World, namespace: &str) -> Arc<View> {
    world.view(&testkit::node(&json!({
        "id": format!("sidecar~10.9.9.9~client.{namespace}~{namespace}.svc.cluster.local"),
        "metadata": {"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes"},
    })))
}

/// The names of the resources that are not the very same as before.
fn made_again(before: &ResourceSet, after: &ResourceSet) -> Vec<String> {
    let kept = |r: &&Arc<Resource>| {
        let old = before.get(&r.name);
        old.is_none_or(|old| !Arc::ptr_eq(old, r))
    };
    after
        .iter()
        .filter(kept)
        .map(|r| r.name.to_string())
        .collect()
}

/// A ServiceEntry for `api.example.com` whose endpoints are names.
fn names(name: &str, more: &str, addresses: &[&str]) -> String {
    let endpoints: Vec<String> = addresses
        .iter()
        .map(|address| format!("{{address: {address}}}"))
        .collect();
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: shop{more}
  hosts: [api.example.com]
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  location: MESH_EXTERNAL
  endpoints: [{}]
",
        endpoints.join(", ")
    )
}

/// Envoy refuses a cluster with LOGICAL_DNS that has not exactly one endpoint.
#[test]
fn a_cluster_of_one_name_has_one_endpoint() {
    /// The type of the cluster, the families of addresses, and the endpoints.
    type Found = (&'static str, &'static str, &'static [&'static str]);
    const A: &str = "a.example.com";
    const B: &str = "b.example.com";
    const LOGICAL: &str = "LOGICAL_DNS";
    const STRICT: &str = "STRICT_DNS";
    const DNS: &str = "}\nspec:\n  resolution: DNS";
    const ROBIN: &str = "}\nspec:\n  resolution: DNS_ROUND_ROBIN";
    const RACE: &str = ", annotations: {istio.io/connect-strategy: RACE_FIRST_TCP_CONNECT}}\nspec:\n  resolution: DNS";
    const HIDDEN: &str = "}\nspec:\n  exportTo: [other]\n  resolution: DNS";
    let of = |first: (&str, &[&str]), second: Option<&str>| {
        let second = second.map(|more| names("b", more, &[B]));
        names("a", first.0, first.1) + &second.unwrap_or_default()
    };
    let cases: [(String, Found); 8] = [
        (of((RACE, &[A]), None), (LOGICAL, "ALL", &[A])),
        (of((RACE, &[A, B]), None), (STRICT, "V4_ONLY", &[A, B])),
        (of((ROBIN, &[A]), None), (LOGICAL, "V4_ONLY", &[A])),
        (of((DNS, &[A, B]), None), (STRICT, "V4_ONLY", &[A, B])),
        // The oldest decides for all.
        (of((ROBIN, &[A]), Some(DNS)), (LOGICAL, "V4_ONLY", &[A])),
        (of((DNS, &[A]), Some(ROBIN)), (STRICT, "V4_ONLY", &[A])),
        (of((RACE, &[A]), Some(DNS)), (STRICT, "V4_ONLY", &[A, B])),
        // Who does not see the oldest has the service of the other, and the endpoints of both.
        (of((HIDDEN, &[A]), Some(RACE)), (STRICT, "V4_ONLY", &[A, B])),
    ];
    for (yaml, (ty, family, addresses)) in cases {
        let world = World::of(&yaml);
        let set = world.set(&proxy(&world, "shop"), TypeUrl::Cluster);
        let cluster = set.get("outbound|80||api.example.com").unwrap();
        let cluster = testkit::decode(TypeUrl::Cluster.as_str(), &cluster.body);
        let localities = cluster["load_assignment"]["endpoints"].as_array().unwrap();
        let endpoints = localities
            .iter()
            .flat_map(|locality| locality["lb_endpoints"].as_array().unwrap());
        let found: Vec<&str> = endpoints
            .map(|one| &one["endpoint"]["address"]["socket_address"]["address"])
            .map(|address| address.as_str().unwrap())
            .collect();
        assert_eq!(cluster["type"], ty, "{yaml}");
        assert_eq!(cluster["dns_lookup_family"], family, "{yaml}");
        assert_eq!(found, addresses, "{yaml}");
    }
}

#[test]
fn one_endpoint_makes_one_assignment_again_and_no_cluster() {
    let mut world = shop();
    let view = proxy(&world, "shop");
    let clusters = world.set(&view, TypeUrl::Cluster);
    let endpoints = world.set(&view, TypeUrl::Endpoint);
    world.put(&entry("orders", "10.0.0.2"));
    let view = proxy(&world, "shop");
    let after = world.set(&view, TypeUrl::Cluster);
    assert_eq!(made_again(&clusters, &after), Vec::<String>::new());
    let after = world.set(&view, TypeUrl::Endpoint);
    let one = ["outbound|80||orders.shop.svc.cluster.local"];
    assert_eq!(made_again(&endpoints, &after), one);
}

#[test]
fn a_rule_makes_the_clusters_of_its_host_again_and_no_other() {
    let mut world = shop();
    let view = proxy(&world, "shop");
    let before = world.set(&view, TypeUrl::Cluster);
    world.put(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: orders, namespace: shop}
spec:
  host: orders
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}
  subsets: [{name: v1, labels: {version: v1}}]
",
    );
    let after = world.set(&proxy(&world, "shop"), TypeUrl::Cluster);
    let host = "orders.shop.svc.cluster.local";
    let wanted = [
        format!("outbound|80|v1|{host}"),
        format!("outbound|80||{host}"),
    ];
    assert_eq!(made_again(&before, &after), wanted);
}

#[test]
fn a_new_identity_makes_the_clusters_that_verify_it_again() {
    let mut world = shop();
    let view = proxy(&world, "shop");
    let before = world.set(&view, TypeUrl::Cluster);
    world
        .put(&entry("orders", "10.0.0.1").replace("serviceAccount: orders", "serviceAccount: new"));
    let after = world.set(&proxy(&world, "shop"), TypeUrl::Cluster);
    let one = ["outbound|80||orders.shop.svc.cluster.local"];
    assert_eq!(made_again(&before, &after), one);
}

#[test]
fn proxies_of_two_namespaces_share_every_cluster_of_services() {
    let world = shop();
    let ours = world.set(&proxy(&world, "shop"), TypeUrl::Cluster);
    let theirs = world.set(&proxy(&world, "other"), TypeUrl::Cluster);
    let made: Vec<String> = made_again(&ours, &theirs);
    assert!(
        made.iter().all(|name| !name.starts_with("outbound")),
        "{made:?}"
    );
}

#[test]
fn a_stock_envoy_gets_no_filter_that_it_lacks() {
    let world = shop();
    let node = testkit::node(&json!({
        "id": "sidecar~10.9.9.9~client.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop"},
    }));
    let stock = Node {
        extensions: Some(Arc::default()),
        ..Node::clone(&node)
    };
    let (view, stock) = (world.view(&node), world.view(&Arc::new(stock)));
    let has = |view: &Arc<View>| {
        let set = world.set(view, TypeUrl::Cluster);
        set.iter().any(|r| {
            let body = String::from_utf8_lossy(&r.body);
            body.contains("istio.metadata_exchange") || body.contains("istio-peer-exchange")
        })
    };
    assert!(has(&view) && !has(&stock));
}
