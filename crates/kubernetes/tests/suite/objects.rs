//! Which objects are ours, and what becomes of those that cannot be used.

use model::Kind;
use pilothouse_kubernetes::source::Options;
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::mirror::Mirror;

const ROUTES: &str = "/apis/networking.istio.io/v1/virtualservices";
const SERVICES: &str = "/api/v1/services";

fn route(host: Value, revision: Option<&str>) -> Value {
    let labels = revision.map_or(json!({}), |r| json!({"istio.io/rev": r}));
    json!({"kind": "VirtualService", "metadata": {"name": "r", "namespace": "ns", "labels": labels},
        "spec": {"hosts": [host], "http": [{"route": [{"destination": {"host": "a"}}]}]}})
}

fn has(mirror: &Mirror) -> bool {
    mirror.get(Kind::VirtualService, "ns", "r").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_cannot_be_used_leaves_its_last_good_version_in_force() {
    let fake = Fake::new();
    fake.serve(ROUTES);
    fake.put(ROUTES, route(json!("a.com"), None));
    let mut mirror = Mirror::of(fake.client(), Options::default());
    mirror.synced().await;
    assert!(has(&mirror));
    fake.put(ROUTES, route(json!({"not": "text"}), None));
    mirror.until("a finding", |m| !m.findings.is_empty()).await;
    let about = mirror.findings[0].object.as_ref().unwrap();
    assert_eq!(about.name.to_string(), "ns/r");
    // Also when everything is told anew.
    let told = mirror.told.len();
    fake.forget(ROUTES);
    let kind = model::Contents::Objects(Kind::VirtualService);
    let synced = |c: &model::Change| matches!(c, model::Change::Synced(c) if c.of == kind);
    mirror
        .until("all is told anew", |m| m.told[told..].iter().any(synced))
        .await;
    assert!(has(&mirror));
    fake.put(ROUTES, route(json!("b.com"), None));
    mirror
        .until("it is repaired", |m| m.findings.is_empty())
        .await;
    fake.delete(ROUTES, "r");
    mirror.until("it goes", |m| !has(m)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_moves_to_another_revision_goes() {
    let fake = Fake::new();
    fake.serve(ROUTES);
    fake.put(ROUTES, route(json!("a.com"), Some("canary")));
    let options = Options {
        revision: "stable".into(),
        ..Options::default()
    };
    let mut mirror = Mirror::of(fake.client(), options);
    mirror.synced().await;
    assert!(!has(&mirror));
    for (revision, ours) in [
        (None, true),
        (Some("canary"), false),
        (Some("stable"), true),
    ] {
        fake.put(ROUTES, route(json!("a.com"), revision));
        mirror.until("it moves", |m| has(m) == ours).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_read_each_by_itself() {
    let fake = Fake::new();
    let path = |namespace: &str| format!("/api/v1/namespaces/{namespace}/services");
    let service = |namespace: &str, name: &str| {
        json!({"kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": [{"port": 80}]}})
    };
    for namespace in ["one", "two", "three"] {
        fake.serve(&path(namespace));
        fake.put(&path(namespace), service(namespace, "a"));
    }
    fake.put(SERVICES, service("three", "b"));
    let options = Options {
        namespaces: ["one".into(), "two".into()].into(),
        ..Options::default()
    };
    let mut mirror = Mirror::of(fake.client(), options);
    mirror.synced().await;
    let of = |m: &Mirror, namespace: &str| m.get(Kind::Service, namespace, "a").is_some();
    assert!(of(&mirror, "one") && of(&mirror, "two") && !of(&mirror, "three"));
    assert!(fake.asked(SERVICES).is_empty() && fake.asked(&path("three")).is_empty());
    // One is told anew, and what it lost meanwhile is gone; the other keeps what it has.
    fake.refuse(&path("one"), 500);
    fake.forget(&path("one"));
    fake.delete(&path("one"), "a");
    fake.refuse(&path("one"), 0);
    mirror.until("it is gone", |m| !of(m, "one")).await;
    assert!(of(&mirror, "two"));
}
