//! Which proxies get values of Secrets and hashes of passwords: those that have proven to be the object's, or to be a
//! gateway that it names. For others the route is closed.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::node::Node;
use model::settings::Features;
use pilothouse_xlate::findings::FindingsOfView;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

const VALUE: &str = "BANK-TOP-SECRET-42";
const CLOSED: &str = r#""direct_response":{"status":503}"#;

/// A Secret of the bank, a mesh rule and a gateway rule that send it, and a route of another tenant at the same gateway.
const OBJECTS: &str = r#"
{apiVersion: v1, kind: Secret, metadata: {name: db, namespace: bank}, stringData: {password: BANK-TOP-SECRET-42}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: maps, namespace: bank}
spec: {hosts: [maps.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: maps, namespace: bank}
spec:
  hosts: [maps.example.com]
  http:
  - headers: {request: {set: {authorization: "Bearer ${secret.db.password}"}}}
    route: [{destination: {host: maps.example.com}}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: edge}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ['*']}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: core, namespace: bank}
spec:
  hosts: [bank.example.com]
  gateways: [edge/web]
  http:
  - match: [{uri: {prefix: /core}}]
    headers: {request: {set: {x-core-token: "${secret.db.password}"}}}
    route: [{destination: {host: maps.example.com}}]
  - name: open
    route: [{destination: {host: maps.example.com}}]
"#;

fn world(features: Features, objects: &str) -> World {
    let mut world = World::new(model::settings::Settings {
        features: Arc::new(features),
        ..settings("")
    });
    world.put(objects);
    world
}

fn templates() -> Features {
    Features {
        secret_templates: "*".into(),
        ..Features::default()
    }
}

/// A proxy of a role and namespace that has proven to be of that namespace, or has proven nothing.
fn proxy(role: &str, namespace: &str, proven: bool) -> Arc<Node> {
    let mut described = json!({
        "id": format!("{role}~10.9.1.1~p-0.{namespace}~{namespace}.svc.cluster.local"),
        "metadata": {
            "NAMESPACE": namespace,
            "CLUSTER_ID": "Kubernetes",
            "LABELS": {"istio": "ingressgateway"},
        },
    });
    if proven {
        described["token"] = json!(format!("sa:{namespace}:p"));
    }
    node(&described)
}

/// All that a proxy is sent, as text.
fn sent(world: &World, proxy: &Arc<Node>) -> String {
    let view = world.view(proxy);
    let texts = TypeUrl::ALL.iter().flat_map(|ty| {
        let set = world.set(&view, *ty);
        let texts = set.iter().map(|r| {
            let shown = decode(ty.as_str(), r.shown()).to_string();
            let values = [VALUE, "W8r/fyL", "Ua.aHJ08K0"];
            assert!(!values.iter().any(|value| shown.contains(value)), "{shown}");
            decode(ty.as_str(), &r.body).to_string()
        });
        texts.collect::<Vec<_>>()
    });
    texts.collect()
}

fn findings(world: &World, proxy: &Arc<Node>) -> Vec<String> {
    let query: FindingsOfView = world.view(proxy).findings();
    let found = world.get(&query);
    let ours = found.iter().filter(|d| d.code == "PIL0116");
    let object = |d: &model::Diagnostic| d.object.as_ref().unwrap().to_string();
    ours.map(|d| format!("{} {}", object(d), d.path)).collect()
}

#[test]
fn a_mesh_rule_gives_its_value_to_sidecars_of_its_namespace_only() {
    let world = world(templates(), OBJECTS);
    let text = sent(&world, &proxy("sidecar", "bank", true));
    assert!(text.contains("Bearer BANK-TOP-SECRET-42") && !text.contains(CLOSED));
    assert!(findings(&world, &proxy("sidecar", "bank", true)).is_empty());
    for (namespace, proven) in [("evil", true), ("istio-system", true), ("bank", false)] {
        let other = proxy("sidecar", namespace, proven);
        let text = sent(&world, &other);
        assert!(!text.contains(VALUE) && text.contains(CLOSED), "{text}");
        assert_eq!(
            findings(&world, &other),
            ["VirtualService bank/maps spec.http[0].headers.request.set.authorization"],
            "{namespace}"
        );
    }
}

