//! Two replicas over one API, from outside: one writes, and when it is killed or stopped the other goes on.
//!
//! The API is our own, in a process that writes nothing; its audit log counts the writes. `WRITING_OBJECTS` sets how many
//! ServiceEntries there are, and `WRITING_LEASE` how long a lease lasts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Api, PATIENCE, Server, until};

/// The lock for addresses of ServiceEntries.
const ADDRESSES: &str = "istio-ip-autoallocate";
/// The lock for what is deployed for Gateways.
const DEPLOYMENTS: &str = "istio-gateway-deployment";
const ENTRIES: &str = "/apis/networking.istio.io/v1/namespaces/default/serviceentries";

/// What a server shows of a lock.
fn lock(server: &Server, name: &str) -> Value {
    let page = server.json("/debug/writing");
    let locks = page["locks"].as_array().into_iter().flatten();
    let mut named = locks.filter(|lock| lock["lock"] == name);
    named.next().cloned().unwrap_or_default()
}

/// Whether it leads the writing of addresses.
fn leads(server: &Server) -> bool {
    lock(server, ADDRESSES)["leads"] == true
}

struct World {
    api: Api,
    audit: PathBuf,
    kubeconfig: PathBuf,
    lease: String,
    _dir: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (audit, kubeconfig) = (dir.path().join("audit.log"), dir.path().join("kubeconfig"));
        let flags = [
            "--api-audit-log",
            audit.to_str().unwrap(),
            "--write-status=false",
        ];
        let api = Api::start(&dir.path().join("data"), &flags);
        fs::write(&kubeconfig, api.kubeconfig()).unwrap();
        let lease = std::env::var("WRITING_LEASE").unwrap_or_else(|_| "4s".to_owned());
        until("the API answers", || !api.get("/version").is_null());
        Self {
            api,
            audit,
            kubeconfig,
            lease,
            _dir: dir,
        }
    }

    fn replica(&self, name: &str) -> Server {
        let file = self.kubeconfig.to_str().unwrap();
        Server::start(&[
            "--state-dir",
            "off",
            "--kubeconfig",
            file,
            "--write",
            "--pod-name",
            name,
            "--lease-duration",
            &self.lease,
        ])
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
        let made = self.api.create(ENTRIES, &entry);
        assert_eq!(made["metadata"]["name"], name, "{made}");
    }

    /// The addresses that entries have, by entry; those without any are left out.
    fn addresses(&self) -> BTreeMap<String, Vec<String>> {
        let list = self.api.get(ENTRIES);
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

/// Waits until something holds, and says how long that took.
fn wait(what: &str, holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    until(what, holds);
    start.elapsed()
}

#[test]
fn when_the_writer_is_killed_or_stopped_the_other_goes_on_and_nothing_is_written_twice() {
    let count: usize = std::env::var("WRITING_OBJECTS").map_or(40, |n| n.parse().unwrap());
    let world = World::start();
    for index in 0..count {
        world.create(&format!("entry-{index}"));
    }
    let mut first = world.replica("first");
    wait("the first leads", || leads(&first));
    let took = wait("all have addresses", || world.addresses().len() == count);
    println!("{count} statuses were written in {took:?}");
    let mut second = world.replica("second");
    for lock in [ADDRESSES, DEPLOYMENTS] {
        wait("the second is there", || {
            self::lock(&second, lock)["holder"] == "first"
        });
    }
    first.end("KILL");
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
        lock(&third, ADDRESSES)["holder"] == "second"
    });
    second.end("TERM");
    world.create("stopped");
    let took = wait("the third goes on", || world.addresses().len() == count + 2);
    println!("after SIGTERM the next write came after {took:?}");
    let before = world.addresses();
    drop(third);
    let fourth = world.replica("fourth");
    wait("the fourth leads", || leads(&fourth));
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
    let api = Api::start(&dir.path().join("data"), &["--ingress-class", "nginx"]);
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
    api.create(ingresses, &ingress);
    api.create("/api/v1/namespaces/default/services", &service);
    let end = Instant::now() + PATIENCE;
    let said = |kind: &str, words: &str| {
        loop {
            let all = api.get("/api/v1/namespaces/default/events");
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
    api.ask("PUT", &format!("{ingresses}/front"), &ingress);
    said("Normal", "as it is written");
}
