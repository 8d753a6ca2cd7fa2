//! Route configurations: golden cases of our own, what an edit derives again, and recordings of the real istiod where
//! those are at hand.

use std::path::Path;
use std::sync::Arc;

use model::node::Node;
use pilothouse_xlate::View;
use serde_json::{Value, json};
use testkit::{Scenario, Score, World, differences, golden, node};
use xds::TypeUrl;

#[test]
fn golden_cases_give_the_routes_that_stand_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/routes");
    golden(&folder, TypeUrl::Route);
}

/// Groups of scenarios whose objects are all read here: ways in from Gateway API and Ingress are converted elsewhere, and
/// EnvoyFilters patch what was made.
const GROUPS: &[&str] = &[
    "base-",
    "dr-",
    "ef-",
    "gw-",
    "istio-bench-",
    "istio-bookinfo-",
    "istio-net-",
    "istio-testdata-",
    "kube-grpc-proxyless",
    "kube-services",
    "mesh-",
    "node-",
    "pa-",
    "proxy-",
    "se-",
    "sidecar-",
    "tel-",
    "traffic-",
    "vs-",
    "wasm-",
];

#[test]
fn proxies_get_the_routes_that_were_recorded() {
    let names = Scenario::names();
    let chosen = names
        .iter()
        .filter(|name| GROUPS.iter().any(|group| name.starts_with(group)));
    let mut score = Score::default();
    for name in chosen {
        let Some(scenario) = Scenario::recorded(name) else {
            return;
        };
        for proxy in scenario.nodes.keys() {
            let Some(expected) = scenario.expected(proxy, TypeUrl::Route) else {
                continue;
            };
            let generated = scenario.generated(proxy, TypeUrl::Route);
            for (route, wanted) in &expected {
                let got = generated.get(route).unwrap_or(&Value::Null);
                let (wanted, got) = (comparable(wanted, name), comparable(got, name));
                score.count(
                    &format!("{name}/{proxy} {route}"),
                    &differences(&wanted, &got),
                );
            }
        }
    }
    score.all_as_recorded();
}

/// A route configuration without what means nothing: the order of domains and of conditions on one request.
fn comparable(config: &Value, scenario: &str) -> Value {
    // Which of the services of one host the domains come from is left to chance there.
    let by_chance = ["se-multi-address", "se-dual-stack"].contains(&scenario);
    let mut config = config.clone();
    normalise(&mut config, by_chance);
    config
}

fn normalise(value: &mut Value, without_domains: bool) {
    match value {
        Value::Object(map) => {
            if without_domains {
                map.remove("domains");
            }
            for key in ["headers", "query_parameters", "domains"] {
                if let Some(Value::Array(list)) = map.get_mut(key) {
                    list.sort_by_key(Value::to_string);
                }
            }
            map.values_mut().for_each(|v| normalise(v, without_domains));
        }
        Value::Array(list) => list.iter_mut().for_each(|v| normalise(v, without_domains)),
        _ => {}
    }
}

fn sidecar() -> Arc<Node> {
    node(&json!({
        "id": "sidecar~10.0.0.1~cart-0.shop~shop.svc.cluster.local",
        "metadata": { "NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "LABELS": { "app": "cart" } },
    }))
}

fn entry(name: &str, port: u16) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{ name: {name}, namespace: shop }}
spec:
  hosts: [{name}.example.com]
  ports: [{{ number: {port}, name: http, protocol: HTTP }}]
  resolution: STATIC
  endpoints: [{{ address: 10.1.0.1 }}]
"
    )
}

fn rule(name: &str, timeout: &str) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{ name: {name}, namespace: shop }}
spec:
  hosts: [{name}.example.com]
  http:
  - timeout: {timeout}
    route: [{{ destination: {{ host: {name}.example.com }} }}]
"
    )
}

/// How often queries of a type ran.
fn runs(world: &World, query: &str) -> u64 {
    let stats = world.engine.stats();
    let of_type = stats.queries.iter().filter(|q| q.name.ends_with(query));
    of_type.map(|q| q.runs).sum()
}

struct Counted {
    world: World,
    view: Arc<View>,
}

impl Counted {
    /// Twenty services on port 80 with a rule each, and one on port 81.
    fn new() -> Self {
        let mut yaml = entry("other", 81);
        for at in 0..20 {
            let name = format!("s{at}");
            yaml += &entry(&name, 80);
            yaml += &rule(&name, "1s");
        }
        let world = World::of(&yaml);
        let view = world.view(&sidecar());
        let counted = Self { world, view };
        counted.world.set(&counted.view, TypeUrl::Route);
        counted
    }

    /// How often each of these queries runs because of a change.
    fn runs_after<const N: usize>(&mut self, yaml: &str, queries: [&str; N]) -> [u64; N] {
        let before = queries.map(|q| runs(&self.world, q));
        self.world.put(yaml);
        self.world.set(&self.view, TypeUrl::Route);
        let after = queries.map(|q| runs(&self.world, q));
        std::array::from_fn(|at| after[at] - before[at])
    }
}

#[test]
fn an_edit_of_a_rule_makes_its_routes_and_joins_its_port_again_and_nothing_else() {
    let mut counted = Counted::new();
    let queries = [
        "ScopeOf",
        "PlanOf",
        "RuleRoutes",
        "ServiceRoutes",
        "ConfigOf",
    ];
    let runs = counted.runs_after(&rule("s7", "2s"), queries);
    assert_eq!(runs, [0, 0, 1, 0, 1]);
}

#[test]
fn endpoints_do_not_reach_routes() {
    let mut counted = Counted::new();
    let moved = entry("s7", 80).replace("10.1.0.1", "10.1.0.2");
    let runs = counted.runs_after(&moved, ["ScopeOf", "PlanOf", "RuleRoutes", "ConfigOf"]);
    assert_eq!(runs, [0; 4]);
}

#[test]
fn a_namespace_that_is_not_imported_does_not_reach_the_scope() {
    let sidecar = "
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: { name: default, namespace: shop }
spec: { egress: [{ hosts: [./*] }] }
";
    // Addresses that are allocated depend on every entry without one.
    let with_address =
        |entry: String| entry.replace("  hosts:", "  addresses: [10.9.0.1]\n  hosts:");
    let world = World::of(&(with_address(entry("cart", 80)) + sidecar));
    let view = world.view(&self::sidecar());
    let mut counted = Counted { world, view };
    counted.world.set(&counted.view, TypeUrl::Route);
    let elsewhere = with_address(entry("bank", 80)).replace("namespace: shop", "namespace: bank");
    let runs = counted.runs_after(&elsewhere, ["ScopeOf", "PlanOf", "ConfigOf"]);
    assert_eq!(runs, [0; 3]);
}

#[test]
fn what_an_edit_gives_is_what_starting_over_gives() {
    let mut counted = Counted::new();
    counted.runs_after(&rule("s3", "5s"), []);
    counted.runs_after(&entry("new", 80), []);
    counted.runs_after(&entry("s4", 81), []);
    let mut yaml = entry("other", 81) + &entry("new", 80);
    for at in 0..20 {
        let name = format!("s{at}");
        yaml += &entry(&name, if at == 4 { 81 } else { 80 });
        yaml += &rule(&name, if at == 3 { "5s" } else { "1s" });
    }
    let fresh = World::of(&yaml);
    let set = |world: &World| world.set(&world.view(&sidecar()), TypeUrl::Route);
    assert_eq!(set(&counted.world), set(&fresh));
}
