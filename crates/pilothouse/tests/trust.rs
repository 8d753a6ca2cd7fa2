//! The roots of the mesh in the objects of an API, from outside. The API is our own, over its embedded store.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

struct Server {
    child: Child,
    api: SocketAddr,
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

impl Server {
    fn start(data: &Path) -> Self {
        let [grpc, http, api] = [free(), free(), free()];
        let child = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
            .args([
                "serve",
                "--state-dir",
                "off",
                "--log",
                "warn",
                "--insecure-local",
            ])
            .args(["--data", data.to_str().unwrap()])
            .args([
                "--grpc-addr",
                &grpc.to_string(),
                "--http-addr",
                &http.to_string(),
            ])
            .args(["--api-addr", &api.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, api }
    }

    /// A request, and its answer's JSON; null where there is none.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let Ok(mut socket) = TcpStream::connect(self.api) else {
            return Value::Null;
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut answer = String::new();
        let done = socket.write_all(request.as_bytes());
        if done
            .and_then(|()| socket.read_to_string(&mut answer))
            .is_err()
        {
            return Value::Null;
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }

    fn create(&self, path: &str, object: &Value) {
        until("it is made", || {
            let made = self.ask("POST", path, object);
            (made["kind"] == object["kind"]).then_some(())
        });
    }

    /// The root in a namespace, once there is one.
    fn root(&self, namespace: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/istio-ca-root-cert");
        until("there is a root", || {
            let map = self.ask("GET", &path, &Value::Null);
            let root = map["data"]["root-cert.pem"].as_str()?.to_owned();
            root.starts_with("-----BEGIN CERTIFICATE-----")
                .then_some(root)
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
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
    let server = Server::start(&dir.path().join("data"));
    for name in ["shop", "kube-node-lease"] {
        server.create("/api/v1/namespaces", &namespace(name));
    }
    let root = server.root("shop");
    let path = "/api/v1/namespaces/shop/configmaps/istio-ca-root-cert";
    let mut map = server.ask("GET", path, &Value::Null);
    assert_eq!(
        map["metadata"]["labels"],
        json!({"istio.io/config": "true"})
    );

    // Others may add to it, and take the root away for a moment.
    map["data"] = json!({"root-cert.pem": "another", "theirs": "x"});
    assert_eq!(server.ask("PUT", path, &map)["data"], map["data"]);
    assert_eq!(server.root("shop"), root);
    let map = server.ask("GET", path, &Value::Null);
    assert_eq!(map["data"]["theirs"], "x");

    let injector = "rev.namespace.sidecar-injector.istio.io";
    let mutating = format!("{WEBHOOKS}/mutatingwebhookconfigurations");
    for (name, revision) in [("ours", "default"), ("of-another", "v2")] {
        server.create(&mutating, &webhooks("Mutating", name, revision, injector));
    }
    let validating = format!("{WEBHOOKS}/validatingwebhookconfigurations");
    let ours = webhooks("Validating", "ours", "default", "validation.istio.io");
    server.create(&validating, &ours);
    let bundle = STANDARD.encode(&root);
    let first = |path: &str, name: &str| {
        let found = server.ask("GET", &format!("{path}/{name}"), &Value::Null);
        found["webhooks"][0].clone()
    };
    for path in [&mutating, &validating] {
        until("the webhook has the root", || {
            let held = first(path, "ours")["clientConfig"]["caBundle"].clone();
            (held == bundle.as_str()).then_some(())
        });
    }
    assert_ne!(
        first(&mutating, "of-another")["clientConfig"]["caBundle"],
        bundle.as_str()
    );
    // No webhook has refused anything.
    assert_eq!(first(&validating, "ours")["failurePolicy"], "Ignore");
    let ignored = "/api/v1/namespaces/kube-node-lease/configmaps/istio-ca-root-cert";
    assert_eq!(server.ask("GET", ignored, &Value::Null)["kind"], "Status");
}
