//! Secret templates: where values are put in, which objects may have which, and what becomes of resources without them.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::ObjectKey;
use model::kinds::Kind;
use model::settings::Features;
use pilothouse_xlate::View;
use serde_json::json;
use testkit::{World, decode, node, settings};
use xds::{Resource, TypeUrl};

/// An object for each kind of resource, in that namespace, whose templates begin with `secret`.
fn objects(namespace: &str, secret: &str) -> String {
    format!(
        r#"
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: cart, namespace: shop}}
spec:
  hosts: [cart.example.com]
  addresses: [10.0.0.1]
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  resolution: STATIC
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: cart, namespace: {namespace}}}
spec:
  hosts: [cart.example.com]
  http:
  - headers: {{request: {{set: {{authorization: "Bearer ${{{secret}.token}}"}}}}}}
    route: [{{destination: {{host: cart.example.com}}}}]
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {{name: keys, namespace: {namespace}}}
spec:
  url: oci://registry.example.com/keys:1
  pluginConfig: {{consumers: [{{name: a, credential: "${{{secret}.token}}"}}]}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {{name: more, namespace: {namespace}}}
spec:
  configPatches:
  - applyTo: CLUSTER
    match: {{cluster: {{service: cart.example.com}}}}
    patch: {{operation: MERGE, value: {{alt_stat_name: "${{{secret}.token}}"}}}}
  - applyTo: HTTP_FILTER
    match: {{context: SIDECAR_OUTBOUND, listener: {{filterChain: {{filter: {{name: envoy.filters.network.http_connection_manager}}}}}}}}
    patch:
      operation: INSERT_FIRST
      value:
        name: lua
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code: {{inline_string: "-- ${{{secret}.token}}"}}
"#
    )
}

/// A world in which templates are on, with these objects.
fn world(objects: &str) -> World {
    world_with(objects, "*")
}

/// A world in which templates are on for these namespaces, with these objects.
fn world_with(objects: &str, allowed: &str) -> World {
    let features = Features {
        secret_templates: allowed.into(),
        ..Features::default()
    };
    let mut world = World::new(model::settings::Settings {
        features: Arc::new(features),
        ..settings("")
    });
    world.put(objects);
    world
}

fn secret(namespace: &str, value: &str) -> String {
    let data = json!({ "token": value });
    format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: api, namespace: {namespace}}}, stringData: {data}}}"
    )
}

/// A proxy that states a namespace, and has proven to be of one.
fn view(world: &World, stated: &str, proven: &str) -> Arc<View> {
    world.view(&node(&json!({
        "id": format!("sidecar~10.1.0.1~web-0.{stated}~{stated}.svc.cluster.local"),
        "metadata": {"NAMESPACE": stated, "CLUSTER_ID": "Kubernetes"},
        "token": format!("sa:{proven}:web"),
    })))
}

/// The resources that objects with templates had a say in, as they are sent and as they are shown.
fn texts(world: &World) -> Vec<(TypeUrl, Arc<Resource>, String, String)> {
    texts_for(world, "shop", "shop")
}

fn texts_for(
    world: &World,
    stated: &str,
    proven: &str,
) -> Vec<(TypeUrl, Arc<Resource>, String, String)> {
    let view = view(world, stated, proven);
    let types = [
        TypeUrl::Cluster,
        TypeUrl::Listener,
        TypeUrl::Route,
        TypeUrl::Extension,
    ];
    let mut all = Vec::new();
    for ty in types {
        for resource in &world.set(&view, ty) {
            let sent = decode(ty.as_str(), &resource.body).to_string();
            let shown = decode(ty.as_str(), resource.shown()).to_string();
            assert!(
                !sent.contains('\u{FDD0}') && !shown.contains('\u{FDD0}'),
                "{resource:?}"
            );
            if shown.contains("${secret.") || sent != shown {
                all.push((ty, resource.clone(), sent, shown));
            }
        }
    }
    all
}

