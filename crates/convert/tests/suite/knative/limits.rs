//! An Ingress that makes too much is not served, and nobody else's routes change.

use serde_json::{Value, json};

use testkit::World;

use crate::knative::world::{served, shown, world};

fn ingress(name: &str, hosts: usize, paths: usize, text: usize) -> Value {
    let hosts: Vec<String> = (0..hosts).map(|n| format!("h{n}.{name}.test")).collect();
    let path = |n: usize| {
        json!({
            "path": format!("/{n}"), "appendHeaders": {"x-a": "a".repeat(text)},
            "splits": [{"serviceNamespace": "shop", "serviceName": "web", "servicePort": 80}],
        })
    };
    let paths: Vec<Value> = (0..paths).map(path).collect();
    json!({
        "apiVersion": "networking.internal.knative.dev/v1alpha1", "kind": "Ingress",
        "metadata": {
            "name": name, "namespace": "shop",
            "annotations": {"networking.knative.dev/ingress.class": "higress"},
        },
        "spec": {"rules": [{"hosts": hosts, "http": {"paths": paths}}]},
    })
}

#[test]
fn an_ingress_that_makes_too_much_is_left_out_alone() {
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}}";
    for large in [
        ingress("large", 2_000, 10, 0),
        ingress("large", 1, 100, 100_000),
    ] {
        let text = format!(
            "{}\n---\n{large}\n---\n{service}\n",
            ingress("good", 1, 1, 1)
        );
        assert_eq!(World::objects(&text).len(), 3);
        let shown = shown(&world(&text, served("")));
        assert_eq!(shown["objects"].as_object().unwrap().len(), 2, "{shown}");
        let findings = shown["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0]
                .as_str()
                .unwrap()
                .starts_with("PIL0704 error Ingress shop/large")
        );
        let ready = |name: &str| {
            let status = &shown["statuses"][format!("Ingress shop/{name}")];
            status["conditions"][2]["status"].clone()
        };
        assert_eq!(ready("good"), "True");
        assert_eq!(ready("large"), "False");
    }
}
