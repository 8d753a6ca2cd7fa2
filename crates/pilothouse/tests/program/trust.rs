//! The roots of the mesh in the objects of an API, from outside. The API is our own, over its embedded store.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Api, found, until};

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// The root in a namespace, once there is one.
fn root(api: &Api, namespace: &str) -> String {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/istio-ca-root-cert");
    found("there is a root", || {
        let map = api.get(&path);
        let root = map["data"]["root-cert.pem"].as_str()?.to_owned();
        root.starts_with("-----BEGIN CERTIFICATE-----")
            .then_some(root)
    })
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn webhooks(kind: &str, name: &str, revision: &str, webhook: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name, "labels": {"istio.io/rev": revision}},
        "webhooks": [{
            "name": webhook,
            "clientConfig": {"service": {"namespace": "istio-system", "name": "pilothouse"}},
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            // A kind that nothing here writes.
            "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["nothings"]}],
        }],
    })
}

#[test]
fn roots_come_into_namespaces_and_webhooks_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::start(&dir.path().join("data"), &[]);
    for name in ["shop", "kube-node-lease"] {
        api.create("/api/v1/namespaces", &namespace(name));
    }
    let first_root = root(&api, "shop");
    let path = "/api/v1/namespaces/shop/configmaps/istio-ca-root-cert";
    let mut map = api.get(path);
    assert_eq!(
        map["metadata"]["labels"],
        json!({"istio.io/config": "true"})
    );

    // Others may add to it, and take the root away for a moment.
    map["data"] = json!({"root-cert.pem": "another", "theirs": "x"});
    assert_eq!(api.ask("PUT", path, &map)["data"], map["data"]);
    assert_eq!(root(&api, "shop"), first_root);
    let map = api.get(path);
    assert_eq!(map["data"]["theirs"], "x");

    let injector = "rev.namespace.sidecar-injector.istio.io";
    let mutating = format!("{WEBHOOKS}/mutatingwebhookconfigurations");
    for (name, revision) in [("ours", "default"), ("of-another", "v2")] {
        api.create(&mutating, &webhooks("Mutating", name, revision, injector));
    }
    let validating = format!("{WEBHOOKS}/validatingwebhookconfigurations");
    let ours = webhooks("Validating", "ours", "default", "validation.istio.io");
    api.create(&validating, &ours);
    let bundle = STANDARD.encode(&first_root);
    let first = |path: &str, name: &str| {
        let found = api.get(&format!("{path}/{name}"));
        found["webhooks"][0].clone()
    };
    for path in [&mutating, &validating] {
        until("the webhook has the root", || {
            first(path, "ours")["clientConfig"]["caBundle"] == bundle.as_str()
        });
    }
    assert_ne!(
        first(&mutating, "of-another")["clientConfig"]["caBundle"],
        bundle.as_str()
    );
    // No webhook has refused anything.
    assert_eq!(first(&validating, "ours")["failurePolicy"], "Ignore");
    let ignored = "/api/v1/namespaces/kube-node-lease/configmaps/istio-ca-root-cert";
    assert_eq!(api.get(ignored)["kind"], "Status");
}
