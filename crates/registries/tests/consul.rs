//! A real Consul that is filled, killed and started anew. It is built by `../shared/tools/backends`; without it nothing is
//! tested, which is said loudly, unless `PILOTHOUSE_REQUIRE_BACKENDS=1`.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use model::Change;
use model::kinds::AnyObject;
use model::kinds::higress::Registry;
use pilothouse_registries::entry::{Credentials, Entry};
use pilothouse_registries::keeper::{Keep, Patience};
use pilothouse_registries::limits::Limits;
use pilothouse_registries::source::RegistrySource;
use pilothouse_registries::state::State;
use serde_json::{Value, json};
use source_api::{Delivery, Sink, Source};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

/// A Consul, which ends with this.
struct Consul {
    port: u16,
}

impl Consul {
    fn script() -> Option<PathBuf> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../../shared/tools/backends/bin/consul.sh");
        let cache = std::env::var_os("BACKENDS_CACHE").map(PathBuf::from);
        let is_built = cache.is_some_and(|cache| cache.join("consultest").exists());
        if script.exists() && is_built {
            return Some(script);
        }
        let required = std::env::var_os("PILOTHOUSE_REQUIRE_BACKENDS").is_some();
        assert!(!required, "there is no Consul in $BACKENDS_CACHE");
        eprintln!("SKIPPED: there is no Consul in $BACKENDS_CACHE, and nothing was tested.");
        None
    }

    fn run(&self, word: &str) {
        let Some(script) = Self::script() else { return };
        let done = Command::new(script)
            .arg(word)
            .env("PORT", self.port.to_string())
            .env(
                "BACKENDS_RUN",
                std::env::temp_dir().join(format!("consul-{}", self.port)),
            )
            .stdout(Stdio::null())
            .status();
        assert!(done.is_ok_and(|status| status.success()), "{word}");
    }

    fn start(port: u16) -> Option<Self> {
        Self::script()?;
        let consul = Self { port };
        consul.run("start");
        Some(consul)
    }

    async fn put(&self, path: &str, body: &Value) {
        let body = body.to_string();
        let request = format!(
            "PUT {path} HTTP/1.1\r\nHost: consul\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port))
            .await
            .unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    async fn register(&self, service: &str, n: u32) {
        let body = json!({
            "ID": format!("{service}-{n}"), "Name": service, "Port": 80, "Tags": ["t"],
            "Address": format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255),
            "Meta": {"version": "v1"},
        });
        self.put("/v1/agent/service/register", &body).await;
    }

    async fn deregister(&self, service: &str, n: u32) {
        let path = format!("/v1/agent/service/deregister/{service}-{n}");
        self.put(&path, &Value::Null).await;
    }
}

impl Drop for Consul {
    fn drop(&mut self) {
        self.run("stop");
    }
}

/// What is read of it.
struct Read {
    deliveries: UnboundedReceiver<Delivery>,
    services: BTreeMap<String, usize>,
    synced: bool,
    state: State,
    stop: CancellationToken,
}

impl Read {
    fn start(port: u16, empty: Keep) -> Self {
        let stated = Registry {
            registry_type: "consul".into(),
            name: "c".into(),
            domain: "127.0.0.1".into(),
            port: port.into(),
            consul_service_tag: "t".into(),
            ..Registry::default()
        };
        let entry = Entry::new(stated, Credentials::default(), None).unwrap();
        let state = State::default();
        let outage = Keep::Forever;
        let source = RegistrySource {
            making: entry.making(&"edge".into()),
            patience: Patience { empty, outage },
            limits: Limits::default(),
            open: entry.open(),
            state: state.clone(),
        };
        let stop = CancellationToken::new();
        let (sink, deliveries) = Sink::channel(entry.key().owner(), 64);
        tokio::spawn(Box::new(source).run(sink, stop.clone()));
        Self {
            deliveries,
            services: BTreeMap::new(),
            synced: false,
            state,
            stop,
        }
    }

