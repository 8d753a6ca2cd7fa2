//! The warm start, from outside: a server is killed, and the next one serves before its sources can be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use client::{FetchOptions, fetch};
use serde_json::Value;
use tempfile::TempDir;
use xds::TypeUrl;

use crate::support::{PATIENCE, Server, until};

const TYPES: [TypeUrl; 4] = [
    TypeUrl::Cluster,
    TypeUrl::Endpoint,
    TypeUrl::Listener,
    TypeUrl::Route,
];

fn start(dir: &Path, more: &[&str]) -> Server {
    start_in(dir, &dir.join("state"), more)
}

fn start_in(dir: &Path, state: &Path, more: &[&str]) -> Server {
    let config = dir.join("config");
    let folders = [
        "--config-dir",
        config.to_str().unwrap(),
        "--state-dir",
        state.to_str().unwrap(),
    ];
    let soon = ["--state-interval", "50ms"];
    Server::start(&[&folders, &soon[..], more].concat()).ready()
}

fn warm(server: &Server) -> Value {
    server.json("/debug/warm")
}

/// What a proxy of that number gets: names and versions by type.
async fn fetched(server: &Server, id: &str) -> BTreeMap<TypeUrl, Vec<(String, String)>> {
    let mut options = FetchOptions {
        address: server.xds.to_string(),
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
    let server = start(dir.path(), &[]);
    assert_eq!(warm(&server)["start"]["found"], "nothing");
    // A proxy comes and goes until all that it had was seen by saves, and is kept after it left.
    let start = Instant::now();
    let had = loop {
        let had = fetched(&server, PROXY).await;
        if warm(&server)["lastSave"]["sets"] == TYPES.len() {
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
    let server = start(dir.path(), &[]);
    let page = warm(&server);
    assert_eq!(page["start"]["found"], "loaded", "{page}");
    assert!(
        page["state"]
            .as_str()
            .unwrap()
            .starts_with("serving from disk")
    );
    assert_eq!(fetched(&server, PROXY).await, had);

    fs::write(dir.path().join("gone/b.yaml"), service("b")).unwrap();
    fs::rename(dir.path().join("gone"), dir.path().join("config")).unwrap();
    until("the sources have been read", || {
        warm(&server)["state"] == "saving"
    });
    let now = fetched(&server, PROXY).await;
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
    assert_eq!(server.metric("pilothouse_warm_proxies"), Some(0.0));
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
        let server = start(dir.path(), more);
        assert_eq!(warm(&server)["start"]["found"], "ignored", "{reason}");
        let metric = format!("pilothouse_warm_ignored_total{{reason=\"{reason}\"}}");
        assert_eq!(server.metric(&metric), Some(1.0), "{reason}");
        if more.is_empty() {
            assert_eq!(
                fetched(&server, PROXY).await,
                had,
                "it is derived as before"
            );
        }
    }
}

#[tokio::test]
async fn a_second_server_leaves_the_folder_of_the_first_alone() {
    let (dir, had) = killed().await;
    let _first = start(dir.path(), &[]);
    let second = start(dir.path(), &[]);
    assert_eq!(warm(&second)["start"]["found"], "ignored");
    assert_eq!(fetched(&second, PROXY).await, had);
}

#[test]
fn there_is_no_warm_start_without_a_folder() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    let server = start_in(dir.path(), Path::new("off"), &[]);
    assert_eq!(warm(&server)["state"], "off");
}