fn types(texts: &[(TypeUrl, Arc<Resource>, String, String)]) -> Vec<TypeUrl> {
    let mut types: Vec<TypeUrl> = texts.iter().map(|t| t.0).collect();
    types.dedup();
    types
}

const ALL: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Listener,
    TypeUrl::Route,
    TypeUrl::Extension,
];

#[test]
fn values_are_put_into_every_kind_of_resource_and_shown_of_none() {
    let mut world = self::world(&objects("shop", "secret.api"));
    world.put(&secret("shop", "s3cr3t"));
    let found = texts(&world);
    assert_eq!(types(&found), ALL);
    for (ty, resource, sent, shown) in &found {
        assert!(sent.contains("s3cr3t"), "{ty:?} {sent}");
        assert!(!shown.contains("s3cr3t"), "{ty:?} {shown}");
        assert!(shown.contains("${secret.api.token}"), "{ty:?} {shown}");
        assert!(resource.has_credentials());
    }
    // A new value is there with the next revision, and with no other change.
    world.put(&secret("shop", "other"));
    for (ty, _, sent, _) in texts(&world) {
        assert!(sent.contains("other") && !sent.contains("s3cr3t"), "{ty:?}");
    }
}

/// The configuration of a filter that refuses every request.
const REFUSES: &str = r#""typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC","rules":{}}"#;

