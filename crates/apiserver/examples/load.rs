//! Figures of the API and its store. `cargo run --release -p pilothouse-apiserver --example load -- writes|start|watch|fill|open`
//!
//! - `writes [COUNT] [CLIENTS]`: writes over HTTP, each answered when it is on disk, with a watch that sees all of them.
//! - `start [OBJECTS]`: from opening the file to the last object told to generation.
//! - `fill FOLDER [OBJECTS]`: the same objects in a folder that stays, for `pilothouse serve --data FOLDER`.
//! - `open FOLDER`: what a filled folder takes of memory, once the store is open and once all is told to generation.
//! - `watch [CLIENTS]`: how long until every one of many watches has seen a write.
#![allow(clippy::unwrap_used)] // What cannot be measured ends the program.

extern crate pilothouse_apiserver as apiserver;

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use apiserver::access::Access;
use apiserver::api::Api;
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::source::ApiSource;
use apiserver::store::{Author, Expect, Keep, ObjectId, Op, Store, StoreError};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use model::{Change, Owner};
use serde_json::{Value, json};
use source_api::{Sink, Source, SourceEvent};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, other: usize| args.get(at).map_or(other, |a| a.parse().unwrap());
    let dir =
        tempfile::tempdir_in(std::env::var("DATA").unwrap_or_else(|_| ".".to_owned())).unwrap();
    match args.first().map(String::as_str) {
        Some("writes") => writes(dir.path(), number(1, 20_000), number(2, 64)).await,
        Some("start") => start(dir.path(), number(1, 100_000)).await,
        Some("fill") => fill(args[1].as_ref(), number(2, 100_000)).await,
        Some("open") => open(args[1].as_ref()).await,
        Some("watch") => watch(dir.path(), number(1, 1_000)).await,
        _ => eprintln!("usage: load writes|start|watch|fill|open"),
    }
}

async fn server(dir: &std::path::Path) -> SocketAddr {
    let store = Store::open(dir, Keep::default()).unwrap();
    let api = Api::start(store, Access::default(), Audit::default(), &["default"])
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(
        listener,
        Security::InsecureLocal,
        api,
        CancellationToken::new(),
    ));
    address
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(
    client: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: String,
) -> Value {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json");
    client.ready().await.unwrap();
    let response = client
        .send_request(request.body(Full::new(body.into())).unwrap())
        .await
        .unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(
        status.is_success(),
        "{status}: {}",
        String::from_utf8_lossy(&body)
    );
    serde_json::from_slice(&body).unwrap_or_default()
}

/// Counts the events of a watch, telling each as it comes.
async fn watcher(address: SocketAddr, seen: tokio::sync::mpsc::UnboundedSender<Instant>) {
    let mut client = connect(address).await;
    let uri = format!("{MAPS}?watch=true&resourceVersion=1");
    let request = http::Request::builder()
        .uri(uri)
        .header("host", "localhost")
        .body(Full::default())
        .unwrap();
    let mut body = client.send_request(request).await.unwrap().into_body();
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().unwrap_or_default();
        for _ in data.iter().filter(|b| **b == b'\n') {
            if seen.send(Instant::now()).is_err() {
                return;
            }
        }
    }
}

fn map(name: &str, n: usize) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "load"}}, "data": {"n": n.to_string(), "pad": "x".repeat(400)}})
}

fn quantiles(mut all: Vec<Duration>) -> String {
    all.sort();
    let at = |q: usize| all[(all.len() - 1) * q / 100].as_secs_f64() * 1000.0;
    format!("median {:.2} ms, p99 {:.2} ms", at(50), at(99))
}

