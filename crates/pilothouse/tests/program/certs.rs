//! Two replicas over one API that order certificates, from outside: one leads, and when it is killed in the middle of an order
//! the other goes on with it. The API is our own, in a process that orders nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use acme_directory::{Directory, Setting};
use serde_json::{Value, json};

use crate::support::{Api, Server, ask, until};

const SECRETS: &str = "/api/v1/namespaces/edge/secrets";

/// How it stands with the certificate of a Secret.
fn state(server: &Server, secret: &str) -> Value {
    let page = server.json("/debug/certs");
    let rows = page["certificates"].as_array().into_iter().flatten();
    let mut named = rows.filter(|row| row["secret"] == secret);
    named
        .next()
        .map(|row| row["state"].clone())
        .unwrap_or_default()
}

fn leads(server: &Server) -> Value {
    server.json("/debug/certs")["leads"].clone()
}

/// A host that answers what orders in the API say, as gateways do.
fn respond(api: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let token = path.rsplit('/').next().unwrap_or_default();
            let body = answer(api, token).unwrap_or_default();
            let page = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(page.as_bytes());
        }
    });
    address
}

fn answer(api: SocketAddr, token: &str) -> Option<String> {
    use base64::Engine;
    let list = ask(api, "GET", SECRETS, &Value::Null);
    let kept = list["items"].as_array()?.iter().filter_map(|secret| {
        let text = secret["data"]["answers.json"].as_str()?;
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()?;
        serde_json::from_slice::<Vec<Value>>(&bytes).ok()
    });
    let mut all = kept.flatten();
    let found = all.find(|answer| answer["token"] == token)?;
    found["text"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_gone_on_with_by_the_other_replica_and_a_users_secret_stays() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::start(&dir.path().join("data"), &["--write-status=false"]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}});
    api.create("/api/v1/namespaces", &namespace);
    let theirs = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs", "namespace": "edge",
            "annotations": {"higress.io/cert-domain": "b.example"}},
        "type": "Opaque", "stringData": {"tls.crt": "x"},
    });
    let theirs = api.create(SECRETS, &theirs);
    assert!(
        theirs["metadata"]["resourceVersion"].is_string(),
        "{theirs}"
    );
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "higress-https", "namespace": "edge"},
        "data": {"cert": "{credentialConfig: [{domains: [a.example], tlsIssuer: letsencrypt, tlsSecret: tls}, \
            {domains: [b.example], tlsIssuer: letsencrypt, tlsSecret: theirs}]}"},
    });
    api.create("/api/v1/namespaces/edge/configmaps", &map);

    let mut setting = Setting::new(respond(api.address));
    setting.looking = Duration::from_secs(4);
    let directory = Directory::start(setting).await;
    let kubeconfig = dir.path().join("kubeconfig");
    fs::write(&kubeconfig, api.kubeconfig()).unwrap();
    let url = directory.url();
    let replica = |name: &str| {
        Server::start(&[
            "--state-dir",
            "off",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--write",
            "--pod-name",
            name,
            "--lease-duration",
            "4s",
            "--ingress-class",
            "higress",
            "--ingress-namespace",
            "edge",
            "--acme-directory",
            &url,
        ])
    };
    let first = replica("first");
    until("the first one leads", || leads(&first) == true);
    let second = replica("second");
    // The directory is looking at the host.
    until("an order is under way", || directory.counts().orders == 1);
    until("the answer is kept", || {
        let list = api.get(SECRETS);
        let items = list["items"].as_array().into_iter().flatten();
        let mut answers = items.filter_map(|secret| secret["data"]["answers.json"].as_str());
        // More than an empty list.
        answers.any(|text| text.len() > 8)
    });
    until("the second one does not", || leads(&second) == false);
    let refused = ask(
        second.http,
        "POST",
        "/debug/certs/renew?host=a.example",
        &Value::Null,
    );
    assert_eq!(refused, Value::Null);
    drop(first);
    until("the other one has it issued", || {
        state(&second, "edge/tls") == "valid"
    });
    let counts = directory.counts();
    assert_eq!(
        (counts.accounts, counts.orders, counts.issued),
        (1, 1, 1),
        "{counts:?}"
    );
    let kept = api.get(&format!("{SECRETS}/tls"));
    assert_eq!(kept["type"], "kubernetes.io/tls");
    until("somebody else's is seen", || {
        state(&second, "edge/theirs") == "foreign"
    });
    let now = api.get(&format!("{SECRETS}/theirs"));
    assert_eq!(
        now["metadata"]["resourceVersion"],
        theirs["metadata"]["resourceVersion"]
    );
    assert_eq!(now["data"], theirs["data"]);
}
