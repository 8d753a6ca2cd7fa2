//! Requests through a real Envoy: how soon they reach an instance after it was registered, and reach it no more after it was
//! drained or removed. The program runs Envoy itself (`pilothouse ingress`).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::{eventually, figures};
use crate::faults::instances::Place;
use crate::faults::server::{Kind, Server, TOKEN};
use crate::http::{Ask, Connection};
use crate::nacos::scale::Subscriber;

/// Lanes of the servers here, so that their ports are none of those that run schedules.
const LANE: u16 = 30;
/// The service that is asked: of ZooKeeper one of Spring Cloud, as one of Dubbo speaks no HTTP.
const SERVICE: usize = 1;
/// How often an instance comes and goes.
const ROUNDS: usize = 40;
/// So many answers of another instance in a row say that one is asked no more: which one is asked is left to chance.
const OTHERS: usize = 40;

/// Answers every request with its name, at an address of its own: that is what some registries know instances by.
async fn answer(name: &'static str, ip: &str) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let answer = service_fn(async move |_| {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(
                    name.as_bytes(),
                ))))
            });
            let serving = hyper::server::conn::http1::Builder::new();
            tokio::spawn(serving.serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

/// An McpBridge with the server, and an Ingress that leads to the service.
fn write(folder: &Path, server: &Server) {
    let host = server.kind.host(SERVICE);
    let (kind, port) = match server.kind {
        Kind::Consul => ("consul", server.port),
        Kind::ZooKeeper => ("zookeeper", server.port),
        Kind::Nacos => ("nacos2", server.port),
        Kind::Eureka => ("eureka", server.port),
        Kind::ConsulTls | Kind::StandIn => unreachable!("it is not measured"),
    };
    let text = format!(
        "
apiVersion: v1
kind: Secret
metadata: {{name: consul, namespace: higress-system}}
stringData: {{consulToken: {TOKEN}}}
---
apiVersion: networking.higress.io/v1
kind: McpBridge
metadata: {{name: default, namespace: higress-system}}
spec:
  registries:
  - {{type: {kind}, name: r, domain: 127.0.0.1, port: {port}, authSecretName: consul}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: all, namespace: shop, annotations: {{higress.io/destination: '{host}'}}}}
spec:
  ingressClassName: higress
  rules:
  - http:
      paths:
      - path: /
        pathType: Prefix
        backend: {{resource: {{apiGroup: networking.higress.io, kind: McpBridge, name: default}}}}
"
    );
    std::fs::write(folder.join("all.yaml"), text).unwrap();
}

/// `pilothouse ingress`, whose Envoy listens on a port; both end with this.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It stops Envoy before it ends.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.0.wait();
    }
}

impl Program {
    fn start(folder: &Path, port: u16) -> Self {
        let program = std::env::var("PILOTHOUSE_BIN").expect("PILOTHOUSE_BIN names the program");
        let [http, https] = [port, port + 1].map(|port| port.to_string());
        let child = Command::new(program)
            .args([
                "ingress",
                "--http-port",
                &http,
                "--https-port",
                &https,
                "--manifest",
            ])
            .arg(folder)
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

/// A client of Envoy.
struct Client(Connection);

impl Client {
    /// Who answers a request; nothing where it fails.
    async fn ask(&mut self) -> Option<Bytes> {
        let ask = Ask {
            target: "/",
            ..Ask::default()
        };
        let (status, body) = self.0.ask(ask, 1 << 10).await.ok()?;
        status.is_success().then_some(body)
    }

    /// When an instance answers first. No request fails until then.
    async fn first(&mut self, name: &str) -> Instant {
        while self.ask().await.expect("an answer") != name {
            sleep(Duration::from_millis(1)).await;
        }
        Instant::now()
    }

    /// When an instance has answered for the last time, by what the others answer. No request fails.
    async fn last(&mut self, name: &str) -> Instant {
        let (mut others, mut since) = (0, Instant::now());
        while others < OTHERS {
            if self.ask().await.expect("an answer") == name {
                (others, since) = (0, Instant::now());
            } else {
                others += 1;
            }
            sleep(Duration::from_millis(1)).await;
        }
        since
    }
}

async fn measure(kind: Kind, rounds: usize) {
    let mut server = Server::start(kind, LANE).await;
    let place = async |instance, name, ip| Place {
        service: SERVICE,
        instance,
        at: answer(name, ip).await,
    };
    let first = place(0, "first", "127.0.0.2").await;
    let second = place(1, "second", "127.0.0.3").await;
    server.register(&first, 1).await;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &server);
    let port = server.port + 400;
    let _program = Program::start(folder.path(), port);
    let mut client = eventually(async || {
        let mut client = Client(Connection::open(&format!("127.0.0.1:{port}")).await.ok()?);
        (client.ask().await? == "first").then_some(client)
    })
    .await;
    let subscriber = match kind {
        Kind::Nacos => {
            Some(Subscriber::connect(&format!("127.0.0.1:{}", server.port + 1_000)).await)
        }
        _ => None,
    };
    let (mut came, mut beyond, mut drained, mut removed) = (vec![], vec![], vec![], vec![]);
    for round in 0..rounds {
        if kind == Kind::Nacos {
            // It forgets after three minutes who sends no beats.
            server.register(&first, 1).await;
        }
        // Apart from each other as people's changes, not as their waits.
        sleep(Duration::from_millis(1_500 + 37 * round as u64)).await;
        let told = match &subscriber {
            Some(subscriber) => Some(subscriber.told(&format!("s{SERVICE}")).await),
            None => None,
        };
        let at = Instant::now();
        server.register(&second, round as u32).await;
        let reached = client.first("second").await;
        came.push(reached - at);
        if let Some(told) = told {
            beyond.push(reached.saturating_duration_since(told.await.unwrap()));
        }
        sleep(Duration::from_millis(1_500)).await;
        if round % 2 == 0 {
            let at = Instant::now();
            server.drain(&second, round as u32).await;
            drained.push(client.last("second").await.saturating_duration_since(at));
            server.resume(&second, round as u32).await;
            client.first("second").await;
            sleep(Duration::from_millis(1_500)).await;
        }
        let at = Instant::now();
        server.remove(&second).await;
        removed.push(client.last("second").await.saturating_duration_since(at));
    }
    println!(
        "{kind:?}, through Envoy: registered to the first request: {}",
        figures(came)
    );
    if !beyond.is_empty() {
        println!(
            "{kind:?}: of that beyond a plain client: {}",
            figures(beyond)
        );
    }
    println!(
        "{kind:?}: drained to the last request: {}",
        figures(drained)
    );
    println!(
        "{kind:?}: removed to the last request: {}",
        figures(removed)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn requests_reach_what_a_consul_has() {
    measure(Kind::Consul, ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn requests_reach_what_a_zookeeper_has() {
    measure(Kind::ZooKeeper, ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn requests_reach_what_a_nacos_has() {
    measure(Kind::Nacos, ROUNDS).await;
}

/// It is asked every 30 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn requests_reach_what_a_eureka_has() {
    measure(Kind::Eureka, 4).await;
}
