//! No text but a template in an object leads to a value of a Secret.
//!
//! Each text of another source holds what an attacker may try: the mark as it once was, and, which nobody outside of this
//! process can have, a mark that was sealed for an object of the root namespace, in plain and in escape sequences. They are
//! read as proxies that may have the value.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::Change;
use model::jwks::FetchedKeys;
use model::outside::Outside;
use model::settings::Features;
use model::template::{Asker, Gateways, marked};
use model::{Kind, ObjectName};
use serde_json::json;
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

const VALUE: &str = "BANK-TOP-SECRET-42";

const SECRET: &str = "
{apiVersion: v1, kind: Secret, metadata: {name: db, namespace: bank}, stringData: {password: BANK-TOP-SECRET-42}}
---
{apiVersion: v1, kind: Secret, metadata: {name: own, namespace: istio-system}, stringData: {k: OWN-VALUE}}
";

fn world(mesh: &str) -> World {
    let features = Features {
        secret_templates: "*".into(),
        edge_classes: "nginx,higress".into(),
        edge_namespace: "istio-system".into(),
        edge_selector: "istio=ingressgateway".into(),
        ..Features::default()
    };
    let mut world = World::new(model::settings::Settings {
        features: Arc::new(features),
        // As files with mesh config are read.
        ..settings(&Outside::new(mesh.to_owned()))
    });
    world.put(SECRET);
    world
}

/// What stands between two characters of marks, in each way that was or is honoured.
fn forged(character: &str) -> String {
    let asker = Asker {
        kind: Kind::VirtualService,
        name: ObjectName::new("istio-system", "rule"),
        path: "spec".into(),
        gateways: Gateways::Edge,
    };
    let (sealed, _) = marked("${secret.bank/db.password}", &asker).unwrap();
    let digits = sealed.trim_matches('\u{FDD0}');
    let old = format!("{character}istio-system{character}{{secret.bank/db.password}}");
    format!("{old} {character}{digits}{character}")
}

/// All that a proxy of the root namespace is sent.
fn sent(world: &World, role: &str, more: serde_json::Value) -> String {
    let mut described = json!({
        "id": format!("{role}~10.9.1.1~p-0.istio-system~istio-system.svc.cluster.local"),
        "metadata": {"NAMESPACE": "istio-system", "CLUSTER_ID": "Kubernetes", "LABELS": {"istio": "ingressgateway"}},
        "token": "sa:istio-system:p",
    });
    for (key, value) in more.as_object().unwrap() {
        match described[key].as_object_mut() {
            Some(fields) => fields.extend(value.as_object().unwrap().clone()),
            None => described[key] = value.clone(),
        }
    }
    let view = world.view(&node(&described));
    let texts = TypeUrl::ALL.iter().flat_map(|ty| {
        let set = world.set(&view, *ty);
        let texts = set.iter().map(|r| decode(ty.as_str(), &r.body).to_string());
        texts.collect::<Vec<_>>()
    });
    let text: String = texts.collect();
    assert!(!text.contains(VALUE), "{text}");
    assert!(!text.contains('\u{FDD0}'), "{text}");
    text
}

#[test]
fn what_a_proxy_says_of_itself_is_not_a_mark() {
    let mut world = world(
        "{enableTracing: true, extensionProviders: [{name: z, zipkin: {service: z.example.com, port: 80}}], defaultProviders: {tracing: [z]}}",
    );
    world.put(
        "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: z, namespace: istio-system}, spec: {hosts: [z.example.com], \
         ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}}",
    );
    for character in ["\u{FDD0}", "\\ufdd0"] {
        let text = forged(character);
        for role in ["sidecar", "router"] {
            let said = sent(
                &world,
                role,
                json!({
                    "cluster": text,
                    "metadata": {
                        "MESH_ID": text,
                        "CLUSTER_ID": text,
                        "NETWORK": text,
                        "LABELS": {"istio": "ingressgateway", "app": text, "service.istio.io/canonical-name": text},
                        "PROXY_CONFIG": {"tracing": {"customTags": {"t": {"literal": {"value": text}}}}},
                        "OWNER": text,
                    },
                    "locality": {"region": text, "zone": text},
                }),
            );
            // The text arrives, cleaned.
            let arrives = said.contains("secret.bank/db.password");
            assert!(arrives || role == "router", "{said}");
        }
    }
}