/// Whether a resource without its value is closed; where nothing of it protects, it has a text that nobody can guess.
fn is_closed(ty: TypeUrl, sent: &str) -> bool {
    assert!(!sent.contains("${secret."), "{ty:?} {sent}");
    match ty {
        TypeUrl::Route => {
            sent.contains(r#""direct_response":{"status":503}"#) && !sent.contains("no-value")
        }
        TypeUrl::Listener => sent.contains(&format!(r#""name":"lua",{REFUSES}"#)),
        TypeUrl::Extension => sent.contains(REFUSES),
        _ => sent.contains("no-value-"),
    }
}

#[test]
fn what_needs_a_value_that_is_not_there_is_closed() {
    let unknown = |world: &World| {
        let found = texts(world);
        assert_eq!(types(&found), ALL);
        for (ty, resource, sent, _) in found {
            assert!(is_closed(ty, &sent), "{ty:?} {sent}");
            assert_eq!(resource.findings()[0].code, "PIL0116");
        }
    };
    let mut world = self::world(&objects("shop", "secret.api"));
    unknown(&world);
    world.put("{apiVersion: v1, kind: Secret, metadata: {name: api, namespace: shop}, stringData: {other: key}}");
    unknown(&world);
    world.put(&secret("shop", &"long".repeat(20_000)));
    unknown(&world);
    world.put(&secret("shop", "s3cr3t"));
    assert!(
        texts(&world)
            .iter()
            .all(|(.., sent, _)| sent.contains("s3cr3t"))
    );
    let name = model::ObjectName::new("shop", "api");
    world.delete(&ObjectKey {
        kind: Kind::Secret,
        name,
    });
    unknown(&world);
}

#[test]
fn secrets_of_other_namespaces_are_for_those_that_configure_all() {
    let mut world = self::world(&objects("shop", "secret.ops/api"));
    world.put(&secret("ops", "s3cr3t"));
    assert!(
        texts(&world)
            .iter()
            .all(|(.., sent, _)| !sent.contains("s3cr3t"))
    );
    let mut world = self::world(&objects("istio-system", "secret.ops/api"));
    world.put(&secret("ops", "s3cr3t"));
    let found = texts_for(&world, "istio-system", "istio-system");
    assert_eq!(types(&found), ALL);
    assert!(found.iter().all(|(.., sent, _)| sent.contains("s3cr3t")));
}

#[test]
fn values_are_for_proxies_that_have_proven_who_they_are() {
    let mut world = self::world(&objects("shop", "secret.api"));
    world.put(&secret("shop", "s3cr3t"));
    // Of its namespace, of another, and of none.
    for (proven, has) in [("shop", true), ("other", false), ("", false)] {
        let found = texts_for(&world, "shop", proven);
        assert_eq!(types(&found), ALL);
        for (ty, _, sent, _) in found {
            assert_eq!(sent.contains("s3cr3t"), has, "{proven} {ty:?}");
            assert_eq!(is_closed(ty, &sent), !has, "{proven} {ty:?}");
        }
    }
}

#[test]
fn a_value_is_text_and_no_syntax() {
    let mut world = self::world(&objects("shop", "secret.api"));
    world.put(&secret("shop", r#"a"b\c 100%"#));
    for (ty, _, sent, _) in texts(&world) {
        match ty {
            // A format of Envoy, where a command begins with a percent sign.
            TypeUrl::Route => assert!(sent.contains(r#"Bearer a\"b\\c 100%%"#), "{sent}"),
            // JSON in a text of JSON.
            TypeUrl::Extension => assert!(sent.contains(r#"a\\\"b\\\\c 100%"#), "{sent}"),
            _ => assert!(sent.contains(r#"a\"b\\c 100%"#), "{sent}"),
        }
    }
    // A header has no line breaks.
    world.put(&secret("shop", "a\r\nx-admin: yes"));
    for (ty, _, sent, _) in texts(&world) {
        assert_eq!(is_closed(ty, &sent), ty == TypeUrl::Route, "{sent}");
    }
}

#[test]
fn values_of_a_namespace_leave_room_for_those_of_others() {
    let mut world = self::world(GATEWAY);
    let rule = |namespace: &str, count: usize| {
        let header = |n: usize| format!("x-{n}: \"${{secret.api.token}}\"");
        let headers: Vec<String> = (0..count).map(header).collect();
        format!(
            "{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: r, namespace: {namespace}}}, spec: {{hosts: \
             [{namespace}.example.com], gateways: [edge/web], http: [{{headers: {{request: {{set: {{{}}}}}}}, route: [{{destination: {{host: cart.example.com}}}}]}}]}}}}",
            headers.join(", ")
        )
    };
    world.put(&secret("shop", "s3cr3t"));
    world.put(&secret("greedy", &"long".repeat(16_000)));
    world.put(&rule("greedy", 40));
    world.put(&rule("shop", 1));
    let view = world.view(&node(&json!({
        "id": "router~10.1.0.1~web-0.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes"},
        "token": "sa:edge:web",
    })));
    let routes = world.set(&view, TypeUrl::Route);
    let resource = routes.get("http.80").unwrap();
    let sent = decode(TypeUrl::Route.as_str(), &resource.body).to_string();
    assert!(sent.contains("s3cr3t") && !sent.contains("longlong"));
    let closed = sent.matches(r#""direct_response":{"status":503}"#).count();
    assert_eq!(closed, 1, "{sent}");
    assert!(resource.findings()[0].message.contains("no room"));
}

/// A gateway of the namespace `edge`, and a service.
const GATEWAY: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: edge}
spec: {servers: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ['*']}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
";

#[test]
fn turned_off_a_template_is_a_text() {
    for allowed in ["", "false", "other", "other,shopping"] {
        let mut world = world_with(&objects("shop", "secret.api"), allowed);
        world.put(&secret("shop", "s3cr3t"));
        let found = texts(&world);
        assert_eq!(types(&found), ALL, "{allowed}");
        let is_literal = |sent: &str| sent.contains("${secret.api.token}");
        assert!(
            found.iter().all(|(.., sent, _)| is_literal(sent)),
            "{allowed}"
        );
    }
}

#[test]
fn templates_are_on_for_the_namespaces_that_are_listed() {
    for allowed in ["shop", "other, shop", "true"] {
        let mut world = world_with(&objects("shop", "secret.api"), allowed);
        world.put(&secret("shop", "s3cr3t"));
        let found = texts(&world);
        assert_eq!(types(&found), ALL, "{allowed}");
        let has_value = |sent: &str| sent.contains("s3cr3t");
        assert!(
            found.iter().all(|(.., sent, _)| has_value(sent)),
            "{allowed}"
        );
    }
}
