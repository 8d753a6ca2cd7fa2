//! Ingresses of a remote cluster, from outside: a Secret in the configured cluster has them served and their status written
//! where they are, and nothing is ever written to what has their name in the configured one.
//!
//! Both clusters are APIs of our own; the audit log of the remote one shows what was written.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const SECRETS: &str = "/api/v1/namespaces/istio-system/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases";
/// What the status of Ingresses has.
const ADDRESS: &str = "192.0.2.7";

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A request of HTTP/1.1, and its answer's JSON; null where there is none.
fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let Ok(mut socket) = TcpStream::connect(address) else {
        return Value::Null;
    };
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
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

fn until(what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let end = Instant::now() + PATIENCE;
    while let Err(now) = holds() {
        assert!(Instant::now() < end, "in vain: {what}; it is {now}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server with an API over its own store; it ends with the test.
struct Server {
    child: Child,
    http: SocketAddr,
    api: SocketAddr,
    audit: PathBuf,
    _dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (grpc, http, api) = (free(), free(), free());
        let audit = dir.path().join("audit.log");
        let child = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
            .args(["serve", "--state-dir", "off", "--log", "warn"])
            .args(["--insecure-local", "--lease-duration", "4s", "--data"])
            .arg(dir.path().join("data"))
            .arg("--api-audit-log")
            .arg(&audit)
            .args(["--grpc-addr", &grpc.to_string()])
            .args(["--http-addr", &http.to_string()])
            .args(["--api-addr", &api.to_string()])
            .args(more)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self {
            child,
            http,
            api,
            audit,
            _dir: dir,
        };
        until("the API answers", || match server.get("/version") {
            Value::Null => Err("silent".to_owned()),
            _ => Ok(()),
        });
        for namespace in ["shop", "istio-system"] {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            ask(server.api, "POST", "/api/v1/namespaces", &object);
        }
        server
    }

    fn get(&self, path: &str) -> Value {
        ask(self.api, "GET", path, &Value::Null)
    }

    fn create(&self, collection: &str, object: &Value) {
        let made = ask(self.api, "POST", collection, object);
        assert_eq!(
            made["metadata"]["name"], object["metadata"]["name"],
            "{made}"
        );
    }

    fn ingress(&self, name: &str, class: &str) {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let host = format!("{name}.test");
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "ingressClassName": class,
                "tls": [{"hosts": [host], "secretName": "cert"}],
                "rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}],
            },
        });
        self.create(INGRESSES, &ingress);
    }

    /// The address in the status of an Ingress.
    fn address(&self, ingress: &str) -> Option<String> {
        let ingress = self.get(&format!("{INGRESSES}/{ingress}"));
        let ip = &ingress["status"]["loadBalancer"]["ingress"][0]["ip"];
        ip.as_str().map(str::to_owned)
    }

    /// The hosts of Gateways, each with the name of its certificate.
    fn served(&self) -> Vec<String> {
        let page = ask(
            self.http,
            "GET",
            "/debug/configz?kind=Gateway",
            &Value::Null,
        );
        let gateways = page.as_array().into_iter().flatten();
        let servers = gateways.flat_map(|gateway| gateway["spec"]["servers"].as_array().cloned());
        let secure = servers.flatten().filter_map(|server| {
            let credential = server["tls"]["credentialName"].as_str()?;
            Some(format!("{} {credential}", server["hosts"][0].as_str()?))
        });
        let mut all: Vec<String> = secure.collect();
        all.sort();
        all
    }

    fn until_served(&self, wanted: &[&str]) {
        until("what is served", || match self.served() {
            served if served == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// The paths at which something was written by this method.
    fn written(&self, method: &str) -> Vec<String> {
        let log = fs::read_to_string(&self.audit).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let written = lines.filter(|line: &Value| line["method"] == method);
        written
            .filter_map(|line| line["path"].as_str().map(str::to_owned))
            .collect()
    }

    /// Waits until nothing is to be written into any remote cluster.
    fn until_nothing_is_written(&self) {
        until("nothing is written", || match self.remotes() {
            Value::Array(none) if none.is_empty() => Ok(()),
            other => Err(other.to_string()),
        });
    }

    fn remotes(&self) -> Value {
        let page = ask(self.http, "GET", "/debug/writing", &Value::Null);
        page["remotes"].clone()
    }
}

/// The Secret that has a cluster read.
fn secret(of: &Server, annotations: Value) -> Value {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", of.api)}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "east", "namespace": "istio-system", "labels": {"istio/multiCluster": "true"},
            "annotations": annotations,
        },
        "stringData": {"east": kubeconfig.to_string()},
    })
}

