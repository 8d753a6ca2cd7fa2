//! Remote clusters that come, change, break and go, against APIs of our own and servers that are none.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod attacks;
mod ingresses;
mod rig;

use std::time::{Duration, Instant};

use rig::{Cluster, Rig, secret};

#[tokio::test]
async fn a_cluster_is_added_follows_its_api_and_goes_with_its_secret() {
    let east = Cluster::start().await;
    east.service("a", &["10.1.0.1"]).await;
    let rig = Rig::start(&[]).await;
    rig.put(&secret("s1", &[("east", &east.kubeconfig("one"))]))
        .await;
    rig.until("a in east", |s| s.has("east", "a")).await;
    assert_eq!(rig.clusters().await, ["Kubernetes synced", "east synced"]);
    assert_eq!(rig.page().await[1]["secretName"], "istio-system/s1");

    east.service("b", &["10.1.0.2"]).await;
    rig.until("b in east", |s| s.has("east", "b")).await;
    // Nothing of it counts as the configured cluster's, and no configuration is taken.
    east.put(
        "networking.istio.io/v1",
        "VirtualService",
        "v",
        serde_json::json!({"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}}]}]}),
    )
    .await;
    east.service("c", &["10.1.0.3"]).await;
    rig.until("c in east", |s| s.has("east", "c")).await;
    let snapshot = rig.snapshot().await;
    assert_eq!(snapshot.tables.virtual_services.len(), 0);
    assert!(!rig::Seen(snapshot).has("", "a"));

    let gone = Instant::now();
    rig.delete("s1").await;
    rig.until("nothing in east", |s| !s.has_any("east")).await;
    assert!(
        gone.elapsed() < Duration::from_secs(1),
        "{:?}",
        gone.elapsed()
    );
    assert_eq!(rig.clusters().await.len(), 1);
    // And again, at once.
    rig.put(&secret("s1", &[("east", &east.kubeconfig("one"))]))
        .await;
    rig.until("a in east", |s| s.has("east", "a")).await;
}

#[tokio::test]
async fn credentials_rotate_and_no_proxy_sees_it() {
    let first = Cluster::start().await;
    let second = Cluster::start().await;
    for cluster in [&first, &second] {
        cluster.service("a", &["10.1.0.1", "10.1.0.2"]).await;
    }
    let rig = Rig::start(&[]).await;
    rig.put(&secret("s", &[("east", &first.kubeconfig("one"))]))
        .await;
    rig.until("a in east", |s| s.has("east", "a")).await;
    let proxy = rig.watch_endpoints().await;
    let endpoints = proxy.endpoints();
    assert_eq!(endpoints.matches("10.1.0.").count(), 2, "{endpoints}");
    let before = rig.published();

    // Tokens, then the URL: the second API is the same cluster behind another address.
    for round in 0..5 {
        let kubeconfig = first.kubeconfig(&format!("token-{round}"));
        rig.put(&secret("s", &[("east", &kubeconfig)])).await;
        rig.rotated(round + 1).await;
    }
    rig.put(&secret("s", &[("east", &second.kubeconfig("two"))]))
        .await;
    rig.rotated(6).await;
    first.stop();
    second.service("b", &["10.1.0.9"]).await;
    rig.until("b in east", |s| s.has("east", "b")).await;
    assert!(proxy.endpoints().contains("10.1.0.9"));
    assert_eq!(rig.published(), before + 1, "b, and nothing else");
}

#[tokio::test]
async fn bad_credentials_leave_everything_as_it_is_and_are_told() {
    let east = Cluster::start().await;
    east.service("a", &["10.1.0.1"]).await;
    let rig = Rig::start(&[]).await;
    let good = east.kubeconfig("one");
    rig.put(&secret("s", &[("east", &good)])).await;
    rig.until("a in east", |s| s.has("east", "a")).await;

    rig.put(&secret("s", &[("east", "garbage: [")])).await;
    let found = rig.found("no kubeconfig").await;
    assert!(
        found.contains("Secret istio-system/s") && found.contains("data[\"east\"]"),
        "{found}"
    );
    assert!(found.contains("read as before"), "{found}");
    let closed = good.replace(&east.address(), "127.0.0.1:1");
    rig.put(&secret("s", &[("east", &closed)])).await;
    let found = rig.found("the new credentials do not work").await;
    assert!(found.contains("the former ones stay in use"), "{found}");
    // The former ones are still at work.
    east.service("b", &["10.1.0.2"]).await;
    rig.until("b in east", |s| s.has("east", "b")).await;
    rig.put(&secret("s", &[("east", &good.replace("one", "two"))]))
        .await;
    rig.found("").await;
    rig.rotated(1).await;
}

#[tokio::test]
async fn a_cluster_that_goes_away_keeps_its_last_state_and_comes_back() {
    let east = Cluster::start().await;
    east.service("a", &["10.1.0.1"]).await;
    let rig = Rig::start(&[]).await;
    rig.put(&secret("s", &[("east", &east.kubeconfig("one"))]))
        .await;
    rig.until("a in east", |s| s.has("east", "a")).await;
    let east = east.restart(Duration::from_millis(700)).await;
    assert!(rig::Seen(rig.snapshot().await).has("east", "a"));
    east.service("b", &["10.1.0.2"]).await;
    rig.until("b in east", |s| s.has("east", "b")).await;
}

#[tokio::test]
async fn the_first_secret_by_name_has_a_cluster_and_the_next_takes_over() {
    let (one, two) = (Cluster::start().await, Cluster::start().await);
    one.service("a", &["10.1.0.1"]).await;
    two.service("b", &["10.1.0.2"]).await;
    let rig = Rig::start(&[]).await;
    rig.put(&secret(
        "s2",
        &[("east", &two.kubeconfig("x")), ("Kubernetes", "ignored")],
    ))
    .await;
    rig.until("b in east", |s| s.has("east", "b")).await;
    assert!(
        rig.found("is the cluster that configures the mesh")
            .await
            .contains("s2")
    );
    rig.put(&secret("s1", &[("east", &one.kubeconfig("x"))]))
        .await;
    rig.found("istio-system/s1 has cluster east as well").await;
    rig.until("a for b", |s| s.has("east", "a") && !s.has("east", "b"))
        .await;
    rig.delete("s1").await;
    rig.until("b for a", |s| s.has("east", "b") && !s.has("east", "a"))
        .await;
}

#[tokio::test]
async fn a_folder_of_kubeconfigs_does_the_same() {
    let east = Cluster::start().await;
    east.service("a", &["10.1.0.1"]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("east.yaml");
    let named = east.kubeconfig("x").replace("name: c,", "name: east,");
    std::fs::write(&path, named.replace("cluster: c,", "cluster: east,")).unwrap();
    let rig = Rig::start(&["--remote-kubeconfigs", folder.path().to_str().unwrap()]).await;
    rig.until("a in east", |s| s.has("east", "a")).await;
    std::fs::remove_file(&path).unwrap();
    rig.until("nothing in east", |s| !s.has_any("east")).await;
}
