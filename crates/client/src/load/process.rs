//! The server under load: started for the run, and watched from outside.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::api::Api;
use super::scenario::Way;

/// Processor time is told in these units, on every Linux there is.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Usage {
    /// Seconds of processor time since it started.
    pub cpu_s: f64,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// A revision, as the server's page tells of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Revision {
    revision: u64,
    responses: u64,
    last_write_ms: f64,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub(super) enum Launch {
    /// `program serve` with these flags, for a folder of manifests or for the store into which they are brought.
    Program(PathBuf, Way, &'static [&'static str]),
    /// A line for the shell, of any server; `{folder}`, `{xds}` and `{http}` become the folder and the addresses, `{secure}` the
    /// address for TLS and `{ca}` the folder of the CA that is to sign, if proxies connect over TLS.
    Line(String),
}

/// Where a server listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    xds: SocketAddr,
    secure: SocketAddr,
    http: SocketAddr,
    api: SocketAddr,
}

/// What a server has besides its program.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    /// Manifests.
    pub(super) mesh: PathBuf,
    /// Where it keeps what it needs for the next start.
    pub(super) state: Option<PathBuf>,
    /// The CA, if proxies connect over TLS.
    pub(super) ca: Option<PathBuf>,
}

/// A server that was started for the run; it is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    launch: Launch,
    folders: Folders,
    addresses: Addresses,
    /// Where the API is, if it is served.
    pub(super) api: Api,
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    started: Instant,
}

impl Process {
    /// Starts a server on free ports, for these folders.
    pub(super) fn start(launch: Launch, folders: Folders) -> io::Result<Self> {
        // Held until all are known, so that each is another.
        let free = || TcpListener::bind("127.0.0.1:0");
        let held = [free()?, free()?, free()?, free()?];
        let [xds, secure, http, api] = held.each_ref().map(TcpListener::local_addr);
        let addresses = Addresses {
            xds: xds?,
            secure: secure?,
            http: http?,
            api: api?,
        };
        drop(held);
        let running = launch.start(&folders, addresses)?;
        Ok(Self {
            launch,
            folders,
            api: Api(addresses.api),
            addresses,
            running: Mutex::new(running),
        })
    }

    /// Where proxies connect to.
    pub(super) fn xds(&self) -> SocketAddr {
        match self.folders.ca {
            Some(_) => self.addresses.secure,
            None => self.addresses.xds,
        }
    }

    /// Brings the manifests of a folder into the store that it serves.
    pub(super) fn import(&self, program: &Path, folder: &Path) -> io::Result<()> {
        let done = Command::new(program)
            .arg("import")
            .arg(folder)
            .arg("--data")
            .arg(data(folder))
            .stdin(Stdio::null())
            .output()?;
        if done.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        let status = done.status;
        Err(io::Error::other(format!("import: {status}; {words}")))
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills it, as a crash would.
    pub(super) fn kill(&self) -> io::Result<()> {
        let mut running = self.running();
        running.child.kill()?;
        running.child.wait()?;
        Ok(())
    }

    /// Starts it again, in its place.
    pub(super) fn start_again(&self) -> io::Result<()> {
        *self.running() = self.launch.start(&self.folders, self.addresses)?;
        Ok(())
    }

    /// Whether it has saved something for the next start.
    pub(super) fn has_saved(&self) -> bool {
        let page = self.get("/debug/warm");
        page.is_ok_and(|page| page.contains("\"bytesWritten\""))
    }

    /// Waits until it says that it is ready, and tells how long that took.
    pub(super) fn ready(&self, limit: Duration) -> io::Result<Duration> {
        let started = self.running().started;
        loop {
            if let Some(status) = self.running().child.try_wait()? {
                return Err(io::Error::other(format!("the server ended with {status}")));
            }
            if self
                .get("/ready")
                .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
            {
                return Ok(started.elapsed());
            }
            if started.elapsed() > limit {
                return Err(io::Error::other("the server is not ready"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A page of its own, head and all.
    fn get(&self, path: &str) -> io::Result<String> {
        let mut socket = TcpStream::connect(self.addresses.http)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(
            socket,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// From the newest change after revision `seen` to the last response that the server wrote because of it, as the
    /// server tells, and that revision; `None` where it does not tell.
    pub(super) fn last_write(&self, seen: u64) -> Option<(u64, Duration)> {
        let answer = self.get(&format!("/debug/revisions?after={seen}")).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let revisions: Vec<Revision> = serde_json::from_str(body).ok()?;
        let newest = revisions.iter().rfind(|r| r.responses > 0)?;
        let after = Duration::try_from_secs_f64(newest.last_write_ms / 1e3).ok()?;
        Some((newest.revision, after))
    }

    /// What it has used so far; nothing where the system does not tell.
    pub(super) fn usage(&self) -> Usage {
        usage(self.running().child.id()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has nothing to lose.
        let mut running = self.running();
        let _ = running.child.kill();
        let _ = running.child.wait();
    }
}

impl Launch {
    fn start(&self, folders: &Folders, addresses: Addresses) -> io::Result<Running> {
        let Addresses {
            xds,
            secure,
            http,
            api,
        } = addresses;
        let [xds, secure, http, api] = [xds, secure, http, api].map(|a| a.to_string());
        let Folders { mesh, state, ca } = folders;
        let mut command = match self {
            Launch::Program(program, through, flags) => {
                let mut command = Command::new(program);
                command.arg("serve").args(*flags);
                if *through == Way::Api {
                    command.arg("--data").arg(data(mesh));
                    command.arg("--insecure-local");
                    command.args(["--api-addr", &api]);
                } else {
                    command.arg("--config-dir").arg(mesh);
                }
                command.args(["--grpc-addr", &xds, "--http-addr", &http]);
                command.args(["--log", "error"]);
                if let Some(state) = state {
                    command.arg("--state-dir").arg(state);
                    command.args(["--state-interval", "1s"]);
                }
                if let Some(ca) = ca {
                    command.args(["--secure-grpc-addr", &secure]);
                    command.env("ROOT_CA_DIR", ca);
                }
                command
            }
            Launch::Line(line) => {
                let ca = ca.as_deref().unwrap_or(Path::new("")).to_string_lossy();
                let line = line
                    .replace("{folder}", &mesh.to_string_lossy())
                    .replace("{ca}", &ca)
                    .replace("{xds}", &xds)
                    .replace("{secure}", &secure)
                    .replace("{http}", &http);
                let mut command = Command::new("sh");
                // The shell makes way, so that what is measured is the server.
                command.arg("-c").arg(format!("exec {line}"));
                command
            }
        };
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        Ok(Running { child, started })
    }
}

/// Where the store is that the manifests of a folder are brought into.
fn data(folder: &Path) -> PathBuf {
    folder.with_extension("data")
}

fn usage(pid: u32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rss = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = rss.split_whitespace().next()?.parse().ok()?;
    Some(Usage {
        cpu_s: ticks / TICKS_PER_SECOND,
        rss_bytes: kilobytes * 1024,
    })
}