#[test]
fn mesh_config_is_not_a_source_of_marks() {
    for character in ["\u{FDD0}", "\\ufdd0", "\\U0000fdd0"] {
        let format = forged(character);
        let world = world(&format!(
            "{{accessLogFile: /dev/stdout, accessLogFormat: \"{format}\"}}"
        ));
        let said = sent(&world, "sidecar", json!({}));
        assert!(said.contains("secret.bank/db.password"), "{said}");
    }
}

#[test]
fn json_in_a_text_of_an_object_makes_no_marks() {
    let escape = forged("\\ufdd0");
    let once = json!({"mine": "MINE", "stolen": "STOLEN"}).to_string();
    let nested = json!({"in": once}).to_string();
    let deep = json!([{"in": nested}]).to_string();
    for (text, escape) in [
        (once, escape.clone()),
        (nested, escape.replace('\\', "\\\\")),
        (deep, escape.replace('\\', "\\\\\\\\")),
        // An escape sequence that the text only has once it has been read.
        (
            json!({"in": r#"{"a":"MINE","b":"STOLEN"}"#}).to_string(),
            forged("\\\\\\u0075fdd0"),
        ),
    ] {
        let text = text
            .replace("MINE", "${secret.own.k}")
            .replace("STOLEN", &escape);
        let mut world = world("");
        world.put(&format!(
            "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: a, namespace: istio-system}}
spec: {{hosts: [a.example.com], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: a, namespace: istio-system}}
spec:
  hosts: [a.example.com]
  http: [{{directResponse: {{status: 200, body: {{string: {}}}}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: istio-system}}
spec: {{clusterIP: 10.0.0.9, ports: [{{name: http, port: 80}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: a
  namespace: istio-system
  annotations: {{higress.io/request-header-control-update: {}}}
spec: {{ingressClassName: higress, rules: [{{host: b.example.com, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}}}]}}
",
            json!(text),
            json!(format!("x-loot {text}")),
        ));
        let said = sent(&world, "sidecar", json!({}));
        assert!(said.contains("OWN-VALUE"), "{said}");
        sent(&world, "router", json!({}));
    }
}

#[test]
fn fetched_keys_are_not_a_source_of_marks() {
    for character in ["\u{FDD0}", "\\ufdd0"] {
        let mut world = world("");
        world.put(
            "
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: jwt, namespace: istio-system}
spec: {jwtRules: [{issuer: a, jwksUri: \"https://keys.example.com\"}]}
",
        );
        let sources: Vec<_> = world
            .get(&policy::jwt::WantedKeys)
            .keys()
            .cloned()
            .collect();
        assert_eq!(sources.len(), 1);
        let text = format!(
            "{{\"keys\":[{{\"kty\":\"RSA\",\"kid\":\"{}\"}}]}}",
            forged(character)
        );
        for source in sources {
            let fetched = FetchedKeys {
                keys: Some(Outside::new(text.as_str().into())),
                trouble: None,
            };
            world.apply([Change::Keys(source, Some(Arc::new(fetched)))]);
        }
        let said = sent(&world, "sidecar", json!({}));
        assert!(said.contains("secret.bank/db.password"), "{said}");
    }
}

#[test]
fn raw_texts_of_objects_hold_no_marks_but_those_of_their_templates() {
    for character in ["\u{FDD0}", "\\ufdd0"] {
        let text = forged(character);
        let mut world = world("");
        world.put(&format!(
            "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: a, namespace: istio-system, labels: {{app: a}}}}
spec:
  hosts: [a.example.com]
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  resolution: STATIC
  endpoints: [{{address: 10.1.1.1, labels: {{version: {0}}}, locality: {0}, network: {0}}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: a, namespace: istio-system}}
spec:
  hosts: [a.example.com]
  http: [{{headers: {{request: {{set: {{x-a: {0}}}}}}}, route: [{{destination: {{host: a.example.com}}}}]}}]
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {{name: a, namespace: istio-system}}
spec:
  configPatches:
  - applyTo: CLUSTER
    match: {{cluster: {{service: a.example.com}}}}
    patch: {{operation: MERGE, value: {{alt_stat_name: {0}}}}}
",
            json!(text)
        ));
        let said = sent(&world, "sidecar", json!({}));
        assert!(said.contains("secret.bank/db.password"), "{said}");
    }
}
