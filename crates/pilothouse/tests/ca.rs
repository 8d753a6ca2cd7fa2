//! The CA, from outside: where it is kept, what a restart leaves of it, and what keeps a server from starting.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const ROOT: &str = "-----BEGIN CERTIFICATE-----";

struct Server {
    child: Child,
    http: SocketAddr,
}

fn command(dir: &Path, http: SocketAddr, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    command
        .current_dir(dir)
        .arg("serve")
        .args(["--grpc-addr", "127.0.0.1:0", "--log", "info"])
        .args(["--http-addr", &http.to_string()])
        .args(more)
        .stdin(Stdio::null());
    command
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

impl Server {
    fn start(dir: &Path, more: &[&str]) -> Self {
        let http = free();
        let child = command(dir, http, more).spawn().unwrap();
        Self { child, http }
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut socket = TcpStream::connect(self.http).ok()?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn root(&self) -> String {
        let address = self.http.to_string();
        let start = Instant::now();
        loop {
            let output = root_cert(&["--server", &address]);
            if output.status.success() {
                return String::from_utf8(output.stdout).unwrap();
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(start.elapsed() < PATIENCE, "{said}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn root_cert(more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pilothouse"))
        .arg("root-cert")
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn a_ca_in_the_store_outlives_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let api = free().to_string();
    let flags = ["--data", &data, "--api-addr", &api];
    let server = Server::start(dir.path(), &flags);
    let root = server.root();
    assert!(root.starts_with(ROOT), "{root}");
    let stored = |data: &str| String::from_utf8(root_cert(&["--data", data]).stdout).unwrap();
    assert_eq!(stored(&data), root, "asked of the server behind the folder");
    let metrics = server.get("/metrics").unwrap();
    assert!(
        metrics.contains("citadel_server_root_cert_expiry_timestamp 2"),
        "{metrics}"
    );
    drop(server);
    assert_eq!(stored(&data), root, "read from the file");
    assert_eq!(Server::start(dir.path(), &flags).root(), root);
}

#[test]
fn a_ca_in_a_folder_outlives_the_server_and_one_in_memory_does_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    let in_folder = ["--config-dir", "config", "--self-signed-ca-dir", "ca"];
    let root = Server::start(dir.path(), &in_folder).root();
    assert_eq!(Server::start(dir.path(), &in_folder).root(), root);
    let in_memory = &in_folder[..2];
    let first = Server::start(dir.path(), in_memory).root();
    assert_ne!(Server::start(dir.path(), in_memory).root(), first);
}

#[test]
fn a_ca_that_is_plugged_in_and_cannot_sign_keeps_the_server_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("etc/cacerts")).unwrap();
    fs::write(dir.path().join("etc/cacerts/ca-cert.pem"), "nothing").unwrap();
    let output = command(dir.path(), free(), &["--config-dir", "."])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    for words in ["--root-ca-dir", "incomplete", "ca-key.pem"] {
        assert!(said.contains(words), "{said}");
    }
}
