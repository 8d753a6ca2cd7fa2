//! Ingresses of remote clusters, which are read and served where annotations or flags say so.

use serde_json::json;

use crate::remotes::rig::{Cluster, Rig, annotated, secret};

async fn ingress(cluster: &Cluster, name: &str) {
    let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
    let spec = json!({"ingressClassName": "nginx", "defaultBackend": backend});
    cluster
        .put("networking.k8s.io/v1", "Ingress", name, spec)
        .await;
}

#[tokio::test]
async fn ingresses_are_read_while_the_secret_names_a_class() {
    let east = Cluster::start().await;
    ingress(&east, "one").await;
    east.service("a", &["10.1.0.1"]).await;
    let rig = Rig::start(&[]).await;
    let plain = secret("s", &[("east", &east.kubeconfig("one"))]);
    rig.put(&plain).await;
    rig.ready().await;
    rig.until("a in east", |s| s.has("east", "a")).await;
    let none = (0, String::new());
    assert_eq!(
        crate::remotes::rig::Seen(rig.snapshot().await).ingresses(),
        none
    );

    let with = |annotations: &[(&str, &str)]| annotated(&plain, annotations);
    rig.put(&with(&[("class", "nginx")])).await;
    rig.until("one is read", |s| s.ingresses() == (1, "nginx".into()))
        .await;
    rig.rotated(1).await;
    // Another class is no other source.
    rig.put(&with(&[("class", "other,nginx"), ("status", "false")]))
        .await;
    let wanted = (1, "other,nginx".to_owned());
    rig.until("another class", |s| s.ingresses() == wanted)
        .await;
    rig.rotated(1).await;
    ingress(&east, "two").await;
    rig.until("two is read", |s| s.ingresses().0 == 2).await;

    // What is wrong is told, and nothing is served by it.
    rig.put(&with(&[("class", " ")])).await;
    rig.until("none is read", |s| s.ingresses() == none).await;
    let found = rig.found("names no class").await;
    assert!(
        found.contains("metadata.annotations[\"pilothouse.io/ingress-class\"]")
            && found.contains("Secret istio-system/s"),
        "{found}"
    );
    rig.rotated(2).await;
    assert!(crate::remotes::rig::Seen(rig.snapshot().await).has("east", "a"));

    rig.put(&with(&[("class", "nginx")])).await;
    rig.until("both are read", |s| s.ingresses().0 == 2).await;
    rig.found("").await;
    rig.delete("s").await;
    rig.until("nothing in east", |s| {
        !s.has_any("east") && s.ingresses() == none
    })
    .await;
}

#[tokio::test]
async fn flags_go_before_annotations() {
    let east = Cluster::start().await;
    ingress(&east, "one").await;
    let flags = [
        "--remote-ingress-class=east=flagged",
        "--remote-ingress-status=east=false",
    ];
    let rig = Rig::start(&flags).await;
    let plain = secret("s", &[("east", &east.kubeconfig("one"))]);
    rig.put(&annotated(
        &plain,
        &[("class", "nginx"), ("namespaces", "shop")],
    ))
    .await;
    rig.ready().await;
    let snapshot = rig.snapshot().await;
    let said = &snapshot.remote_ingresses["east"];
    assert_eq!(said.classes, "flagged".into());
    assert_eq!(said.namespaces, "shop".into());
    assert!(!said.writes_status);
    let (read, _) = crate::remotes::rig::Seen(snapshot).ingresses();
    assert_eq!(read, 1);
}
