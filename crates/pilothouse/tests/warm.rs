//! The warm start, from outside: a server is killed, and the next one serves before its sources can be read.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{FetchOptions, fetch};
use serde_json::Value;
use tempfile::TempDir;
use xds::TypeUrl;

const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    xds: SocketAddr,
    http: SocketAddr,
}

impl Server {
    fn start(dir: &Path, more: &[&str]) -> Self {
        Self::start_in(dir, &dir.join("state"), more)
    }

    fn start_in(dir: &Path, state: &Path, more: &[&str]) -> Self {
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
        };
        let (xds, http) = (free(), free());
        let child = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
            .arg("serve")
            .arg("--config-dir")
            .arg(dir.join("config"))
            .arg("--state-dir")
            .arg(state)
            .args(["--state-interval", "50ms", "--log", "warn"])
            .args(["--grpc-addr", &xds.to_string()])
            .args(["--http-addr", &http.to_string()])
            .args(more)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, xds, http }
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut socket = TcpStream::connect(self.http).ok()?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn is_ready(&self) -> bool {
        let answer = self.get("/ready");
        answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    fn warm(&self) -> Value {
        let answer = self.get("/debug/warm").unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn metric(&self, name: &str) -> f64 {
        let answer = self.get("/metrics").unwrap();
        let line = answer.lines().find_map(|l| l.strip_prefix(name));
        line.map_or(0.0, |l| l.trim().parse().unwrap())
    }

    /// What a proxy of that number gets: names and versions by type.
    async fn fetch(&self, id: &str) -> BTreeMap<TypeUrl, Vec<(String, String)>> {
        let mut options = FetchOptions {
            address: self.xds.to_string(),
            timeout: PATIENCE.as_secs_f64(),
            ..FetchOptions::default()
        };
        options.node.id = id.to_owned();
        let all = fetch(&options, &TYPES).await.unwrap();
        let short = |list: Vec<client::Fetched>| {
            let pair = |f: client::Fetched| (f.name.to_string(), f.version);
            list.into_iter().map(pair).collect()
        };
        all.into_iter()
            .map(|(ty, list)| (ty, short(list)))
            .collect()
    }
}

impl Drop for Server {
    /// As a crash would.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn service(name: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  hosts: [{name}.example.com]\n  addresses: [240.0.0.1]\n  resolution: STATIC\n  \
         ports: [{{number: 80, name: http, protocol: HTTP}}]\n  endpoints: [{{address: 10.1.1.1}}]\n"
    )
}

const PROXY: &str = "sidecar~10.9.0.1~one.default~default.svc.cluster.local";

/// A folder with a service, and the state of a server that served a proxy of it and was killed.
async fn killed() -> (TempDir, BTreeMap<TypeUrl, Vec<(String, String)>>) {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    fs::write(dir.path().join("config/a.yaml"), service("a")).unwrap();
    let server = Server::start(dir.path(), &[]);
    until("ready", || server.is_ready());
    assert_eq!(server.warm()["start"]["found"], "nothing");
    // A proxy comes and goes until all that it had was seen by saves, and is kept after it left.
    let start = Instant::now();
    let had = loop {
        let had = server.fetch(PROXY).await;
        if server.warm()["lastSave"]["sets"] == TYPES.len() {
            break had;
        }
        assert!(start.elapsed() < PATIENCE, "nothing is saved");
    };
    (dir, had)
}

#[tokio::test]
async fn a_proxy_is_served_before_the_sources_are_read_and_corrected_after() {
    let (dir, had) = killed().await;
    assert_eq!(had.len(), TYPES.len());
    // A source that is very slow: its folder is not there.
    fs::rename(dir.path().join("config"), dir.path().join("gone")).unwrap();
    let server = Server::start(dir.path(), &[]);
    until("ready from disk", || server.is_ready());
    let page = server.warm();
    assert_eq!(page["start"]["found"], "loaded", "{page}");
    assert!(
        page["state"]
            .as_str()
            .unwrap()
            .starts_with("serving from disk")
    );
    assert_eq!(server.fetch(PROXY).await, had);

    fs::write(dir.path().join("gone/b.yaml"), service("b")).unwrap();
    fs::rename(dir.path().join("gone"), dir.path().join("config")).unwrap();
    until("the sources have been read", || {
        server.warm()["state"] == "saving"
    });
    let now = server.fetch(PROXY).await;
    let names = |of: &BTreeMap<TypeUrl, Vec<(String, String)>>| -> Vec<String> {
        of[&TypeUrl::Cluster]
            .iter()
            .map(|(n, _)| n.clone())
            .collect()
    };
    assert!(names(&now).iter().any(|n| n.contains("b.example.com")));
    // What did not change has the version it had.
    let kept = had[&TypeUrl::Endpoint].iter();
    assert!(kept.clone().count() > 0);
    for pair in kept {
        assert!(now[&TypeUrl::Endpoint].contains(pair), "{pair:?}");
    }
    assert_eq!(server.metric("pilothouse_warm_proxies"), 0.0);
}

#[tokio::test]
async fn what_cannot_be_used_is_ignored_and_counted() {
    let (dir, had) = killed().await;
    let file = dir.path().join("state/served");
    let good = fs::read(&file).unwrap();
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    let cases: [(&str, &[u8], &[&str]); 3] = [
        ("damaged", &damaged, &[]),
        ("foreign", b"something else", &[]),
        ("settings", &good, &["--domain", "other.local"]),
    ];
    for (reason, content, more) in cases {
        fs::write(&file, content).unwrap();
        let server = Server::start(dir.path(), more);
        until("ready", || server.is_ready());
        assert_eq!(server.warm()["start"]["found"], "ignored", "{reason}");
        let metric = format!("pilothouse_warm_ignored_total{{reason=\"{reason}\"}}");
        assert_eq!(server.metric(&metric), 1.0, "{reason}");
        if more.is_empty() {
            assert_eq!(server.fetch(PROXY).await, had, "it is derived as before");
        }
    }
}

#[tokio::test]
async fn a_second_server_leaves_the_folder_of_the_first_alone() {
    let (dir, had) = killed().await;
    let first = Server::start(dir.path(), &[]);
    until("ready", || first.is_ready());
    let second = Server::start(dir.path(), &[]);
    until("ready", || second.is_ready());
    assert_eq!(second.warm()["start"]["found"], "ignored");
    assert_eq!(second.fetch(PROXY).await, had);
}

#[test]
fn there_is_no_warm_start_without_a_folder() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    let server = Server::start_in(dir.path(), Path::new("off"), &[]);
    until("ready", || server.is_ready());
    assert_eq!(server.warm()["state"], "off");
}
