//! EnvoyFilters and filters of users: what is recorded of the real control plane, what they leave alone, and what
//! happens where a proxy cannot run them.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use pilothouse_xlate::View;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Value, json};
use testkit::{Scenario, Score, World, decode, differences, node};
use xds::TypeUrl;

#[test]
fn proxies_get_the_extension_configurations_that_were_recorded() {
    let mut score = Score::default();
    for name in Scenario::names() {
        let Some(scenario) = Scenario::recorded(&name) else {
            continue;
        };
        for proxy in scenario.nodes.keys() {
            let Some(expected) = scenario.expected(proxy, TypeUrl::Extension) else {
                continue;
            };
            let ours = scenario.generated(proxy, TypeUrl::Extension);
            for (resource, wanted) in &expected {
                let got = ours.get(resource).cloned().unwrap_or(Value::Null);
                let different: Vec<String> = differences(&plain(wanted), &plain(&got))
                    .into_iter()
                    // The version that the API server gave to the object.
                    .filter(|line| !line.contains("PLUGIN_RESOURCE_VERSION"))
                    .collect();
                score.count(&format!("{name}/{proxy} {resource}"), &different);
            }
        }
    }
    score.all_as_recorded();
}

/// Without what JSON can only hint at: a configuration without type.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, value)| *key != "configuration" || **value != json!({}))
            .map(|(key, value)| (key.clone(), plain(value)))
            .collect(),
        other => other.clone(),
    }
}

const SERVICES: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.example.com]
  addresses: [10.0.0.1]
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 5000, name: tcp, protocol: TCP}]
  resolution: STATIC
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: till, namespace: shop}
spec:
  hosts: [till.example.com]
  addresses: [10.0.0.2]
  ports: [{number: 6000, name: tcp, protocol: TCP}]
  resolution: STATIC
";

