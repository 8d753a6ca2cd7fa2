//! What the program takes to read a Consul with many services, in the clear and over TLS.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{ANSWER, Consul, Options, WAIT};
use crate::backends::scale::{INSTANCES, Program, address, services};
use crate::backends::{certificate, eventually};
use crate::http::Server as At;

/// Nodes that instances are on.
const NODES: usize = 200;
/// Operations of a transaction.
const TOGETHER: usize = 128;

/// A Consul that serves in the clear and over TLS; it ends with this.
struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one on `port` and the next five.
    async fn start(port: u16) -> Self {
        let cache = std::env::var_os("BACKENDS_CACHE").expect("$BACKENDS_CACHE has a Consul");
        let folder = tempfile::tempdir().unwrap();
        let [cert, key] = certificate(folder.path());
        let tls = json!({"tls": {"defaults": {"cert_file": cert, "key_file": key}}});
        let file = folder.path().join("tls.json");
        std::fs::write(&file, tls.to_string()).unwrap();
        let ports = ["http", "https", "grpc", "server", "serf-lan", "serf-wan"];
        let child = Command::new(Path::new(&cache).join("consultest"))
            .args([
                "-dev",
                "-bind=127.0.0.1",
                "-client=127.0.0.1",
                "-log-level=error",
            ])
            .args(["-disable-host-node-id", "-dns-port=-1", "-grpc-tls-port=-1"])
            .args(
                ports
                    .iter()
                    .zip(port..)
                    .map(|(name, port)| format!("-{name}-port={port}")),
            )
            .arg(format!("-config-file={}", file.display()))
            .stdout(Stdio::null())
            .spawn();
        let server = Self {
            child: child.unwrap(),
            port,
            folder,
        };
        eventually(async || server.put("/v1/txn", &json!([])).await).await;
        server
    }

    /// Puts something; nothing where that is refused.
    async fn put(&self, path: &str, body: &Value) -> Option<()> {
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "PUT {path} HTTP/1.1\r\nHost: consul\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        answer.starts_with(b"HTTP/1.1 200").then_some(())
    }

    /// Registers 5,000 services of 20 instances, each with a check.
    async fn fill(&self) {
        for node in 0..NODES {
            let body =
                json!({"Node": format!("node-{node}"), "Address": format!("10.200.0.{node}")});
            self.put("/v1/catalog/register", &body).await.unwrap();
        }
        let all = (0..services()).flat_map(|s| (0..INSTANCES).flat_map(move |n| instance(s, n)));
        let all: Vec<Value> = all.collect();
        for some in all.chunks(TOGETHER) {
            self.put("/v1/txn", &some.into()).await.unwrap();
        }
    }

    /// A client as ours, of the port in the clear.
    fn plain(&self) -> Consul {
        let server = At {
            tls: false,
            host: "127.0.0.1".into(),
            port: self.port,
        };
        Consul::new(&Options {
            server,
            tag: "".into(),
            datacenter: "".into(),
            namespace: "".into(),
            token: None,
        })
    }

    /// Makes another instance of a service. Says when it did, and when a client that waited for that service had it.
    async fn change(&self, service: usize) -> (Instant, JoinHandle<Instant>) {
        let plain = self.plain();
        let path = format!("/v1/health/service/svc-{service}");
        let (index, _) = plain.query(&path, 0, ANSWER).await.unwrap();
        let waiting = tokio::spawn(async move {
            plain.query(&path, index, WAIT).await.unwrap();
            Instant::now()
        });
        // Until the query is there.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let at = Instant::now();
        let another = Value::from_iter(instance(service, INSTANCES));
        self.put("/v1/txn", &another).await.unwrap();
        (at, waiting)
    }
}

/// What registers an instance.
fn instance(service: usize, n: usize) -> [Value; 2] {
    let node = format!("node-{}", (service * INSTANCES + n) % NODES);
    let id = format!("svc-{service}-{n}");
    let meta = json!({"version": "v1", "protocol": "http", "zone": "cn-shanghai-g"});
    let made = json!({"ID": id, "Service": format!("svc-{service}"), "Tags": ["v1"], "Address": address(service, n),
        "Port": 8080, "Meta": meta});
    let check = json!({"Node": node, "CheckID": format!("alive:{id}"), "Name": "alive", "ServiceID": id, "Status": "passing"});
    [
        json!({"Service": {"Verb": "set", "Node": node, "Service": made}}),
        json!({"Check": {"Verb": "set", "Check": check}}),
    ]
}

async fn measure(port: u16, is_tls: bool) {
    let server = Server::start(port).await;
    server.fill().await;
    let registry = match is_tls {
        true => format!("consul+https://localhost:{}/?name=scale", port + 1),
        false => format!("consul://127.0.0.1:{port}/?name=scale"),
    };
    let trusted = server.folder.path().join("cert.pem").display().to_string();
    let program = Program::start(&registry, port + 10, &[("SSL_CERT_FILE", &trusted)]);
    program
        .measure(1, async |service| server.change(service).await)
        .await;
}

/// A query for each service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn many_services_of_consul_over_tls() {
    measure(28_700, true).await;
}

/// Too few connections for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn many_services_of_consul_in_the_clear() {
    measure(28_720, false).await;
}
