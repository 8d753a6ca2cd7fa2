//! What gRPC libraries get: a folder for each case, with objects (`in.yaml`), a client that serves too (`node.json`), and
//! what each name is answered with by type, `null` where there is nothing (`out.json`); recordings where those are at hand.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use model::node::Node;
use serde_json::{Value, json};
use testkit::{Scenario, Score, World, decode, differences, node};
use xds::{Resource, TypeUrl};

#[test]
fn libraries_get_what_was_recorded() {
    let mut score = Score::default();
    let names = Scenario::names();
    for name in names
        .iter()
        .filter(|n| n.starts_with("kube-grpc-proxyless"))
    {
        let Some(scenario) = Scenario::recorded(name) else {
            return;
        };
        for (proxy, ty, wanted, got) in scenario.compared() {
            for (resource, wanted) in &wanted {
                let got = got.get(resource).unwrap_or(&Value::Null);
                let case = format!("{name}/{proxy}/{ty} {resource}");
                score.count(&case, &differences(wanted, got));
            }
        }
    }
    score.all_as_recorded();
}

#[test]
fn cases_give_what_stands_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/grpc");
    let mut compared = 0;
    for case in std::fs::read_dir(folder).unwrap().flatten() {
        let read = |name: &str| std::fs::read_to_string(case.path().join(name)).unwrap();
        let json = |name: &str| serde_json::from_str::<Value>(&read(name)).unwrap();
        let world = World::of(&read("in.yaml"));
        let view = world.view(&node(&json("node.json")));
        for (ty, wanted) in json("out.json").as_object().unwrap() {
            let ty = TypeUrl::parse_short(ty).unwrap();
            let set = world.set(&view, ty);
            for (name, wanted) in wanted.as_object().unwrap() {
                let got = set.get(name);
                let got = got.map_or(Value::Null, |r| decode(ty.as_str(), &r.body));
                let different = differences(wanted, &got);
                assert!(different.is_empty(), "{name}: {different:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "there are no cases");
}

const CART: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  addresses: [10.96.0.1]
  location: MESH_INTERNAL
  resolution: RESOLUTION
  ports: [{number: 9090, name: grpc, protocol: GRPC}, {number: 3306, name: tcp, protocol: TCP}]
  endpoints: [{address: 10.0.0.1, labels: {LABELS}}]
";
const HOST: &str = "cart.shop.svc.cluster.local";

fn cart(resolution: &str, labels: &str) -> String {
    CART.replace("RESOLUTION", resolution)
        .replace("LABELS", labels)
}

fn library() -> Arc<Node> {
    node(&json!({
        "id": "sidecar~10.0.0.1~cart-0.shop~shop.svc.cluster.local",
        "metadata": {
            "GENERATOR": "grpc", "NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "INSTANCE_IPS": "10.0.0.1",
        },
    }))
}

/// A resource that a library gets.
fn got(world: &World, ty: TypeUrl, name: &str) -> Option<Arc<Resource>> {
    world.set(&world.view(&library()), ty).get(name).cloned()
}

/// The chain of the port that the workload serves.
fn chain(world: &World) -> Value {
    let name = "xds.istio.io/grpc/lds/inbound/0.0.0.0:9090";
    let listener = got(world, TypeUrl::Listener, name).unwrap();
    decode(TypeUrl::Listener.as_str(), &listener.body)["filter_chains"][0].clone()
}

/// The filters before the router there, by name, with their rules.
fn checks(policy: &str) -> Vec<(String, Value)> {
    let mut world = World::of(&cart("STATIC", "app: cart"));
    world.put(policy);
    let chain = chain(&world);
    let filters = &chain["filters"][0]["typed_config"]["http_filters"];
    let filters = filters.as_array().unwrap().iter();
    let checks = filters.map(|f| {
        let name = f["name"].as_str().unwrap().to_owned();
        (name, f["typed_config"]["rules"].clone())
    });
    let mut checks: Vec<_> = checks.collect();
    let last = checks.pop().unwrap();
    assert_eq!(last.0, "envoy.filters.http.router");
    checks
}

fn policy(spec: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {{name: p, namespace: shop}}\nspec: {spec}\n"
    )
}

#[test]
fn permissive_servers_speak_what_clients_expect() {
    for (labels, mode, wanted) in [
        ("app: cart", "PERMISSIVE", "inbound-plaintext"),
        (
            "security.istio.io/tlsMode: istio",
            "PERMISSIVE",
            "inbound-mtls",
        ),
        (
            "security.istio.io/tlsMode: istio",
            "DISABLE",
            "inbound-plaintext",
        ),
        ("app: cart", "STRICT", "inbound-mtls"),
    ] {
        let mut world = World::of(&cart("STATIC", labels));
        world.put(&format!(
            "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {{name: default, namespace: shop}}\n\
             spec: {{mtls: {{mode: {mode}}}}}\n"
        ));
        let chain = chain(&world);
        assert_eq!(chain["name"], wanted, "{labels} {mode}");
        let has_tls = !chain["transport_socket"].is_null();
        assert_eq!(has_tls, wanted == "inbound-mtls", "{labels} {mode}");
    }
}

#[test]
fn what_names_without_ports_and_everything_stand_for_is_said() {
    let world = World::of(&cart("STATIC", "app: cart"));
    let asked = |ty, name: &str| {
        let resource = got(&world, ty, name).unwrap_or_else(|| panic!("there is no {name}"));
        let rule = resource.subscription_rule().unwrap();
        (rule.wildcard, rule.alias.as_deref().map(str::to_owned))
    };
    let of = |name: &str| asked(TypeUrl::Listener, name);
    assert_eq!(of(&format!("{HOST}:9090")), (true, Some(HOST.to_owned())));
    assert_eq!(of(&format!("{HOST}:3306")), (true, Some(HOST.to_owned())));
    assert_eq!(of("cart:9090"), (false, Some("cart".to_owned())));
    let inbound = "xds.istio.io/grpc/lds/inbound/[::]:9090";
    assert_eq!(of(inbound), (false, None));
    let cluster = asked(TypeUrl::Cluster, &format!("outbound|9090||{HOST}"));
    assert_eq!(cluster, (false, None));
    // Each listener has its routes, be they none.
    let routes = got(&world, TypeUrl::Route, &format!("outbound|3306||{HOST}")).unwrap();
    let routes = decode(TypeUrl::Route.as_str(), &routes.body);
    assert_eq!(routes["virtual_hosts"], Value::Null);
}

#[test]
fn short_names_are_those_of_the_own_namespace() {
    let mut world = World::of(&cart("STATIC", "app: cart"));
    world.put(
        &cart("STATIC", "app: cart")
            .replace("namespace: shop", "namespace: other")
            .replace("cart.shop.", "cart.other.")
            .replace("10.0.0.1", "10.0.0.9"),
    );
    let has = |name: &str| got(&world, TypeUrl::Listener, name).is_some();
    for name in ["cart:9090", "cart.shop:9090", "cart.shop.svc:9090"] {
        assert!(has(name), "{name}");
    }
    assert!(has("cart.other.svc.cluster.local:9090"));
    for name in ["cart.other:9090", "cart.other.svc:9090"] {
        assert!(!has(name), "{name}");
    }
}

#[test]
fn services_of_the_own_namespace_keep_their_names() {
    const SERVICES: &str = "
apiVersion: v1
kind: Service
metadata: {name: ratings, namespace: shop}
spec: {clusterIP: 10.96.0.7, ports: [{name: grpc, port: 9090}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{name: grpc, port: 9090}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: thief, namespace: NAMESPACE}
spec:
  hosts: [ratings, ratings.shop, ratings.shop.svc, db-0.db.shop, other.shop]
  resolution: STATIC
  ports: [{number: 9090, name: grpc, protocol: GRPC}, {number: 9091, name: more, protocol: GRPC}]
  endpoints: [{address: 10.0.0.66}]
";
    // Where a client gets by a name.
    let leads = |world: &World, name: &str| {
        let listener = decode(
            TypeUrl::Listener.as_str(),
            &got(world, TypeUrl::Listener, name)?.body,
        );
        let routes = &listener["api_listener"]["api_listener"]["rds"]["route_config_name"];
        Some(routes.as_str().unwrap().to_owned())
    };
    let own = "outbound|9090||ratings.shop.svc.cluster.local";
    let names = ["ratings", "ratings.shop", "ratings.shop.svc"];
    let world = World::of(&SERVICES.replace("NAMESPACE", "evil"));
    for name in names {
        let (at, beside) = (format!("{name}:9090"), format!("{name}:9091"));
        assert_eq!(leads(&world, &at).as_deref(), Some(own), "{name}");
        assert_eq!(leads(&world, &beside), None, "{name}");
    }
    assert_eq!(leads(&world, "db-0.db.shop:9090"), None);
    let other = leads(&world, "other.shop:9090");
    assert_eq!(other.as_deref(), Some("outbound|9090||other.shop"));
    for namespace in ["shop", "istio-system"] {
        let world = World::of(&SERVICES.replace("NAMESPACE", namespace));
        for name in names {
            let found = leads(&world, &format!("{name}:9090"));
            assert_eq!(found, Some(format!("outbound|9090||{name}")), "{namespace}");
        }
    }
}

#[test]
fn every_cluster_gets_its_endpoints_by_eds() {
    for resolution in ["STATIC", "NONE", "DNS"] {
        let text = cart(resolution, "app: cart");
        let text = match resolution {
            // Where clients go by themselves there is nothing to list.
            "NONE" => text.replace(
                "  endpoints: [{address: 10.0.0.1, labels: {app: cart}}]\n",
                "",
            ),
            _ => text,
        };
        let world = World::of(&text);
        let name = format!("outbound|9090||{HOST}");
        let cluster = got(&world, TypeUrl::Cluster, &name).unwrap();
        let cluster = decode(TypeUrl::Cluster.as_str(), &cluster.body);
        assert_eq!(cluster["type"], "EDS", "{resolution}");
        let assignment = got(&world, TypeUrl::Endpoint, &name);
        assert!(assignment.is_some(), "{resolution}");
    }
}

#[test]
fn a_policy_that_allows_nothing_refuses_everything() {
    let checks = checks(&policy("{}"));
    assert_eq!(checks.len(), 1);
    let (name, rules) = &checks[0];
    assert_eq!(name, "envoy.filters.http.rbac");
    let all: Vec<&Value> = rules["policies"].as_object().unwrap().values().collect();
    let never = json!([{"not_rule": {"any": true}}]);
    assert!(all.iter().all(|rule| rule["permissions"] == never));
}

#[test]
fn what_an_authorizer_should_be_asked_about_is_denied() {
    let spec =
        "{action: CUSTOM, provider: {name: a}, rules: [{to: [{operation: {paths: [/a.B/C]}}]}]}";
    let checks = checks(&policy(spec));
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].0, "envoy.filters.http.rbac.DENY");
    assert!(checks[0].1["policies"]["shop-p-0"].is_object());
}

#[test]
fn conditions_that_grpc_does_not_know_deny_more_and_allow_less() {
    let rule = "{to: [{operation: {paths: ['/a/{*}/c']}}]}";
    for (action, wanted) in [
        ("DENY", json!({"any": true})),
        ("ALLOW", json!({"not_rule": {"any": true}})),
    ] {
        let checks = checks(&policy(&format!("{{action: {action}, rules: [{rule}]}}")));
        let permission = &checks[0].1["policies"]["shop-p-0"]["permissions"][0];
        let found = &permission["and_rules"]["rules"][0]["or_rules"]["rules"][0];
        assert_eq!(*found, wanted, "{action}");
    }
    // What is excepted of it is settled the other way round.
    let rule = "{to: [{operation: {notPaths: ['/a/{*}/c']}}]}";
    let checks = checks(&policy(&format!("{{action: DENY, rules: [{rule}]}}")));
    let permission = &checks[0].1["policies"]["shop-p-0"]["permissions"][0];
    let found = &permission["and_rules"]["rules"][0]["not_rule"]["or_rules"]["rules"][0];
    assert_eq!(*found, json!({"not_rule": {"any": true}}));
}

#[test]
fn conditions_about_tokens_are_never_sent() {
    // grpc-go of some versions lets everybody pass where it does not know a condition, or ends.
    for spec in [
        r#"{rules: [{from: [{source: {requestPrincipals: ["*"]}}]}]}"#,
        r#"{rules: [{from: [{source: {requestPrincipals: ["iss/*"]}}]}]}"#,
        r#"{rules: [{from: [{source: {notRequestPrincipals: ["bad/*"]}}]}]}"#,
        r#"{rules: [{when: [{key: "request.auth.claims[group]", values: [admin]}]}]}"#,
        r#"{rules: [{when: [{key: request.auth.audiences, values: [a]}]}]}"#,
        r#"{action: DENY, rules: [{from: [{source: {notRequestPrincipals: ["*"]}}]}]}"#,
        r#"{action: DENY, rules: [{from: [{source: {requestPrincipals: ["*"]}}]}]}"#,
        r#"{action: DENY, rules: [{when: [{key: "request.auth.claims[group]", notValues: [admin]}]}]}"#,
    ] {
        let checks = checks(&policy(spec));
        assert_eq!(checks.len(), 1, "{spec}");
        let (name, rules) = &checks[0];
        let text = rules.to_string();
        assert!(!text.contains("metadata"), "{spec}: {text}");
        assert!(text.contains(r#""any":true"#), "{spec}: {text}");
        let denies = name.ends_with("DENY");
        assert_eq!(denies, spec.contains("DENY"), "{name}");
    }
}

#[test]
fn rules_that_are_tried_dry_are_not_enforced() {
    let text = policy("{action: DENY, rules: [{}]}").replace(
        "namespace: shop",
        "namespace: shop, annotations: {istio.io/dry-run: 'true'}",
    );
    assert!(checks(&text).is_empty());
}