    /// Takes in what comes until something holds, for at most a minute.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            let left = end.saturating_duration_since(Instant::now());
            let delivery = tokio::time::timeout(left, self.deliveries.recv()).await;
            let shown = (&self.services, self.state.get());
            let delivery = delivery.unwrap_or_else(|_| panic!("{what}: {shown:?}"));
            for change in delivery.unwrap().event.changes() {
                match change {
                    Change::Put(_, AnyObject::ServiceEntry(entry)) => {
                        let name = entry.meta.name.name.to_string();
                        self.services.insert(name, entry.spec.endpoints.len());
                    }
                    Change::Delete(_, key) => _ = self.services.remove(&*key.name.name),
                    Change::Synced(_) => self.synced = true,
                    _ => {}
                }
            }
        }
    }

    fn of(&self, service: &str) -> Option<usize> {
        self.services.get(&format!("{service}.dc1.consul")).copied()
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_come_change_and_go() {
    let Some(consul) = Consul::start(28_500) else {
        return;
    };
    consul.register("my_shop", 1).await;
    let mut read = Read::start(consul.port, Keep::For(Duration::ZERO));
    read.until("a first answer", |r| r.synced && r.of("my-shop") == Some(1))
        .await;
    let mut times = Vec::new();
    for n in 2..42 {
        tokio::time::sleep(Duration::from_millis(120)).await;
        let start = Instant::now();
        consul.register("my_shop", n).await;
        read.until("another instance", |r| r.of("my-shop") == Some(n as usize))
            .await;
        times.push(start.elapsed());
    }
    times.sort();
    eprintln!(
        "register to change: p50 {:?}, worst {:?}",
        times[20], times[39]
    );
    assert!(times[20] < Duration::from_millis(50), "{times:?}");
    // Only what passes all its checks gets requests.
    let check = json!({"Name": "c", "ID": "c", "ServiceID": "my_shop-1", "TTL": "1h", "Status": "critical"});
    consul.put("/v1/agent/check/register", &check).await;
    read.until("an instance that is ill", |r| r.of("my-shop") == Some(40))
        .await;
    consul.put("/v1/agent/check/pass/c", &Value::Null).await;
    read.until("an instance that is well", |r| r.of("my-shop") == Some(41))
        .await;
    consul.register("other", 1).await;
    read.until("another service", |r| r.of("other") == Some(1))
        .await;
    consul.deregister("other", 1).await;
    read.until("a service that is gone", |r| r.of("other").is_none())
        .await;
    let untagged = json!({"Name": "untagged", "Port": 80});
    consul.put("/v1/agent/service/register", &untagged).await;
    consul.register("last", 1).await;
    read.until("a later service", |r| r.of("last") == Some(1))
        .await;
    assert_eq!(read.of("untagged"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consul_that_loses_its_data_takes_no_endpoints_away() {
    let Some(consul) = Consul::start(28_600) else {
        return;
    };
    for service in ["a", "b"] {
        consul.register(service, 1).await;
    }
    let mut read = Read::start(consul.port, Keep::For(Duration::from_secs(8)));
    read.until("a first answer", |r| r.synced && r.services.len() == 2)
        .await;
    consul.run("stop");
    while read.state.get().connected {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // In development mode it keeps nothing.
    consul.run("start");
    let back = Instant::now();
    while !read.state.get().connected {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    eprintln!("read again after {:?}", back.elapsed());
    assert!(read.deliveries.try_recv().is_err(), "nothing has changed");
    assert_eq!(read.state.get().figures.services, 2);
    consul.register("a", 1).await;
    let start = Instant::now();
    read.until("what did not come back", |r| r.of("b").is_none())
        .await;
    assert!(
        start.elapsed() > Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(read.of("a"), Some(1));
    consul.register("a", 2).await;
    read.until("a change", |r| r.of("a") == Some(2)).await;
}