fn east() -> Server {
    // It has no part in this but for its API.
    let east = Server::start(&["--write-status=false"]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    });
    east.create("/api/v1/namespaces/shop/services", &service);
    let cert = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert", "namespace": "shop"},
        "stringData": {"tls.crt": "C", "tls.key": "K"},
    });
    east.create("/api/v1/namespaces/shop/secrets", &cert);
    east.ingress("web", "public");
    east.ingress("else", "other");
    east
}

#[test]
fn ingresses_of_a_remote_cluster_are_served_and_told_where_they_are() {
    let east = east();
    let control = Server::start(&["--ingress-publish-address", ADDRESS]);
    // Of the same name, and of no class that is served here.
    control.ingress("web", "public");
    let replace = |annotations: Value| {
        let path = format!("{SECRETS}/east");
        let replaced = ask(control.api, "PUT", &path, &secret(&east, annotations));
        assert_eq!(replaced["metadata"]["name"], "east", "{replaced}");
    };

    // Nothing is said of its Ingresses, so none is read.
    control.create(SECRETS, &secret(&east, json!({})));
    until("the cluster is read", || {
        let page = ask(control.http, "GET", "/debug/clusterz", &Value::Null);
        match page[1]["syncStatus"] == "synced" {
            true => Ok(()),
            false => Err(page.to_string()),
        }
    });
    assert_eq!(control.served(), Vec::<String>::new());
    control.until_nothing_is_written();

    // One class is, under the running server.
    replace(json!({"pilothouse.io/ingress-class": "public"}));
    control.until_served(&["web.test kubernetes-ingress://east/shop/cert"]);
    until("its status", || match east.address("web") {
        Some(address) if address == ADDRESS => Ok(()),
        other => Err(format!("{other:?}; {}", control.remotes())),
    });
    let leases = east.get(LEASES);
    assert_eq!(
        leases["items"][0]["metadata"]["name"], "pilothouse-remote-ingress-leader",
        "{leases}"
    );
    let remotes = control.remotes();
    assert_eq!(remotes[0]["cluster"], "east", "{remotes}");
    assert_eq!(remotes[0]["leads"], true, "{remotes}");

    // Another one, whose status is left alone.
    replace(
        json!({"pilothouse.io/ingress-class": "other", "pilothouse.io/ingress-status": "false"}),
    );
    control.until_served(&["else.test kubernetes-ingress://east/shop/cert"]);
    control.until_nothing_is_written();
    replace(
        json!({"pilothouse.io/ingress-class": "other,public", "pilothouse.io/ingress-status": "false"}),
    );
    let both = [
        "else.test kubernetes-ingress://east/shop/cert",
        "web.test kubernetes-ingress://east/shop/cert",
    ];
    control.until_served(&both);

    // Without a class they are read no more, and with the Secret the cluster goes.
    replace(json!({}));
    control.until_served(&[]);
    replace(json!({"pilothouse.io/ingress-class": "*"}));
    control.until_served(&both);
    until("its status", || match east.address("else") {
        Some(address) if address == ADDRESS => Ok(()),
        other => Err(format!("{other:?}; {}", control.remotes())),
    });
    ask(
        control.api,
        "DELETE",
        &format!("{SECRETS}/east"),
        &Value::Null,
    );
    control.until_served(&[]);

    // What was written: two statuses there, each once, and none to the namesake here.
    let mut statuses = east.written("PUT");
    statuses.retain(|path| path.contains("/ingresses/"));
    let of = |name: &str| format!("{INGRESSES}/{name}/status");
    assert_eq!(statuses, [of("web"), of("else")]);
    assert_eq!(control.address("web"), None);
}