fn proxy(world: &World, app: &str, more: Value) -> Arc<View> {
    let mut metadata =
        json!({"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "LABELS": {"app": app}});
    let stated = more["metadata"].as_object().into_iter().flatten();
    for (key, value) in stated {
        metadata[key] = value.clone();
    }
    world.view(&node(&json!({
        "id": "sidecar~10.1.0.1~web-0.shop~shop.svc.cluster.local",
        "metadata": metadata,
        "extensions": more["extensions"],
    })))
}

fn filter(namespace: &str, selects: &str, patches: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\n\
         metadata: {{name: patch, namespace: {namespace}}}\n\
         spec:\n  {selects}\n  configPatches: [{patches}]\n"
    )
}

fn timeout(seconds: u8) -> String {
    format!(
        "{{applyTo: CLUSTER, match: {{cluster: {{service: cart.example.com}}}}, \
         patch: {{operation: MERGE, value: {{connect_timeout: {seconds}s}}}}}}"
    )
}

#[test]
fn an_edit_reaches_no_proxy_that_the_object_does_not_select() {
    let of_a = |seconds| {
        filter(
            "shop",
            "workloadSelector: {labels: {app: a}}",
            &timeout(seconds),
        )
    };
    let mut world = World::of(SERVICES);
    world.put(&of_a(1));
    let (a, b) = (proxy(&world, "a", json!({})), proxy(&world, "b", json!({})));
    let pull = |world: &World, view: &Arc<View>| TypeUrl::ALL.map(|ty| world.set(view, ty));
    let runs = |world: &World| {
        let stats = world.engine.stats();
        let made = |name: &str| name.ends_with("roots::Made");
        let of_sets = stats.queries.iter().filter(|q| made(q.name));
        of_sets.map(|q| q.runs).sum::<u64>()
    };
    let (first_of_a, first_of_b) = (pull(&world, &a), pull(&world, &b));
    world.put(&of_a(2));
    let before = runs(&world);
    assert!(pull(&world, &b) == first_of_b);
    assert_eq!(runs(&world), before, "a set of b ran again");
    assert!(pull(&world, &a) != first_of_a);
    // Of its sets, only that of clusters.
    assert_eq!(runs(&world), before + 1);
}

#[test]
fn what_no_patch_concerns_stays_shared() {
    let on_port = "{applyTo: LISTENER, match: {listener: {portNumber: 6000}}, \
                   patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 7}}}";
    let of_routes = "{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {name: none}}, patch: {operation: REMOVE}}";
    let patches = format!("{}, {on_port}, {of_routes}", timeout(9));
    let mut world = World::of(SERVICES);
    world.put(&filter(
        "shop",
        "workloadSelector: {labels: {app: a}}",
        &patches,
    ));
    let (a, b) = (proxy(&world, "a", json!({})), proxy(&world, "b", json!({})));
    let mut own = Vec::new();
    for ty in [TypeUrl::Cluster, TypeUrl::Listener, TypeUrl::Route] {
        let of_b = world.set(&b, ty);
        for resource in world.set(&a, ty).iter() {
            let other = of_b.get(&resource.name).unwrap();
            if !Arc::ptr_eq(resource, other) {
                own.push(resource.name.to_string());
            }
        }
    }
    assert_eq!(
        own,
        [
            "outbound|5000||cart.example.com",
            "outbound|80||cart.example.com",
            "10.0.0.2_6000"
        ]
    );
}

#[test]
fn a_proxy_is_matched_by_what_it_says_of_itself() {
    let patched = |condition: &str, metadata: Value| {
        let patch = format!(
            "{{applyTo: CLUSTER, match: {{proxy: {{{condition}}}}}, patch: {{operation: ADD, value: {{name: added}}}}}}"
        );
        let mut world = World::of(SERVICES);
        world.put(&filter("istio-system", "priority: 1", &patch));
        let view = proxy(&world, "a", json!({"metadata": metadata}));
        world.set(&view, TypeUrl::Cluster).get("added").is_some()
    };
    let version = |v: &str| json!({"ISTIO_VERSION": v});
    assert!(patched("proxyVersion: '^1\\.2[0-9].*'", version("1.25.3")));
    assert!(!patched("proxyVersion: '^1\\.2[0-9].*'", version("1.30.0")));
    assert!(!patched("proxyVersion: '.*'", json!({})));
    // An expression that is none matches no proxy, rather than all.
    assert!(!patched("proxyVersion: '('", version("1.25.3")));
    assert!(patched("metadata: {TEAM: blue}", json!({"TEAM": "blue"})));
    assert!(!patched("metadata: {TEAM: blue}", json!({"TEAM": "red"})));
    assert!(!patched("metadata: {TEAM: blue}", json!({})));
}

/// Code, path and a part of the message of what is found for the patches.
fn found(patches: &str) -> Vec<(String, String, String)> {
    let mut world = World::default();
    world.put(&filter("shop", "priority: 1", patches));
    let findings = world.get(&FindingsOfMesh);
    findings
        .iter()
        .map(|d| (d.code.to_owned(), d.path.to_string(), d.message.to_string()))
        .collect()
}

#[test]
fn a_patch_that_does_not_fit_is_told_by_its_field() {
    const CASES: &[(&str, &str, &str, &str)] = &[
        (
            "{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: soon}}}",
            "PIL0451",
            "spec.configPatches[0].patch.value.connect_timeout",
            "",
        ),
        (
            "{applyTo: HTTP_FILTER, patch: {operation: ADD, value: {name: x, typed_config: {\"@type\": no.such}}}}",
            "PIL0451",
            "spec.configPatches[0].patch.value.typed_config.@type",
            "no message type no.such is known",
        ),
        (
            "{applyTo: CLUSTER, patch: {operation: MERGE, value: {name: x, newer_field: 1}}}",
            "PIL0452",
            "spec.configPatches[0].patch.value.newer_field",
            "left out",
        ),
        (
            "{applyTo: CLUSTER, patch: {operation: REPLACE, value: {name: x}}}",
            "PIL0451",
            "spec.configPatches[0].patch.operation",
            "does nothing",
        ),
        (
            "{applyTo: CLUSTER, patch: {operation: ADD}}",
            "PIL0451",
            "spec.configPatches[0].patch.value",
            "needs a value",
        ),
        (
            "{applyTo: CLUSTER, match: {listener: {portNumber: 1}}, patch: {operation: REMOVE}}",
            "PIL0452",
            "spec.configPatches[0].match.listener",
            "does not narrow",
        ),
        (
            "{applyTo: BOOTSTRAP, patch: {operation: MERGE, value: {}}}",
            "PIL0452",
            "spec.configPatches[0].applyTo",
            "not patched",
        ),
    ];
    for (patch, code, path, part) in CASES {
        let found = found(patch);
        let told =
            |(c, p, m): &(String, String, String)| c == code && p == path && m.contains(part);
        assert!(found.iter().any(told), "{patch}: {found:?}");
    }
}

#[test]
fn a_patch_of_another_type_leaves_the_filter_alone_and_is_told() {
    let patch = "{applyTo: NETWORK_FILTER, match: {context: SIDECAR_OUTBOUND, listener: {portNumber: 6000, \
                 filterChain: {filter: {name: envoy.filters.network.tcp_proxy}}}}, patch: {operation: MERGE, value: \
                 {typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}}}";
    let mut world = World::of(SERVICES);
    let view = proxy(&world, "a", json!({}));
    let before = world.set(&view, TypeUrl::Listener);
    assert_eq!(world.get(&view.findings()).len(), 0);
    world.put(&filter("shop", "priority: 1", patch));
    let after = world.set(&view, TypeUrl::Listener);
    let versions = |set: &xds::ResourceSet| -> Vec<u64> { set.iter().map(|r| r.version).collect() };
    assert_eq!(versions(&before), versions(&after));
    let told = world.get(&view.findings());
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].code, "PIL0451");
    assert_eq!(&*told[0].path, "spec.configPatches[0].patch.value");
    assert!(told[0].message.contains("Echo"), "{told:?}");
}

