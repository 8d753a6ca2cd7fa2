//! Real registries for tests: the scripts of `../shared/tools/backends`, where they are installed.

pub(crate) mod scale;
mod through;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::report::{Instance, Registry, RegistryError, Report};

/// Files of a certificate and its key.
pub(crate) const CERTIFICATE: [&str; 2] = ["cert.pem", "key.pem"];

/// Makes a certificate for `localhost` that signs itself: its file in the folder, and that of its key.
pub(crate) fn certificate(folder: &Path) -> [PathBuf; 2] {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = CERTIFICATE.map(|name| folder.join(name));
    std::fs::write(&files[0], made.cert.pem()).unwrap();
    std::fs::write(&files[1], made.signing_key.serialize_pem()).unwrap();
    files
}

/// A registry that runs; it ends with this.
pub(crate) struct Backend {
    script: PathBuf,
    run: tempfile::TempDir,
    /// Where it listens.
    pub(crate) port: u16,
    name: &'static str,
    environment: Vec<(&'static str, String)>,
    _turn: MutexGuard<'static, ()>,
}

/// One at a time: several that start at once are too slow on a small machine.
static TURN: Mutex<()> = Mutex::new(());

impl Backend {
    /// Starts one, or says loudly that the test tests nothing. `PILOTHOUSE_REQUIRE_BACKENDS=1` makes that a failure.
    pub(crate) fn start(
        name: &'static str,
        port: u16,
        environment: &[(&'static str, &str)],
    ) -> Option<Self> {
        let cache = std::env::var_os("BACKENDS_CACHE").map(PathBuf::from);
        let home =
            || std::env::var_os("HOME").map(|h| Path::new(&h).join(".cache/mesh-test-backends"));
        let is_installed = |c: &PathBuf| c.join(name).join("ok").is_file();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let script = root.join(format!("shared/tools/backends/bin/{name}.sh"));
        if !cache.or_else(home).as_ref().is_some_and(is_installed) || !script.is_file() {
            let required =
                std::env::var_os("PILOTHOUSE_REQUIRE_BACKENDS").is_some_and(|v| v == "1");
            assert!(!required, "{name} is required and not installed");
            eprintln!("SKIPPED: there is no {name} here, nothing was tested");
            return None;
        }
        let environment = environment.iter().map(|(k, v)| (*k, (*v).to_owned()));
        let backend = Self {
            script,
            run: tempfile::tempdir().unwrap(),
            port,
            name,
            environment: environment.collect(),
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
        };
        backend.call("start");
        Some(backend)
    }

    fn call(&self, verb: &str) {
        // On a machine that is busy, what a server waits for may be too late for it.
        let is_done = (0..3).any(|_| self.try_call(verb));
        assert!(is_done, "{verb} of {}", self.name);
    }

    fn try_call(&self, verb: &str) -> bool {
        let done = Command::new(&self.script)
            .arg(verb)
            .env("WAIT", "300")
            .env("PORT", self.port.to_string())
            .env("BACKENDS_RUN", self.run.path())
            .envs(self.environment.iter().map(|(k, v)| (*k, v)))
            .status()
            .unwrap();
        done.success()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> String {
        let file = self
            .run
            .path()
            .join(format!("{}-{}.pid", self.name, self.port));
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// Sends it a signal: `KILL`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let done = Command::new("kill")
            .args([format!("-{signal}"), self.pid()])
            .status();
        assert!(done.unwrap().success());
    }

    /// Starts a ZooKeeper again after it was killed, with its data.
    #[expect(
        clippy::zombie_processes,
        reason = "it is stopped by its pid, as the first one is"
    )]
    pub(crate) fn again(&self) {
        let cache = std::env::var("BACKENDS_CACHE").map(PathBuf::from);
        let home =
            || PathBuf::from(std::env::var("HOME").unwrap()).join(".cache/mesh-test-backends");
        let jars = cache.unwrap_or_else(|_| home()).join("zookeeper/classpath");
        let jars = std::fs::read_to_string(jars).unwrap();
        let named = format!("{}-{}", self.name, self.port);
        let process = Command::new("java")
            .args([
                "-cp",
                jars.trim(),
                "org.apache.zookeeper.server.ZooKeeperServerMain",
            ])
            .arg(self.run.path().join(&named).join("zoo.cfg"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let file = self.run.path().join(format!("{named}.pid"));
        std::fs::write(file, process.id().to_string()).unwrap();
    }

    /// Starts it again after it was killed, without its data.
    pub(crate) fn restart(&self) {
        self.call("stop");
        self.call("start");
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.call("stop");
    }
}

/// A registry that is read.
pub(crate) struct Read {
    reports: mpsc::Receiver<Report>,
    stop: CancellationToken,
    /// What reading it comes to.
    pub(crate) ended: JoinHandle<Result<(), RegistryError>>,
}

impl Drop for Read {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Read {
    /// Begins to read.
    pub(crate) fn new(registry: Box<dyn Registry>) -> Self {
        let (to, reports) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let ended = tokio::spawn(registry.read(to, stop.clone()));
        Self {
            reports,
            stop,
            ended,
        }
    }

    /// The next report.
    pub(crate) async fn next(&mut self) -> Report {
        let next = tokio::time::timeout(Duration::from_secs(60), self.reports.recv()).await;
        next.expect("a report within a minute").expect("it is read")
    }

    /// What comes until something does that is wanted, which is the last of it.
    pub(crate) async fn until(&mut self, is_wanted: impl Fn(&Report) -> bool) -> Vec<Report> {
        let mut came = Vec::new();
        loop {
            let next = self.next().await;
            let is_last = is_wanted(&next);
            came.push(next);
            if is_last {
                return came;
            }
        }
    }

    /// What comes until a service is as wanted; its instances.
    pub(crate) async fn service(
        &mut self,
        name: &str,
        is_wanted: impl Fn(&[Instance]) -> bool,
    ) -> Vec<Instance> {
        let is_it = |r: &Report| matches!(r, Report::Service(n, i) if **n == *name && is_wanted(i));
        match self.until(is_it).await.pop() {
            Some(Report::Service(_, instances)) => instances,
            _ => unreachable!("the last one is what is waited for"),
        }
    }

    /// Stops reading, and asserts that it ends soon and well.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(2), &mut self.ended).await;
        ended.expect("it stops").unwrap().unwrap();
    }
}

/// What so many measured times have in the middle, and nearly at the end.
pub(crate) fn figures(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!(
        "{} times: p50 {:?}, p90 {:?}, p99 {:?}, max {:?}",
        times.len(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    )
}

/// The memory of a process that is resident, in megabytes: `VmRSS` all of it, `RssAnon` what is no file's.
pub(crate) fn resident_mb(pid: &str, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(what)).unwrap();
    let kb = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    kb.parse::<u64>().unwrap() / 1024
}

/// What a process has used of processors, in milliseconds.
pub(crate) fn processor_ms(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name of the program, which may have spaces.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks * 10
}

/// Tries until something is there.
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "not within a minute"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