#[test]
fn a_gateway_rule_gives_its_value_to_gateways_of_the_named_gateways_namespace() {
    let world = world(templates(), OBJECTS);
    let text = sent(&world, &proxy("router", "edge", true));
    assert!(text.contains(VALUE) && !text.contains(CLOSED), "{text}");
    // A router of another namespace with the same labels, one that has proven nothing, and a sidecar of the namespace.
    for (role, namespace, proven) in [
        ("router", "evil", true),
        ("router", "edge", false),
        ("sidecar", "edge", true),
    ] {
        let other = proxy(role, namespace, proven);
        let text = sent(&world, &other);
        assert!(!text.contains(VALUE), "{text}");
        if role == "router" {
            // The route that needs the value is closed, and the one beside it is not.
            assert_eq!(text.matches(CLOSED).count(), 1, "{text}");
            let (_, closed) = text.split_once(CLOSED).unwrap();
            assert!(closed[..100].contains(r#""prefix":"/core""#), "{closed}");
            assert_eq!(
                findings(&world, &other),
                ["VirtualService bank/core spec.http[0].headers.request.set.x-core-token"]
            );
        }
    }
}

#[test]
fn proxies_of_one_namespace_share_what_is_filled() {
    let world = world(templates(), OBJECTS);
    let routes = |name: &str, namespace: &str| {
        let view = world.view(&node(&json!({
            "id": format!("sidecar~10.9.1.1~{name}.{namespace}~{namespace}.svc.cluster.local"),
            "metadata": {"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes"},
            "token": format!("sa:{namespace}:{name}"),
        })));
        world.set(&view, TypeUrl::Route).get("80").unwrap().clone()
    };
    assert!(Arc::ptr_eq(&routes("a", "bank"), &routes("b", "bank")));
}

/// An Ingress that asks for a password, beside one that does not.
const INGRESSES: &str = r#"
{apiVersion: v1, kind: Secret, metadata: {name: users, namespace: bank}, stringData: {auth: "reader:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac="}}
---
{apiVersion: v1, kind: Secret, metadata: {name: apr, namespace: bank}, stringData: {auth: "ben:$apr1$saltsalt$Ua.aHJ08K0O47l6WPgqHn0"}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: bank}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: closed
  namespace: bank
  annotations: {nginx.ingress.kubernetes.io/auth-type: basic, nginx.ingress.kubernetes.io/auth-secret: users}
spec: {ingressClassName: nginx, rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: scripted
  namespace: bank
  annotations: {nginx.ingress.kubernetes.io/auth-type: basic, nginx.ingress.kubernetes.io/auth-secret: apr}
spec: {ingressClassName: nginx, rules: [{host: b.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: open, namespace: bank}
spec: {ingressClassName: nginx, rules: [{host: c.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
"#;

fn edge() -> World {
    // Templates are off: hashes do not depend on them.
    let features = Features {
        edge_classes: "nginx".into(),
        edge_namespace: "edge".into(),
        edge_selector: "istio=ingressgateway".into(),
        ..Features::default()
    };
    world(features, INGRESSES)
}

fn has_hashes(text: &str) -> [bool; 2] {
    [text.contains("W8r/fyL"), text.contains("Ua.aHJ08K0")]
}

#[test]
fn hashes_of_passwords_are_for_proven_gateways_of_the_edge() {
    let world = edge();
    let text = sent(&world, &proxy("router", "edge", true));
    assert_eq!(has_hashes(&text), [true, true], "{text}");
    assert!(text.contains(r#""inline_string":"reader:{SHA}"#), "{text}");
    let open = text.matches(CLOSED).count();
    // Without credentials from an invented namespace, the same over TLS with those of another namespace, and without any
    // from the right one.
    for (namespace, proven) in [("nowhere", false), ("evil", true), ("edge", false)] {
        let other = proxy("router", namespace, proven);
        let text = sent(&world, &other);
        assert_eq!(has_hashes(&text), [false, false], "{text}");
        assert!(!text.contains("reader") && !text.contains("ben:"), "{text}");
        assert!(text.matches(CLOSED).count() > open, "{text}");
        let found = findings(&world, &other);
        assert_eq!(
            found,
            [
                "Ingress bank/closed metadata.annotations[\"nginx.ingress.kubernetes.io/auth-secret\"]",
                "Ingress bank/scripted metadata.annotations[\"nginx.ingress.kubernetes.io/auth-secret\"]",
            ]
        );
    }
}

#[test]
fn no_object_has_keys_of_the_control_plane() {
    let mut objects = String::new();
    for (name, key) in [
        ("istio-ca-secret", "ca-key.pem"),
        ("cacerts", "ca-key.pem"),
        ("remote", "west"),
        ("other", "key"),
    ] {
        let labels = match name {
            "remote" => r#"{"istio/multiCluster": "true"}"#,
            _ => "{}",
        };
        objects += &format!(
            "---\n{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, namespace: istio-system, labels: {labels}}}, stringData: {{{key}: KEY-OF-{name}}}}}\n"
        );
        for namespace in ["istio-system", "edge", "bank"] {
            objects += &format!(
                "---\n{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{hosts: \
                 [{name}.{namespace}.example.com], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}}}\n\
                 ---\n{{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{hosts: \
                 [{name}.{namespace}.example.com], http: [{{headers: {{request: {{set: {{x-key: \"${{secret.istio-system/{name}.{key}}}\"}}}}}}, \
                 route: [{{destination: {{host: {name}.{namespace}.example.com}}}}]}}]}}}}\n"
            );
        }
    }
    let features = Features {
        edge_namespace: "edge".into(),
        ..templates()
    };
    let world = world(features, &objects);
    for namespace in ["istio-system", "edge", "bank"] {
        let text = sent(&world, &proxy("sidecar", namespace, true));
        for name in ["istio-ca-secret", "cacerts", "remote"] {
            assert!(
                !text.contains(&format!("KEY-OF-{name}")),
                "{namespace} {text}"
            );
        }
        // Others are for objects of the root namespace and of the edge.
        assert_eq!(
            text.contains("KEY-OF-other"),
            namespace != "bank",
            "{namespace}"
        );
    }
}

#[test]
fn a_missing_value_is_another_text_for_each_asker_and_audience() {
    let filter = |namespace: &str, name: &str| {
        format!(
            "---\n{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{hosts: \
             [{name}.{namespace}.example.com], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}}}\n\
             ---\n{{apiVersion: networking.istio.io/v1alpha3, kind: EnvoyFilter, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{configPatches: \
             [{{applyTo: CLUSTER, match: {{cluster: {{service: {name}.{namespace}.example.com}}}}, patch: {{operation: MERGE, value: \
             {{alt_stat_name: \"${{secret.absent.k}}\"}}}}}}]}}}}\n"
        )
    };
    // Those of the root namespace are for all proxies.
    let objects = filter("istio-system", "a") + &filter("istio-system", "b") + &filter("bank", "c");
    let world = world(templates(), &objects);
    let texts = |proxy: &Arc<Node>| -> Vec<String> {
        let view = world.view(proxy);
        let set = world.set(&view, TypeUrl::Cluster);
        let bodies = set
            .iter()
            .map(|r| decode(TypeUrl::Cluster.as_str(), &r.body));
        let text = |body: Value| body["alt_stat_name"].as_str().map(str::to_owned);
        bodies
            .filter_map(text)
            .filter(|t| t.contains("no-value"))
            .collect()
    };
    let mut all: Vec<String> = texts(&proxy("sidecar", "bank", true));
    assert_eq!(all.len(), 3, "{all:?}");
    all.extend(texts(&proxy("sidecar", "evil", true)));
    all.extend(texts(&proxy("sidecar", "bank", false)));
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "{all:?}");
    assert_eq!(count, 8);
}
