//! A log that nobody reads: configuration is taken in all the same.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::support::{Running, exchange, found, pilothouse, request, until};

fn service(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{clusterIP: 10.0.0.9, ports: [{{name: http, port: 80}}]}}\n"
    )
}

/// A server over a folder whose log goes somewhere.
struct Unread {
    running: Running,
    folder: tempfile::TempDir,
    http: SocketAddr,
}

/// An address of this machine that nobody else listens on, and that no client is given: where the log cannot be read, it cannot
/// say which port the system chose.
fn vacant() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(18_080);
    let [.., high, low] = std::process::id().to_be_bytes();
    let port = NEXT.fetch_add(1, Ordering::Relaxed);
    SocketAddr::from(([127, 83, high, low], port))
}

impl Unread {
    /// Starts a server through `begin`, which is given its arguments.
    fn start(begin: impl FnOnce(&[&str]) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), service("a")).unwrap();
        let http = vacant();
        let (config, page) = (folder.path().to_str().unwrap(), http.to_string());
        let mut command = begin(&[
            "serve",
            "--config-dir",
            config,
            "--state-dir",
            "off",
            "--grpc-addr",
            "127.0.0.1:0",
            "--http-addr",
            &page,
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let running = Running(command.spawn().unwrap());
        Self {
            running,
            folder,
            http,
        }
    }

    fn get(&self, path: &str) -> Option<String> {
        let answer = exchange(self.http, &request("GET", path, "Host: localhost\r\n", ""))?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let page = self.get("/metrics")?;
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value?.parse().ok()
    }

    fn write(&self, name: &str, text: &str) {
        let at = self.folder.path();
        fs::write(at.join(".draft"), text).unwrap();
        fs::rename(at.join(".draft"), at.join(name)).unwrap();
    }

    /// Makes findings, which are logged, and then services; waits until they are served.
    fn edit(&self) {
        until("the server is ready", || self.get("/ready").is_some());
        for n in 0..20 {
            self.write(&format!("bad-{n}.yaml"), "kind: [\n");
        }
        let before = self.metric("pilot_services").unwrap();
        self.write("b.yaml", &service("b"));
        until("the new service is taken in", || {
            self.metric("pilot_services") == Some(before + 1.0)
        });
        assert!(self.get("/ready").is_some() && self.get("/live").is_some());
    }

    fn end(&mut self) -> ExitStatus {
        let id = self.running.0.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(sent.unwrap().success());
        found("the server ends", || self.running.0.try_wait().unwrap())
    }
}

/// The program with its standard error sent somewhere by a shell.
fn redirected(to: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("exec \"$0\" \"$@\" 2>{to}"))
        .arg(env!("CARGO_BIN_EXE_pilothouse"))
        .args(args);
    command
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    for to in ["&-", "/dev/full"] {
        let mut server = Unread::start(|args| redirected(to, args));
        server.edit();
        if to == "/dev/full" {
            let dropped = server.metric("pilothouse_log_lines_dropped_total");
            assert!(dropped > Some(0.0), "{dropped:?}");
        }
        let status = server.end();
        assert!(status.success(), "{to}: {status}");
    }
}

#[test]
fn a_reader_of_the_log_that_goes_stops_nothing() {
    let mut server = Unread::start(|args| {
        let mut command = pilothouse(args);
        command.stderr(Stdio::piped());
        command
    });
    let mut log = BufReader::new(server.running.0.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    drop(log);
    server.edit();
    let dropped = server.metric("pilothouse_log_lines_dropped_total");
    assert!(dropped > Some(0.0), "{dropped:?}");
    let status = server.end();
    assert!(status.success(), "{status}");
}

/// Fills a pipe to the brim.
fn fill(pipe: &mut std::io::PipeWriter) {
    rustix::io::ioctl_fionbio(&*pipe, true).unwrap();
    for size in [4096, 1] {
        while pipe.write(&vec![b'.'; size]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&*pipe, false).unwrap();
}

#[test]
fn a_full_pipe_that_nobody_reads_stops_nothing() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    let mut server = Unread::start(|args| {
        let mut command = pilothouse(args);
        command.stderr(writer);
        command
    });
    server.edit();

    // What waited meanwhile is written once somebody reads.
    let log = std::thread::spawn(move || {
        let mut log = Vec::new();
        reader.read_to_end(&mut log).unwrap();
        String::from_utf8_lossy(&log).into_owned()
    });
    let status = server.end();
    assert!(status.success(), "{status}");
    let log = log.join().unwrap();
    for words in ["Listening.", "bad-19.yaml", "Stopped."] {
        assert!(log.contains(words), "{words}\n{}", log.trim_matches('.'));
    }
}

#[test]
fn a_server_ends_though_its_log_is_never_read() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    let mut server = Unread::start(|args| {
        let mut command = pilothouse(args);
        command.stderr(writer);
        command
    });
    until("the server is ready", || server.get("/ready").is_some());
    let status = server.end();
    assert!(status.success(), "{status}");
    drop(reader);
}

#[test]
fn errors_at_the_start_and_unknown_levels_are_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let output = pilothouse(&[
        "serve",
        "--log",
        "verbose",
        "--config-dir",
        folder.path().to_str().unwrap(),
        "--grpc-addr",
        &address,
        "--http-addr",
        "127.0.0.1:0",
    ])
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("pilothouse: cannot listen on"), "{said}");
    assert!(said.contains("\"verbose\" is no level"), "{said}");
}

/// A command whose reader leaves after the first line: its status, and what it said of that.
fn left_early(args: &[&str], folder: &Path) -> (ExitStatus, String) {
    let mut command = pilothouse(args);
    command.current_dir(folder);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    let mut out = BufReader::with_capacity(64, child.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status, said)
}

#[test]
fn commands_end_quietly_when_their_reader_has_enough() {
    let folder = tempfile::tempdir().unwrap();
    for args in [&["crds"][..], &["permissions"]] {
        let (status, said) = left_early(args, folder.path());
        assert_eq!(said, "", "{args:?}");
        // More than a pipe holds is printed by the first, so that it notices.
        let noticed = status.code() == Some(141);
        assert!(noticed || args[0] != "crds", "{args:?}: {status}");
    }
}
