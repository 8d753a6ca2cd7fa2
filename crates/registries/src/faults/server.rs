//! A registry that is written to, killed and started again.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use model::kinds::higress::{InnerMap, Registry as Stated};
use model::redacted::Redacted;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::command::command;
use super::proxy::Endless;
use super::stand_in::StandIn;
use crate::backends::eventually;
use crate::entry::{Credentials, Entry};
use crate::zookeeper::real::Writes;

/// Which registry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Consul,
    /// A Consul that is read over TLS, and so by HTTP/2.
    ConsulTls,
    ZooKeeper,
    Nacos,
    Eureka,
    /// Something within this process that speaks as a Consul.
    StandIn,
}

/// What may do everything in a Consul.
const ROOT: &str = "7e9b0f6c-0000-4000-8000-000000000001";
/// What we read a Consul with.
pub(crate) const TOKEN: &str = "7e9b0f6c-0000-4000-8000-000000000002";

impl Kind {
    pub(super) fn is_consul(self) -> bool {
        matches!(self, Self::Consul | Self::ConsulTls)
    }

    /// Whether what is said may be read, and falsified, on its way.
    pub(super) fn speaks_http(self) -> bool {
        matches!(self, Self::Consul | Self::Eureka | Self::StandIn)
    }

    pub(super) fn endless(self) -> Endless {
        match self {
            Self::ZooKeeper => Endless::ZooKeeper,
            _ => Endless::Http,
        }
    }

    /// How many of a hundred things that happen are that the server is killed. Some take long to start.
    pub(super) fn kills(self) -> u64 {
        match self {
            Self::Consul | Self::ConsulTls | Self::ZooKeeper => 10,
            Self::Nacos | Self::Eureka => 3,
            Self::StandIn => 15,
        }
    }

    /// Whether it has its instances again when it is started with its data.
    pub(super) fn keeps(self) -> bool {
        !matches!(self, Self::Nacos | Self::Eureka)
    }

    /// How near to each other changes are that it tells in any order. To a Nacos each instance is a client of its own.
    pub(super) fn blurs(self) -> Duration {
        match self {
            Self::Nacos => Duration::from_secs(1),
            _ => Duration::ZERO,
        }
    }

    fn port(self, lane: u16) -> u16 {
        match self {
            Self::Consul => 24_000 + 10 * lane,
            Self::ConsulTls => 27_000 + 10 * lane,
            Self::ZooKeeper => 25_000 + 10 * lane,
            Self::Nacos => 22_000 + 10 * lane,
            Self::Eureka => 26_000 + 10 * lane,
            Self::StandIn => 0,
        }
    }

    /// The host that a service has.
    pub(crate) fn host(self, service: usize) -> String {
        match self {
            Self::Consul | Self::ConsulTls | Self::StandIn => format!("s{service}.dc1.consul"),
            Self::ZooKeeper if service == 0 => "providers:com.acme.S0:1:.zookeeper".to_owned(),
            Self::ZooKeeper => format!("s{service}.services.zookeeper"),
            Self::Nacos => format!("s{service}.DEFAULT-GROUP.public.nacos"),
            Self::Eureka => format!("S{service}.eureka"),
        }
    }

    /// The version of an instance that is registered as this one. One of Dubbo is its address alone.
    pub(super) fn version(self, service: usize, version: u32) -> u32 {
        if self == Self::ZooKeeper && service == 0 {
            1
        } else {
            version
        }
    }
}

pub(super) fn address(service: usize, instance: u64) -> String {
    format!("10.0.{service}.{}", instance + 1)
}

/// A server and who writes to it.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    /// Where it listens, and our proxies.
    pub(crate) port: u16,
    pub(super) proxied: Vec<(u16, u16)>,
    folder: tempfile::TempDir,
    child: Option<Child>,
    pub(super) stand_in: Option<StandIn>,
    writes: Option<Writes>,
    pub(super) stamp: u64,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks once; the status and what was said, or none where nothing was.
