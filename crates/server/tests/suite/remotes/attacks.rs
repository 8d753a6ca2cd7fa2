//! Kubeconfigs and API servers that mean harm.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::rig::{Cluster, Rig, kubeconfig, secret};

/// How a server that is none answers.
#[derive(Clone, Copy)]
enum Answer {
    Nothing,
    Rubbish,
    /// JSON that never ends.
    Endless,
}

/// A listener that answers badly, and its address.
async fn bad_server(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while stream.read(&mut request).await.is_ok_and(|n| n > 0) {
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
                    let sent = match answer {
                        Answer::Nothing => continue,
                        Answer::Rubbish => {
                            stream.write_all(b"\x00\xff<html>no</html>\r\n\r\n").await
                        }
                        Answer::Endless => {
                            let head = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
                            let mut sent = stream.write_all(head.as_bytes()).await;
                            let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
                            while sent.is_ok() {
                                sent = stream.write_all(chunk.as_bytes()).await;
                            }
                            sent
                        }
                    };
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn clusters_that_hang_lie_or_flood_delay_nothing_else() {
    let good = Cluster::start().await;
    good.service("a", &["10.1.0.1"]).await;
    let rig = Rig::start(&["--remote-cluster-timeout", "6s"]).await;
    let mut data = Vec::new();
    for (id, answer) in [
        ("hangs", Answer::Nothing),
        ("lies", Answer::Rubbish),
        ("floods", Answer::Endless),
    ] {
        data.push((id, kubeconfig(&bad_server(answer).await, "x")));
    }
    data.push(("closed", kubeconfig("127.0.0.1:1", "x")));
    data.push(("good", good.kubeconfig("x")));
    let data: Vec<(&str, &str)> = data.iter().map(|(id, text)| (*id, text.as_str())).collect();
    let start = Instant::now();
    rig.put(&secret("s", &data)).await;
    rig.until("a in good", |s| s.has("good", "a")).await;
    assert!(
        start.elapsed() < Duration::from_secs(6),
        "{:?}",
        start.elapsed()
    );
    // The start waits for the others as long as it is told, and no longer.
    rig.ready().await;
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_millis(5900) && waited < Duration::from_secs(30),
        "{waited:?}"
    );
    let late: Vec<_> = rig
        .clusters()
        .await
        .into_iter()
        .filter(|c| c.ends_with(" timeout"))
        .collect();
    assert_eq!(late.len(), 4, "{late:?}");
    for wanted in [
        "remote_cluster_sync_timeouts_total{cluster=\"hangs\"} 1",
        "istiod_managed_clusters{cluster_type=\"remote\"} 5",
        "istiod_remote_cluster_sync_status{cluster=\"lies\",cluster_type=\"remote\",status=\"timeout\"} 1",
    ] {
        rig.until_metric(wanted).await;
    }
    // All of them go at once.
    let start = Instant::now();
    rig.delete("s").await;
    rig.until("nothing in good", |s| !s.has_any("good")).await;
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn new_credentials_for_a_server_that_hangs_change_nothing() {
    let east = Cluster::start().await;
    east.service("a", &["10.1.0.1"]).await;
    let rig = Rig::start(&[]).await;
    rig.put(&secret("s", &[("east", &east.kubeconfig("x"))]))
        .await;
    rig.until("a in east", |s| s.has("east", "a")).await;
    for answer in [Answer::Nothing, Answer::Rubbish, Answer::Endless] {
        let bad = kubeconfig(&bad_server(answer).await, "x");
        rig.put(&secret("s", &[("east", &bad)])).await;
        if let Answer::Rubbish = answer {
            rig.found("the new credentials do not work").await;
        }
        let name = format!("b{}", answer as u8);
        east.service(&name, &["10.1.0.2"]).await;
        rig.until("it is read as before", |s| s.has("east", &name))
            .await;
    }
}

#[tokio::test]
async fn kubeconfigs_that_reach_for_this_machine_are_refused() {
    let rig = Rig::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    let good = kubeconfig("127.0.0.1:1", "x");
    let with = |field: &str| good.replace("token: x", field);
    let large = format!("{good}\n#{}", "x".repeat(1 << 20));
    let exec = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: ['{}'], interactiveMode: Never}}",
        touched.display()
    );
    for (text, wanted) in [
        (with("tokenFile: /etc/passwd"), "tokenFile is not allowed"),
        (with("client-key: /etc/passwd"), "clientKey is not allowed"),
        (with(&exec), "exec is not allowed"),
        (with("auth-provider: {name: gcp}"), "\"gcp\" is not allowed"),
        (
            good.replace("server:", "certificate-authority: /etc/passwd, server:"),
            "certificateAuthority is not allowed",
        ),
        (large, "more than 262144"),
    ] {
        rig.put(&secret("s", &[("east", &text)])).await;
        let found = rig.found(wanted).await;
        assert!(found.contains("cluster east is not read"), "{found}");
        assert!(!found.contains("root:"), "{found}");
    }
    assert_eq!(rig.clusters().await.len(), 1);
    assert!(!touched.exists());
}

#[tokio::test]
async fn five_hundred_secrets_at_once_cost_no_more_than_the_limit() {
    let good = Cluster::start().await;
    good.service("a", &["10.1.0.1"]).await;
    let rig = Rig::start(&["--max-remote-clusters", "20"]).await;
    rig.put(&secret("z", &[("good", &good.kubeconfig("x"))]))
        .await;
    rig.until("a in good", |s| s.has("good", "a")).await;
    let start = Instant::now();
    let bad = kubeconfig("127.0.0.1:1", "x");
    let names: Vec<String> = (0..500).map(|n| format!("s{n}")).collect();
    let secrets: Vec<String> = names.iter().map(|n| secret(n, &[(n, &bad)])).collect();
    rig.put(&secrets.join("---\n")).await;
    rig.found("there are more than 20 remote clusters").await;
    assert_eq!(rig.clusters().await.len(), 1 + 20);
    good.service("b", &["10.1.0.2"]).await;
    rig.until("b in good", |s| s.has("good", "b")).await;
    for name in &names {
        rig.delete(name).await;
    }
    rig.found("").await;
    assert_eq!(rig.clusters().await, ["Kubernetes synced", "good synced"]);
    // Some seconds; a machine with other work takes longer.
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "{:?}",
        start.elapsed()
    );
}
