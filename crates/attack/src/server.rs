//! The server under attack: started for it, watched from outside, ended by SIGTERM.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tempfile::TempDir;

use crate::http1;
use crate::mesh::Mesh;

/// Processor time is told in these units, on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

/// Whether the Kubernetes API is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Api {
    /// It is not.
    Off,
    /// Without TLS, for everybody.
    Local,
    /// With TLS and the operator's token.
    Tls,
}

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// What it serves.
    pub mesh: Mesh,
    /// The API.
    pub api: Api,
    /// Whether xDS is served over TLS.
    pub secure: bool,
    /// Most descriptors that it may open.
    pub descriptors: Option<usize>,
    /// What lies in its folders before it starts; it is told the folder of all.
    pub before: fn(&Places) -> io::Result<()>,
    /// Options as variables of the environment, which a server that does not know them passes over.
    pub environment: &'static [(&'static str, &'static str)],
}

impl Setup {
    /// A mesh and xDS alone.
    pub const PLAIN: Self = Self {
        mesh: Mesh::THOUSAND,
        api: Api::Off,
        secure: false,
        descriptors: None,
        before: |_| Ok(()),
        environment: &[],
    };
}

/// The folders of a server, all in one.
#[derive(Clone, Debug)]
pub struct Places {
    /// The folder of all.
    pub root: PathBuf,
    /// Manifests.
    pub config: PathBuf,
    /// The store of the API.
    pub data: PathBuf,
    /// What the server prints.
    pub log: PathBuf,
    /// The audit log of the API.
    pub audit: PathBuf,
}

impl Places {
    /// Below a folder.
    pub fn of(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            config: root.join("config"),
            data: root.join("data"),
            log: root.join("log"),
            audit: root.join("audit"),
        }
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Usage {
    /// Seconds of processor time since it started.
    pub cpu_s: f64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// The most of it since [`Server::forget_peak`].
    pub peak_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// The shell makes way, so that what is measured is the server. The kernel ends the server when we end, where `setpriv` of
/// util-linux is there to ask for that.
const LAUNCH: &str = "setpriv --help 2>&1 | grep -q pdeathsig && exec setpriv --pdeathsig KILL -- \"$@\"; exec \"$@\"";

/// Memory at which the server is killed, so that what is found costs nobody else theirs.
const TOO_MUCH: u64 = 4 << 30;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Ends its watch over memory.
    over: Arc<AtomicBool>,
    /// Its folders.
    pub places: Places,
    /// xDS.
    pub xds: SocketAddr,
    /// xDS over TLS.
    pub secure: SocketAddr,
    /// Pages.
    pub http: SocketAddr,
    /// The API.
    pub api: SocketAddr,
    _folder: TempDir,
}

impl Server {
    /// Writes the mesh and starts a program for it, without waiting for it.
    ///
    /// # Errors
    /// When folders cannot be written or the program cannot be started.
    pub fn start(program: &Path, setup: &Setup) -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("pilothouse-attack-")?;
        let places = Places::of(folder.path());
        setup.mesh.write(&places.config)?;
        (setup.before)(&places)?;
        let address = address_of_its_own();
        let free = || TcpListener::bind((address, 0));
        // Held until all are known, so that each is another.
        let held = [free()?, free()?, free()?, free()?];
        let [xds, secure, http, api] = held.each_ref().map(TcpListener::local_addr);
        let (xds, secure, http, api) = (xds?, secure?, http?, api?);
        drop(held);
        let mut command = Command::new("sh");
        let limit = setup.descriptors.map(|n| format!("ulimit -n {n}; "));
        let line = limit.unwrap_or_default() + LAUNCH;
        command.args(["-c", &line, "sh"]).arg(program).arg("serve");
        command.arg("--config-dir").arg(&places.config);
        command.args(["--state-dir", "off", "--shutdown-duration", "2s"]);
        command.args(["--grpc-addr", &xds.to_string()]);
        command.args(["--http-addr", &http.to_string()]);
        let address = match setup.secure {
            true => secure.to_string(),
            false => "off".to_owned(),
        };
        command.args(["--secure-grpc-addr", &address]);
        if setup.api != Api::Off {
            command.arg("--data").arg(&places.data);
            command.args(["--api-addr", &api.to_string()]);
            command.arg("--api-audit-log").arg(&places.audit);
        }
        if setup.api == Api::Local {
            command.arg("--insecure-local");
        }
        let log = File::create(&places.log)?;
        let child = command
            .envs(setup.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let over = Arc::<AtomicBool>::default();
        watch(child.id(), Arc::clone(&over));
        Ok(Self {
            child,
            over,
            places,
            xds,
            secure,
            http,
            api,
            _folder: folder,
        })
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// When it ends before, or is not ready in time.
    pub async fn ready(&mut self, limit: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        while !is_ready(self.http).await {
            if let Some(status) = self.child.try_wait()? {
                let log = fs::read_to_string(&self.places.log).unwrap_or_default();
                bail!("the server ended ({status}): {}", log.trim());
            }
            if start.elapsed() > limit {
                bail!("the server is not ready after {limit:?}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Forgets the most memory that it ever had.
    pub fn forget_peak(&self) {
        // Where it cannot be forgotten, the peak is that of the whole life.
        let _ = fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }

    /// What it has used so far; nothing where the system does not tell.
    pub fn usage(&self) -> Usage {
        usage(self.child.id()).unwrap_or_default()
    }

    /// Asks it to end; false if it does not within a time, and is killed.
    pub async fn end(&mut self, limit: Duration) -> bool {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (true, Some(pid)) = (self.runs(), pid) {
            // It may have ended in between, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        let start = Instant::now();
        while self.runs() {
            if start.elapsed() > limit {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address that no other server has and no client connects from: what the system finds free there stays free.
fn address_of_its_own() -> Ipv4Addr {
    static SERVERS: AtomicU32 = AtomicU32::new(0);
    let servers = SERVERS.fetch_add(1, Ordering::Relaxed);
    let [_, _, third, fourth] = std::process::id()
        .wrapping_mul(64)
        .wrapping_add(servers)
        .to_be_bytes();
    Ipv4Addr::new(127, 67, third, fourth)
}

/// Whether a server says within two seconds that it is ready.
pub async fn is_ready(http: SocketAddr) -> bool {
    let ask = http1::get(http, Ipv4Addr::LOCALHOST, "/ready", &[]);
    let answer = tokio::time::timeout(Duration::from_secs(2), ask).await;
    answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status == 200))
}

/// Kills a process that takes too much memory, until `over`.
fn watch(pid: u32, over: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            let taken = usage(pid).map_or(0, |usage| usage.rss_bytes);
            let ours = parent(pid) == Some(std::process::id());
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let (true, true, Some(pid)) = (taken > TOO_MUCH, ours, pid) {
                let _ = kill_process(pid, Signal::KILL);
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

/// The fields of `/proc/PID/stat` behind the name.
fn fields(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn parent(pid: u32) -> Option<u32> {
    fields(pid)?.get(1)?.parse().ok()
}

fn usage(pid: u32) -> Option<Usage> {
    let fields = fields(pid)?;
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some(Usage {
        cpu_s: ticks / TICKS_PER_SECOND,
        rss_bytes: number("VmRSS:")? * 1024,
        peak_bytes: number("VmHWM:")? * 1024,
        threads: number("Threads:")?,
        descriptors: descriptors as u64,
    })
}