async fn writes(dir: &std::path::Path, count: usize, clients: usize) {
    let mut syncs = Vec::new();
    let mut file = std::fs::File::create(dir.join("sync")).unwrap();
    for _ in 0..100 {
        file.write_all(&[0; 4096]).unwrap();
        let start = Instant::now();
        file.sync_data().unwrap();
        syncs.push(start.elapsed());
    }
    println!("one sync of the disk: {}", quantiles(syncs));
    let address = server(dir).await;
    let (seen, mut events) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(watcher(address, seen));
    let mut single = Vec::new();
    let mut client = connect(address).await;
    for n in 0..200 {
        let start = Instant::now();
        send(
            &mut client,
            "POST",
            MAPS,
            map(&format!("single-{n}"), n).to_string(),
        )
        .await;
        single.push(start.elapsed());
    }
    println!("one write at a time: {}", quantiles(single));
    let start = Instant::now();
    let tasks = (0..clients).map(|c| {
        tokio::spawn(async move {
            let mut client = connect(address).await;
            let mut took = Vec::new();
            for n in 0..count / clients {
                let start = Instant::now();
                send(
                    &mut client,
                    "POST",
                    MAPS,
                    map(&format!("c{c}-{n}"), n).to_string(),
                )
                .await;
                took.push(start.elapsed());
            }
            took
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await.unwrap());
    }
    let took = start.elapsed();
    println!(
        "{} writes by {clients} clients in {:.2} s: {:.0}/s, {}",
        all.len(),
        took.as_secs_f64(),
        all.len() as f64 / took.as_secs_f64(),
        quantiles(all.clone())
    );
    for _ in 0..all.len() + 200 {
        events.recv().await.unwrap();
    }
    println!(
        "the watch saw all of them {:.0} ms after the last was answered",
        (start.elapsed().saturating_sub(took)).as_secs_f64() * 1000.0
    );
}

async fn fill(dir: &std::path::Path, objects: usize) {
    let store = Store::open(dir, Keep::default()).unwrap();
    for chunk in (0..objects).collect::<Vec<_>>().chunks(1000) {
        let ops = chunk.iter().map(|n| {
                let name = format!("route-{n}");
                let host = format!("svc-{}.example.com", n % 5000);
                let object = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
                    "metadata": {"name": name, "namespace": "default", "uid": format!("{n:036}"), "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "load"}},
                    "spec": {"hosts": [host], "http": [{"route": [{"destination": {"host": host}, "weight": 90}, {"destination": {"host": "other"}, "weight": 10}]}]}});
                Op { resource: "virtualservices.networking.istio.io".into(), id: ObjectId::new("default", &name), expect: Expect::Absent, put: Some(object) }
            });
        store.write(ops.collect(), Author::default()).await.unwrap();
    }
}

/// Resident memory of this process in MB.
fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kb = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kb.unwrap_or(0) / 1000
}

async fn start(dir: &std::path::Path, objects: usize) {
    fill(dir, objects).await;
    open(dir).await;
}

async fn open(dir: &std::path::Path) {
    let start = Instant::now();
    let store = loop {
        match Store::open(dir, Keep::default()) {
            Err(StoreError::InUse) => tokio::time::sleep(Duration::from_millis(1)).await,
            other => break other.unwrap(),
        }
    };
    println!(
        "opened and checked in {:.2} s, {} MB resident",
        start.elapsed().as_secs_f64(),
        resident_mb()
    );
    let id = Owner::new(0, "api");
    let (sink, mut said) = Sink::channel(id.clone(), 64);
    tokio::spawn(Box::new(ApiSource::new(id, store)).run(sink, CancellationToken::new()));
    let (mut told, mut kept) = (0, Vec::new());
    while let Some(next) = said.recv().await {
        if let SourceEvent::Changes(changes) = next.event {
            told += changes
                .iter()
                .filter(|c| matches!(c, Change::Put(..)))
                .count();
            let all = changes.iter().any(|c| matches!(c, Change::Synced(_)));
            kept.push(changes);
            if all {
                break;
            }
        }
    }
    println!(
        "{told} objects read for generation after {:.2} s, {} MB resident with them",
        start.elapsed().as_secs_f64(),
        resident_mb()
    );
}

async fn watch(dir: &std::path::Path, clients: usize) {
    let address = server(dir).await;
    let (seen, mut events) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..clients {
        tokio::spawn(watcher(address, seen.clone()));
    }
    // Every watch sees this one before anything is timed.
    let mut client = connect(address).await;
    send(&mut client, "POST", MAPS, map("first", 0).to_string()).await;
    for _ in 0..clients {
        events.recv().await.unwrap();
    }
    let mut took = Vec::new();
    for n in 0..20 {
        let start = Instant::now();
        send(
            &mut client,
            "POST",
            MAPS,
            map(&format!("m{n}"), n).to_string(),
        )
        .await;
        let mut last = start;
        for _ in 0..clients {
            last = events.recv().await.unwrap();
        }
        took.push(last - start);
    }
    println!(
        "{clients} watches have seen a write: {} after it was sent",
        quantiles(took)
    );
}
