//! Two replicas over one API, from outside: one writes, and when it is killed or stopped the other goes on.
//!
//! The API is our own, in a process that writes nothing; its audit log counts the writes. `WRITING_OBJECTS` sets how many
//! ServiceEntries there are, and `WRITING_LEASE` how long a lease lasts.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take on a busy machine, beyond what it has to.
const PATIENCE: Duration = Duration::from_secs(120);
/// The lock for addresses of ServiceEntries.
const ADDRESSES: &str = "istio-ip-autoallocate";
/// The lock for what is deployed for Gateways.
const DEPLOYMENTS: &str = "istio-gateway-deployment";
const ENTRIES: &str = "/apis/networking.istio.io/v1/namespaces/default/serviceentries";

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A request of HTTP/1.1, and its answer's JSON; null where there is none.
fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let Ok(mut socket) = TcpStream::connect(address) else {
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

    /// What it shows of a lock.
    fn lock(&self, name: &str) -> Value {
        let page = ask(self.http, "GET", "/debug/writing", &Value::Null);
        let locks = page["locks"].as_array().into_iter().flatten();
        let mut named = locks.filter(|lock| lock["lock"] == name);
        named.next().cloned().unwrap_or_default()
    }

    /// Whether it leads the writing of addresses.
    fn leads(&self) -> bool {
        self.lock(ADDRESSES)["leads"] == true
    }

    fn signal(mut self, name: &str) {
        let id = self.child.id().to_string();
        Command::new("kill")
            .args(["-s", name, &id])
            .status()
            .unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct World {
    api: SocketAddr,
    audit: PathBuf,
    kubeconfig: PathBuf,
    lease: String,
    _server: Process,
    _dir: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (api, audit, kubeconfig) = (free(), path("audit.log"), path("kubeconfig"));
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let server = Process::start(&[
            "--data",
            &text(&path("data")),
            "--api-addr",
            &api.to_string(),
            "--api-audit-log",
            &text(&audit),
            "--insecure-local",
            "--write-status=false",
        ]);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{api}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        fs::write(&kubeconfig, config.to_string()).unwrap();
        let lease = std::env::var("WRITING_LEASE").unwrap_or_else(|_| "4s".to_owned());
        let world = Self {
            api,
            audit,
            kubeconfig,
            lease,
            _server: server,
            _dir: dir,
        };
        wait("the API answers", || !world.get("/version").is_null());
        world
    }

    fn get(&self, path: &str) -> Value {
        ask(self.api, "GET", path, &Value::Null)
    }

    fn replica(&self, name: &str) -> Process {
        let file = self.kubeconfig.to_str().unwrap();
        let more = [
            "--kubeconfig",
            file,
            "--pod-name",
            name,
            "--lease-duration",
            &self.lease,
        ];
        Process::start(&more)
    }

    fn create(&self, name: &str) {
        let entry = json!({
            "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "hosts": [format!("{name}.example.com")], "resolution": "DNS",
                "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
            },
        });
        let made = ask(self.api, "POST", ENTRIES, &entry);
        assert_eq!(made["metadata"]["name"], name, "{made}");
    }

    /// The addresses that entries have, by entry; those without any are left out.
    fn addresses(&self) -> BTreeMap<String, Vec<String>> {
        let list = self.get(ENTRIES);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let of = items.iter().filter_map(|item| {
            let addresses = item["status"]["addresses"].as_array()?;
            let texts = addresses.iter().map(|a| a["value"].to_string());
            Some((item["metadata"]["name"].to_string(), texts.collect()))
        });
        of.collect()
    }

    /// How often each status was written, by what the API's audit log says.
    fn writes(&self) -> BTreeMap<String, usize> {
        let mut writes = BTreeMap::new();
        for line in fs::read_to_string(&self.audit).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let path = line["path"].as_str().unwrap_or_default();
            let of_status = path.contains("/serviceentries/") && path.ends_with("/status");
            if of_status && line["method"] == "PUT" && line["code"] == 200 {
                *writes.entry(path.to_owned()).or_default() += 1;
            }
        }
        writes
    }
}

