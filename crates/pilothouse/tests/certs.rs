//! Two replicas over one API that order certificates, from outside: one leads, and when it is killed in the middle of an order
//! the other goes on with it. The API is our own, in a process that orders nothing.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use acme::testing::{Directory, Setting};
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const SECRETS: &str = "/api/v1/namespaces/edge/secrets";

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A request of HTTP/1.1, and its answer's JSON; null where there is none.
fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let Ok(mut socket) = TcpStream::connect(address) else {
        return Value::Null;
    };
    let body = match body.is_null() {
        true => String::new(),
        false => body.to_string(),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    let sent = socket.write_all(request.as_bytes());
    if sent
        .and_then(|()| socket.read_to_string(&mut answer))
        .is_err()
    {
        return Value::Null;
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

struct Process {
    child: Child,
    http: SocketAddr,
}

impl Process {
    fn start(more: &[&str]) -> Self {
        let (grpc, http) = (free(), free());
        let child = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
            .args(["serve", "--state-dir", "off", "--log", "warn"])
            .args(["--grpc-addr", &grpc.to_string()])
            .args(["--http-addr", &http.to_string()])
            .args(more)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, http }
    }

    fn certs(&self) -> Value {
        ask(self.http, "GET", "/debug/certs", &Value::Null)
    }

    /// How it stands with the certificate of a Secret.
    fn state(&self, secret: &str) -> Value {
        let page = self.certs();
        let rows = page["certificates"].as_array().into_iter().flatten();
        let mut named = rows.filter(|row| row["secret"] == secret);
        named
            .next()
            .map(|row| row["state"].clone())
            .unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let api = free();
    let _api = Process::start(&[
        "--data",
        &path("data"),
        "--api-addr",
        &api.to_string(),
        "--insecure-local",
        "--write-status=false",
    ]);
    let get = |path: &str| ask(api, "GET", path, &Value::Null);
    until("the API answers", || !get("/version").is_null()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "edge"}});
    ask(api, "POST", "/api/v1/namespaces", &namespace);
    let theirs = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs", "namespace": "edge",
            "annotations": {"higress.io/cert-domain": "b.example"}},
        "type": "Opaque", "stringData": {"tls.crt": "x"},
    });
    let theirs = ask(api, "POST", SECRETS, &theirs);
    assert!(
        theirs["metadata"]["resourceVersion"].is_string(),
        "{theirs}"
    );
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "higress-https", "namespace": "edge"},
        "data": {"cert": "{credentialConfig: [{domains: [a.example], tlsIssuer: letsencrypt, tlsSecret: tls}, \
            {domains: [b.example], tlsIssuer: letsencrypt, tlsSecret: theirs}]}"},
    });
    ask(api, "POST", "/api/v1/namespaces/edge/configmaps", &map);

    let mut setting = Setting::new(respond(api));
    setting.looking = Duration::from_secs(4);
    let directory = Directory::start(setting).await;
    let kubeconfig = path("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{api}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let url = directory.url();
    let replica = |name: &str| {
        Process::start(&[
            "--kubeconfig",
            &kubeconfig,
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
    until("the first one leads", || first.certs()["leads"] == true).await;
    let second = replica("second");
    // The directory is looking at the host.
    until("an order is under way", || directory.counts().orders == 1).await;
    until("the answer is kept", || {
        let list = get(SECRETS);
        let items = list["items"].as_array().into_iter().flatten();
        let mut answers = items.filter_map(|secret| secret["data"]["answers.json"].as_str());
        // More than an empty list.
        answers.any(|text| text.len() > 8)
    })
    .await;
    until("the second one does not", || {
        second.certs()["leads"] == false
    })
    .await;
    let refused = ask(
        second.http,
        "POST",
        "/debug/certs/renew?host=a.example",
        &Value::Null,
    );
    assert_eq!(refused, Value::Null);
    drop(first);
    until("the other one has it issued", || {
        second.state("edge/tls") == "valid"
    })
    .await;
    let counts = directory.counts();
    assert_eq!(
        (counts.accounts, counts.orders, counts.issued),
        (1, 1, 1),
        "{counts:?}"
    );
    let kept = get(&format!("{SECRETS}/tls"));
    assert_eq!(kept["type"], "kubernetes.io/tls");
    until("somebody else's is seen", || {
        second.state("edge/theirs") == "foreign"
    })
    .await;
    let now = get(&format!("{SECRETS}/theirs"));
    assert_eq!(
        now["metadata"]["resourceVersion"],
        theirs["metadata"]["resourceVersion"]
    );
    assert_eq!(now["data"], theirs["data"]);
}