async fn call(port: u16, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let kind = if body.starts_with('{') {
        "application/json"
    } else {
        "application/x-www-form-urlencoded"
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: */*\r\nX-Consul-Token: {ROOT}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer))
    };
    timeout(Duration::from_secs(5), ask).await.ok()?
}

impl Server {
    pub(crate) async fn start(kind: Kind, lane: u16) -> Self {
        let stand_in = match kind {
            Kind::StandIn => Some(StandIn::new().await),
            _ => None,
        };
        let port = stand_in.as_ref().map_or(kind.port(lane), |s| s.port);
        let proxy = match kind {
            Kind::StandIn => free_port(),
            _ => port + 500,
        };
        let mut proxied = match kind {
            Kind::ConsulTls => vec![(proxy, tls_port(port))],
            _ => vec![(proxy, port)],
        };
        if kind == Kind::Nacos {
            proxied.push((proxy + 1_000, port + 1_000));
        }
        let mut server = Self {
            kind,
            port,
            proxied,
            folder: tempfile::tempdir().unwrap(),
            child: None,
            stand_in,
            writes: None,
            stamp: 0,
        };
        server.launch(true).await;
        server
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        self.writes = None;
        if let Some(stand_in) = &mut self.stand_in {
            stand_in.kill();
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it, and waits until it takes what is written.
    pub(super) async fn launch(&mut self, wipe: bool) {
        let home = self.folder.path().join("data");
        if wipe {
            let _ = std::fs::remove_dir_all(&home);
        }
        std::fs::create_dir_all(home.join("conf")).unwrap();
        if let Some(stand_in) = &mut self.stand_in {
            return stand_in.launch(wipe).await;
        }
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut command = command(self.kind, &home, self.port, ROOT);
        command.current_dir(&home).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().unwrap();
        let start = Instant::now();
        while !self.is_ready().await {
            // On a machine that is busy, what a server waits for may be too late for it.
            if child.try_wait().unwrap().is_some() {
                child = command.spawn().unwrap();
            }
            let log =
                || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(
                start.elapsed() < Duration::from_secs(180),
                "it does not start: {}",
                log()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.child = Some(child);
        if wipe && self.kind.is_consul() {
            for n in 0..super::number("FILLERS", 0) {
                let service = json!({"ID": format!("f{n}"), "Service": format!("f{n}"), "Address": "10.1.0.1", "Port": 80});
                let body = json!({"Node": "n", "Address": "127.0.0.1", "SkipNodeUpdate": true, "Service": service});
                self.must("PUT", "/v1/catalog/register", &body.to_string())
                    .await;
            }
        }
    }

    async fn is_ready(&mut self) -> bool {
        let asked = match self.kind {
            Kind::Consul | Kind::ConsulTls => {
                let is_led = call(self.port, "GET", "/v1/status/leader", "").await;
                return is_led.is_some_and(|(_, said)| said.contains("127.0.0.1:"))
                    && self.remember().await;
            }
            Kind::ZooKeeper => {
                // One that just begins to listen may never answer.
                return match timeout(Duration::from_secs(2), Writes::connect(self.port)).await {
                    Ok(Ok(mut writes)) => {
                        for path in [
                            "/services",
                            "/dubbo",
                            "/dubbo/com.acme.S0",
                            "/dubbo/com.acme.S0/providers",
                        ] {
                            writes.create(path, "", 0).await;
                        }
                        self.writes = Some(writes);
                        true
                    }
                    _ => false,
                };
            }
            Kind::Nacos => "/nacos/v1/ns/operator/metrics",
            Kind::Eureka | Kind::StandIn => "/eureka/apps",
        };
        matches!(call(self.port, "GET", asked, "").await, Some((200, _)))
    }

    /// Makes our token.
    pub(super) async fn remember(&self) -> bool {
        let rules = r#"node_prefix "" { policy = "read" } service_prefix "" { policy = "read" }"#;
        let policy = json!({"Name": "reads", "Rules": rules}).to_string();
        // It may be there.
        let _ = call(self.port, "PUT", "/v1/acl/policy", &policy).await;
        let token =
            json!({"AccessorID": TOKEN, "SecretID": TOKEN, "Policies": [{"Name": "reads"}]});
        let made = call(self.port, "PUT", "/v1/acl/token", &token.to_string()).await;
        let is_there =
            |(status, said): (u16, String)| status == 200 || said.contains("already in use");
        made.is_some_and(is_there)
    }

    /// Makes our token none.
    pub(super) async fn forget(&self) {
        self.must("DELETE", &format!("/v1/acl/token/{TOKEN}"), "")
            .await;
    }

    pub(super) async fn must(&self, method: &str, path: &str, body: &str) {
        eventually(async || {
            let answer = call(self.port, method, path, body).await?;
            (200..300).contains(&answer.0).then_some(())
        })
        .await;
    }

    pub(super) async fn writes(&mut self) -> &mut Writes {
        let connected = Writes::new(self.port).await;
        self.writes.insert(connected)
    }

    /// The entry that reads it, at a port.
    pub(super) fn entry(&self, port: u16) -> Entry {
        let mut stated = Stated {
            name: "r".into(),
            domain: "127.0.0.1".into(),
            port: port.into(),
            ..Stated::default()
        };
        let mut credentials = Credentials::default();
        stated.registry_type = match self.kind {
            Kind::Consul | Kind::ConsulTls | Kind::StandIn => {
                credentials
                    .0
                    .insert("consulToken".into(), Redacted::new(TOKEN));
                if self.kind == Kind::ConsulTls {
                    stated.domain = "https://localhost".into();
                }
                "consul".into()
            }
            Kind::ZooKeeper => "zookeeper".into(),
            Kind::Nacos => {
                stated.nacos_refresh_interval = 10_000_000_000;
                "nacos2".into()
            }
            Kind::Eureka => {
                let settings = InnerMap {
                    inner_map: [("refreshSeconds".into(), "1".into())].into(),
                };
                stated.metadata.insert("pilothouse".into(), settings);
                "eureka".into()
            }
        };
        Entry::new(stated, credentials, None).unwrap()
    }
}

/// Where a Consul speaks TLS, beside its port in the clear.
pub(super) fn tls_port(port: u16) -> u16 {
    port + 4
}

/// A port that nobody listens on just now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A port that takes connections and never says anything, as long as what comes with it is there.
pub(super) async fn silent() -> (u16, tokio_util::task::AbortOnDropHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hold = async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    };
    (
        port,
        tokio_util::task::AbortOnDropHandle::new(tokio::spawn(hold)),
    )
}