fn wait(what: &str, until: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !until() {
        assert!(start.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}

#[test]
fn when_the_writer_is_killed_or_stopped_the_other_goes_on_and_nothing_is_written_twice() {
    let count: usize = std::env::var("WRITING_OBJECTS").map_or(40, |n| n.parse().unwrap());
    let world = World::start();
    for index in 0..count {
        world.create(&format!("entry-{index}"));
    }
    let first = world.replica("first");
    wait("the first leads", || first.leads());
    let took = wait("all have addresses", || world.addresses().len() == count);
    println!("{count} statuses were written in {took:?}");
    let second = world.replica("second");
    for lock in [ADDRESSES, DEPLOYMENTS] {
        wait("the second is there", || {
            second.lock(lock)["holder"] == "first"
        });
    }
    first.signal("KILL");
    world.create("killed");
    let took = wait("the second goes on", || {
        world.addresses().len() == count + 1
    });
    println!(
        "after SIGKILL, with leases of {}, the next write came after {took:?}",
        world.lease
    );
    let third = world.replica("third");
    wait("the third is there", || {
        third.lock(ADDRESSES)["holder"] == "second"
    });
    second.signal("TERM");
    world.create("stopped");
    let took = wait("the third goes on", || world.addresses().len() == count + 2);
    println!("after SIGTERM the next write came after {took:?}");
    let before = world.addresses();
    drop(third);
    let fourth = world.replica("fourth");
    wait("the fourth leads", || fourth.leads());
    // Longer than an analysis waits for changes to cease.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(world.addresses(), before, "addresses stay");
    let all: Vec<&String> = before.values().flatten().collect();
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(
        (all.len(), distinct.len()),
        ((count + 2) * 2, (count + 2) * 2)
    );
    let writes = world.writes();
    assert_eq!(writes.len(), count + 2, "each was written");
    let twice: Vec<_> = writes.iter().filter(|(_, n)| **n != 1).collect();
    assert!(twice.is_empty(), "written twice: {twice:?}");
}

/// Of one server on a store of its own.
#[test]
fn what_is_wrong_with_an_ingress_is_said_in_one_event_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").display().to_string();
    let api = free();
    let api_addr = api.to_string();
    let store = ["--data", &data, "--api-addr", &api_addr];
    let more = ["--insecure-local", "--ingress-class", "nginx"];
    let _server = Process::start(&[store.as_slice(), more.as_slice()].concat());
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let mut ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "front", "annotations": {
            "nginx.ingress.kubernetes.io/auth-type": "basic",
            "nginx.ingress.kubernetes.io/auth-secret": "nowhere",
        }},
        "spec": {
            "ingressClassName": "nginx",
            "rules": [{"host": "a.example.com", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "front", "port": {"number": 80}}}},
            ]}}],
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"},
        "spec": {"ports": [{"port": 80}]},
    });
    let end = Instant::now() + PATIENCE;
    while ask(api, "POST", ingresses, &ingress)["kind"] != "Ingress" {
        assert!(Instant::now() < end, "the API does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    ask(api, "POST", "/api/v1/namespaces/default/services", &service);
    let said = |kind: &str, words: &str| {
        loop {
            let all = ask(
                api,
                "GET",
                "/api/v1/namespaces/default/events",
                &Value::Null,
            );
            let events = all["items"].as_array().cloned().unwrap_or_default();
            let is_so = |event: &Value| {
                let message = event["message"].as_str().unwrap_or_default();
                event["type"] == kind && message.contains(words)
            };
            if events.iter().any(is_so) {
                assert_eq!(events.len(), 1, "{all}");
                return events[0].clone();
            }
            assert!(Instant::now() < end, "no event says {words:?}: {all}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let event = said("Warning", "there is no Secret default/nowhere");
    assert_eq!(event["involvedObject"]["name"], "front");
    ingress["metadata"]["annotations"] = json!({});
    ask(api, "PUT", &format!("{ingresses}/front"), &ingress);
    said("Normal", "as it is written");
}
