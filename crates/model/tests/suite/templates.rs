//! Templates of Secrets, marked where their object is read.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use pilothouse_model::parse::{Validation, parse};
use pilothouse_model::template::{Gateways, filled, written};
use pilothouse_model::{Namespace, ObjectName};

#[test]
fn templates_are_marked_where_their_object_is_read() {
    let text = r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: a
  namespace: shop
  labels: {x: "${secret.db.no}"}
  annotations: {higress.io/request-header-control-add: "x ${secret.db.key}"}
spec:
  rules: [{host: "a\uFDD0b"}]
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: shop}
stringData: {a: "${secret.db.key}"}
"#;
    let parsed = parse(text, &Path::new("test.yaml").into(), Validation::Tell);
    let objects: Vec<_> = parsed.objects().collect();
    let told: Vec<String> = objects[0]
        .meta()
        .templates
        .iter()
        .flat_map(|t| t.iter())
        .map(|t| format!("{} {} {}", t.path, t.secret.secret, t.secret.key))
        .collect();
    let path = r#"metadata.annotations["higress.io/request-header-control-add"]"#;
    assert_eq!(told, [format!("{path} shop/db key")]);
    let annotations = objects[0].meta().annotations.iter();
    let annotations: Vec<String> = annotations.map(|(_, v)| v.to_string()).collect();
    let [annotation] = &annotations[..] else {
        panic!("{annotations:?}")
    };
    assert_eq!(written(annotation), "x ${secret.db.key}");
    filled(annotation, |mark| {
        assert_eq!(mark.asker.name, ObjectName::new("shop", "a"));
        assert_eq!(mark.asker.gateways, Gateways::Edge);
        assert_eq!(&*mark.asker.path, path);
        String::new()
    });
    assert!(objects[0].spec_json().to_string().contains("a\u{FFFD}b"));
    assert_eq!(objects[1].meta().templates, None);
}

#[test]
fn a_mark_says_which_gateways_its_object_names() {
    for (object, expected) in [
        (
            "apiVersion: networking.istio.io/v1\nkind: VirtualService\nspec: {gateways: [mesh, edge/web, ./own, in.ops]}",
            Gateways::Of(["shop", "edge", "shop", "ops"].map(Namespace::from).into()),
        ),
        (
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nspec: {parentRefs: [{name: web, namespace: edge}, {name: own}, {kind: Service, name: s, namespace: ops}]}",
            Gateways::Of(["edge", "shop"].map(Namespace::from).into()),
        ),
        (
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nspec: {host: a.b}",
            Gateways::none(),
        ),
    ] {
        let meta = "metadata: {name: o, namespace: shop, annotations: {a: \"${secret.a.b}\"}}";
        let text = format!("{meta}\n{object}");
        let parsed = parse(&text, &Path::new("test.yaml").into(), Validation::Warn);
        let object = parsed.objects().next().unwrap();
        let mut named = Vec::new();
        filled(object.meta().annotations.get("a").unwrap(), |mark| {
            named.push(mark.asker.gateways.clone());
            String::new()
        });
        assert_eq!(named, [expected], "{text}");
    }
}