#[test]
fn a_cluster_keeps_its_name() {
    let patch = "{applyTo: CLUSTER, match: {cluster: {service: cart.example.com}}, \
                 patch: {operation: MERGE, value: {name: other}}}";
    let mut world = World::of(SERVICES);
    world.put(&filter("shop", "priority: 1", patch));
    let view = proxy(&world, "a", json!({}));
    assert!(
        world
            .set(&view, TypeUrl::Cluster)
            .get("outbound|80||cart.example.com")
            .is_some()
    );
    let told = world.get(&view.findings());
    assert!(
        told.iter()
            .any(|d| d.code == "PIL0451" && d.message.contains("by its name"))
    );
}

#[test]
fn a_patch_that_takes_protection_away_says_what_the_proxy_lacks() {
    const CASES: &[(&str, &str)] = &[
        (
            "{applyTo: HTTP_FILTER, match: {listener: {filterChain: {filter: {name: h, subFilter: \
             {name: envoy.filters.http.jwt_authn}}}}}, patch: {operation: REMOVE}}",
            "tokens are not checked",
        ),
        (
            "{applyTo: HTTP_FILTER, match: {listener: {filterChain: {filter: {name: h, subFilter: \
             {name: envoy.filters.http.rbac}}}}}, patch: {operation: REPLACE, value: {name: mine}}}",
            "AuthorizationPolicy is not enforced",
        ),
        (
            "{applyTo: NETWORK_FILTER, match: {listener: {filterChain: {filter: \
             {name: envoy.filters.network.ext_authz}}}}, patch: {operation: REMOVE}}",
            "no external authorizer is asked",
        ),
        (
            "{applyTo: FILTER_CHAIN, patch: {operation: MERGE, value: {transport_socket: {name: raw}}}}",
            "without mutual TLS",
        ),
        (
            "{applyTo: CLUSTER, patch: {operation: MERGE, value: {transport_socket: {name: raw}}}}",
            "the cluster sends connections without mutual TLS",
        ),
        (
            "{applyTo: FILTER_CHAIN, patch: {operation: REMOVE}}",
            "may protect less",
        ),
        (
            "{applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {typed_per_filter_config: \
             {envoy.filters.http.rbac: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute}}}}}",
            "not the policies",
        ),
    ];
    for (patch, part) in CASES {
        let found = found(patch);
        let told = |(c, _, m): &(String, String, String)| c == "PIL0453" && m.contains(part);
        assert!(found.iter().any(told), "{patch}: {found:?}");
    }
    assert_eq!(found(&timeout(1)), []);
}

#[test]
fn a_filter_that_a_proxy_cannot_run_refuses_unless_it_may_be_left_out() {
    const STOCK: [&str; 4] = [
        "envoy.filters.http.router",
        "envoy.filters.http.wasm",
        "envoy.filters.network.tcp_proxy",
        "envoy.filters.network.http_connection_manager",
    ];
    let sent = |plugin: &str, extensions: &[&str]| {
        let mut world = World::of(SERVICES);
        world.put(&format!(
            "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\n\
             metadata: {{name: auth, namespace: shop}}\nspec: {{{plugin}}}\n"
        ));
        let view = proxy(&world, "a", json!({"extensions": extensions}));
        let listeners = world.set(&view, TypeUrl::Listener);
        let shown = decode(
            TypeUrl::Listener.as_str(),
            &listeners.get("virtualInbound").unwrap().body,
        )
        .to_string();
        let told = world.get(&view.findings());
        let told = told.iter().any(|d| d.code == "PIL0431");
        (
            shown.contains("refused: this proxy lacks"),
            shown.contains("shop.auth"),
            told,
        )
    };
    // Refused, filter there, told.
    let file = "url: \"file:///auth.wasm\"";
    assert_eq!(sent(file, &STOCK), (false, true, false));
    assert_eq!(sent(file, &STOCK[2..]), (true, false, true));
    let image = "url: \"oci://registry/auth\"";
    assert_eq!(sent(image, &STOCK), (true, false, true));
    let open = "url: \"oci://registry/auth\", failStrategy: FAIL_OPEN";
    assert_eq!(sent(open, &STOCK), (false, false, false));
}

#[test]
fn pull_secrets_are_for_proven_proxies_of_the_namespace() {
    let mut world = World::of(
        "
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: auth, namespace: shop}
spec: {url: oci://registry/auth, imagePullSecret: other/pull}
---
apiVersion: v1
kind: Secret
metadata: {name: pull, namespace: shop}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: the-secret}
",
    );
    world.put(SERVICES);
    let holds = |token: Option<&str>| {
        let mut described = json!({
            "id": "sidecar~10.1.0.1~web-0.shop~shop.svc.cluster.local",
            "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes"},
        });
        if let Some(token) = token {
            described["token"] = token.into();
        }
        let view = world.view(&node(&described));
        let set = world.set(&view, TypeUrl::Extension);
        assert_eq!(set.len(), 1);
        let config = set.iter().next().unwrap();
        decode(TypeUrl::Extension.as_str(), &config.body)
            .to_string()
            .contains("the-secret")
    };
    assert!(holds(Some("sa:shop:web")));
    assert!(!holds(Some("sa:other:web")));
    assert!(!holds(None));
}
