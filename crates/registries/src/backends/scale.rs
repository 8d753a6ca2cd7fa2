//! The program itself while it reads a registry with many services: how soon it has all of them, what it takes, and how
//! soon it has a change, beside a plain client that waits for that service alone.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{eventually, figures, processor_ms, resident_mb};
use crate::http::{Ask, Connection};

/// Services that are registered: 5,000, or what `SERVICES` says.
pub(crate) fn services() -> usize {
    let stated = std::env::var("SERVICES").ok();
    stated.map_or(5000, |n| n.parse().expect("SERVICES is a number"))
}

/// Instances of each.
pub(crate) const INSTANCES: usize = 20;
/// Changes that are measured.
const CHANGES: usize = 100;
/// How long nothing changes while the processor is looked at.
const IDLE: Duration = Duration::from_secs(30);

/// Where instance `n` of a service is.
pub(crate) fn address(service: usize, n: usize) -> String {
    format!("10.{}.{}.{n}", service / 250, service % 250)
}

/// `pilothouse serve`; it ends with this.
pub(crate) struct Program {
    child: Child,
    start: Instant,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    /// Starts the program that `PILOTHOUSE_BIN` names, with a registry; it listens on `port` and the next two.
    pub(crate) fn start(registry: &str, port: u16, environment: &[(&str, &str)]) -> Self {
        let program = std::env::var("PILOTHOUSE_BIN").expect("PILOTHOUSE_BIN names the program");
        let folder = tempfile::tempdir().unwrap();
        let address = |n: u16| format!("127.0.0.1:{}", port + n);
        let child = Command::new(program)
            .args(["serve", "--registry", registry, "--config-dir"])
            .arg(folder.path())
            .args(["--http-addr", &address(0), "--grpc-addr", &address(1)])
            .args(["--registry-empty", "keep"])
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .spawn();
        Self {
            child: child.unwrap(),
            start: Instant::now(),
            port,
            _folder: folder,
        }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn print_memory(&self) {
        let [all, own] = ["VmRSS", "RssAnon"].map(|what| resident_mb(&self.pid(), what));
        println!("memory: {all} MB resident, {own} MB of them anonymous");
    }

    /// Measures all that there is to measure. `change` makes another instance of a service and returns when it did, and
    /// when the plain client had it; `beside` are instances that the registry has of itself.
    pub(crate) async fn measure(
        &self,
        beside: usize,
        mut change: impl AsyncFnMut(usize) -> (Instant, JoinHandle<Instant>),
    ) {
        let page = Page(format!("127.0.0.1:{}", self.port));
        let services = services();
        let all = services * INSTANCES + beside;
        page.until(Duration::from_secs(300), |row| {
            count(row) == all && row["synced"] == true
        })
        .await;
        println!(
            "{services} services, {all} instances after {:?}",
            self.start.elapsed()
        );
        println!("processor until then: {} ms", processor_ms(&self.pid()));
        sleep(Duration::from_secs(10)).await;
        let before = processor_ms(&self.pid());
        sleep(IDLE).await;
        let used = processor_ms(&self.pid()) - before;
        let share = used as f64 / IDLE.as_millis() as f64 * 100.0;
        println!("idle: {used} ms of a processor in {IDLE:?}, {share:.2} %");
        self.print_memory();
        let (mut own, mut ours, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..CHANGES {
            // Each of another service, and none that changed lately.
            let (at, plain) = change(n * 47 % services).await;
            let row = page.until(Duration::from_secs(120), |row| count(row) > all + n);
            let here = row.await;
            let there = plain.await.unwrap();
            own.push(there - at);
            ours.push(here - at);
            beyond.push(here.saturating_duration_since(there));
            sleep(Duration::from_millis(200)).await;
        }
        println!("change to the plain client: {}", figures(own));
        println!("change to our report: {}", figures(ours));
        println!("of that beyond the plain client: {}", figures(beyond));
        self.print_memory();
    }
}

fn count(row: &Value) -> usize {
    let count = row["instances"].as_u64().unwrap_or(0);
    usize::try_from(count).unwrap()
}

/// `/debug/registries` of the program at an address.
struct Page(String);

impl Page {
    /// Looks until the only row is as wanted, and says when it was.
    async fn until(&self, time: Duration, is_wanted: impl Fn(&Value) -> bool) -> Instant {
        let start = Instant::now();
        let mut connection = eventually(async || Connection::open(&self.0).await.ok()).await;
        loop {
            let ask = Ask {
                target: "/debug/registries",
                ..Ask::default()
            };
            let (_, body) = connection.ask(ask, 1 << 20).await.unwrap();
            let rows: Value = serde_json::from_slice(&body).unwrap();
            let now = Instant::now();
            if is_wanted(&rows[0]) {
                return now;
            }
            assert!(now - start < time, "{rows}");
            sleep(Duration::from_millis(2)).await;
        }
    }
}
