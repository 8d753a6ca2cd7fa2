//! The server under load: started for the run, and watched from outside.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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

/// A server that was started for the run; it is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) xds: SocketAddr,
    http: SocketAddr,
    /// Where the API is, if it is served.
    pub(super) api: Api,
    started: Instant,
}

impl Process {
    /// Starts `program serve` on free ports, for a folder of manifests or for the store into which they are brought.
    pub(super) fn start(program: &Path, folder: &Path, through: Way) -> io::Result<Self> {
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let (xds, http, api) = (free()?, free()?, Api(free()?));
        let mut command = Command::new(program);
        command.arg("serve");
        if through == Way::Api {
            command.arg("--data").arg(data(folder));
            command.arg("--insecure-local");
            command.args(["--api-addr", &api.0.to_string()]);
        } else {
            command.arg("--config-dir").arg(folder);
        }
        let child = command
            .args(["--grpc-addr", &xds.to_string()])
            .args(["--http-addr", &http.to_string()])
            .args(["--log", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self {
            child,
            xds,
            http,
            api,
            started: Instant::now(),
        })
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

    /// Waits until it says that it is ready, and tells how long that took.
    pub(super) fn ready(&mut self, limit: Duration) -> io::Result<Duration> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended with {status}")));
            }
            if self
                .get("/ready")
                .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
            {
                return Ok(self.started.elapsed());
            }
            if self.started.elapsed() > limit {
                return Err(io::Error::other("the server is not ready"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A page of its own, head and all.
    fn get(&self, path: &str) -> io::Result<String> {
        let mut socket = TcpStream::connect(self.http)?;
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
        usage(self.child.id()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the store is that the manifests of a folder are brought into.
pub(super) fn data(folder: &Path) -> PathBuf {
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
