//! Ingresses that protect something and cannot be used: their paths are closed, and not open to rules of others.

use std::sync::Arc;

use model::parse::Validation;
use model::{Change, Owner};
use pilothouse_convert::load;
use serde_json::Value;

use crate::edge::world::served;

const OTHERS: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: open, namespace: shop, creationTimestamp: 2026-01-01T00:00:00Z}
spec:
  ingressClassName: nginx
  rules: [{host: club.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
";

/// What is closed: the path, all of the host, or nothing.
const CASES: &[(&str, &str, &str)] = &[
    // An unknown field.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, backnd: {}}]}}]}",
        "/admin",
    ),
    // Annotations that stand twice, the last ones without protection.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}, annotations: {}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    // Annotations of a wrong type.
    (
        "metadata: {name: guard, namespace: shop, annotations: [AUTH]}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    // Rules that stand twice.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}], rules: []}",
        "/admin",
    ),
    // A path that cannot be read may be any.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: [/admin], pathType: Prefix, BACKEND}]}}]}",
        "/",
    ),
    // One rule, or one path, in the place of a list; a host in a list; a path without its slash.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: {host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}}",
        "/admin",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: {one: {host: [club.test], http: {paths: {path: admin, pathType: Prefix, BACKEND}}}}}",
        "/admin",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: Club.Test, http: [{path: /admin, pathType: prefix, BACKEND}]}]}",
        "/admin",
    ),
    // Paths of which one cannot be read may be any.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: 'https://club.test/admin', pathType: Prefix, backnd: {}}]}}]}",
        "/",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: 3}}]}",
        "/",
    ),
    // A host that cannot be read may be any of the namespace's, and none of another's.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: {club: test}, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: 3}",
        "/",
    ),
    (
        "metadata: {name: guard, namespace: other, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: 3}",
        "",
    ),
    // No YAML.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [}}]}",
        "/",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [",
        "/",
    ),
    (
        "metadata: {name: guard, namespace: shop}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [}}]}",
        "",
    ),
    (
        "metadata: {name: guard, namespace: other, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [}}]}",
        "",
    ),
    // A misspelt name of an annotation, in an Ingress that is valid.
    (
        "metadata: {name: guard, namespace: shop, annotations: {nginx.ingress.kubernetes.io/whitelist-source-ranges: 10.0.0.0/8}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {nginx.ingress.kubernetes.io/auht-url: 'http://auth.shop'}}",
        "spec: {ingressClassName: nginx, more: 1, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    // Unknown fields, of which each may have said what is protected.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{hosst: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, htpp: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [{hostname: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/",
    ),
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH}}",
        "spec: {ingressClassName: nginx, rules: [], rulez: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    (
        "metadata: {name: guard, namespace: shop}",
        "spec: {ingressClassName: nginx, annotations: {AUTH}, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    (
        "metadata: {name: guard, namespace: shop}\nannotations: {AUTH}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "/admin",
    ),
    // A value of another annotation that looks like a canary.
    (
        "metadata: {name: guard, namespace: shop, annotations: {AUTH, app.kubernetes.io/canary: 'true'}}",
        "spec: {ingressClassName: nginx, rules: [{host: club.test, http: {paths: [{path: /canary, pathType: Prefix, BACKEND}}]}",
        "/",
    ),
    // Nothing protects.
    (
        "metadata: {name: guard, namespace: shop}",
        "spec: {ingressClassName: nginx, more: 1, rules: [{host: club.test, http: {paths: [{path: /admin, pathType: Prefix, BACKEND}]}}]}",
        "",
    ),
];

/// The paths of a host that are closed, as they are asked for.
fn closed(text: &str, mode: Validation) -> Vec<String> {
    let file: Arc<std::path::Path> = std::path::Path::new("in.yaml").into();
    let parsed = validate::parse(text, &file, mode);
    let owner = Owner::new(0, "test");
    let objects = parsed.in_force().cloned();
    let loaded = load(
        Arc::new(served()),
        objects.map(|object| Change::Put(owner.clone(), object)),
    );
    let snapshot = loaded.store.snapshot();
    let services = snapshot.tables.iter_any(model::Kind::VirtualService);
    let mut closed = Vec::new();
    for service in services {
        let spec = service.spec_json();
        for route in spec["http"].as_array().into_iter().flatten() {
            let uri = &route["match"][0]["uri"];
            if route["directResponse"]["status"] == 503 {
                let path = uri.as_object().and_then(|uri| uri.values().next());
                closed.extend(path.and_then(Value::as_str).map(str::to_owned));
            }
        }
    }
    closed
}

#[test]
fn an_ingress_that_protects_and_cannot_be_used_closes_its_paths() {
    for mode in [Validation::Strict, Validation::Warn] {
        for (metadata, spec, wanted) in CASES {
            let auth = "'nginx.ingress.kubernetes.io/whitelist-source-range': 10.0.0.0/8";
            let backend = "backend: {service: {name: web, port: {number: 80}}}";
            let text = format!("{OTHERS}{metadata}\n{spec}\n");
            let text = text.replace("AUTH", auth).replace("BACKEND", backend);
            let found = closed(&text, mode);
            let wanted: &[&str] = if wanted.is_empty() { &[] } else { &[*wanted] };
            assert_eq!(found, wanted, "{metadata} {spec}, {mode:?}");
        }
    }
}
