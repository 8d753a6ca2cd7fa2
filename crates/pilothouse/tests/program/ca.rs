//! The CA, from outside: where it is kept, what a restart leaves of it, and what keeps a server from starting.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{PORTS, Server, found, pilothouse};

const ROOT: &str = "-----BEGIN CERTIFICATE-----";

/// A server with that working directory.
fn command(dir: &Path, more: &[&str]) -> Command {
    let mut command = pilothouse(&[&["serve"], &PORTS[..], more].concat());
    command.current_dir(dir);
    command
}

fn start(dir: &Path, more: &[&str]) -> Server {
    Server::run(command(dir, more))
}

/// Its root, as soon as it tells.
fn root(server: &Server) -> String {
    let address = server.http.to_string();
    found("the server tells its root", || {
        let output = root_cert(&["--server", &address]);
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(text)
    })
}

fn root_cert(more: &[&str]) -> Output {
    pilothouse(&[&["root-cert"], more].concat())
        .output()
        .unwrap()
}

#[test]
fn a_ca_in_the_store_outlives_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let flags = ["--data", &data, "--api-addr", "127.0.0.1:0"];
    let server = start(dir.path(), &flags);
    let first = root(&server);
    assert!(first.starts_with(ROOT), "{first}");
    let stored = |data: &str| String::from_utf8(root_cert(&["--data", data]).stdout).unwrap();
    assert_eq!(
        stored(&data),
        first,
        "asked of the server behind the folder"
    );
    let metrics = server.get("/metrics").unwrap();
    assert!(
        metrics.contains("citadel_server_root_cert_expiry_timestamp 2"),
        "{metrics}"
    );
    drop(server);
    assert_eq!(stored(&data), first, "read from the file");
    assert_eq!(root(&start(dir.path(), &flags)), first);
}

#[test]
fn a_ca_in_a_folder_outlives_the_server_and_one_in_memory_does_not() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("config")).unwrap();
    let in_folder = ["--config-dir", "config", "--self-signed-ca-dir", "ca"];
    let kept = root(&start(dir.path(), &in_folder));
    assert_eq!(root(&start(dir.path(), &in_folder)), kept);
    let in_memory = &in_folder[..2];
    let first = root(&start(dir.path(), in_memory));
    assert_ne!(root(&start(dir.path(), in_memory)), first);
}

#[test]
fn a_ca_that_is_plugged_in_and_cannot_sign_keeps_the_server_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("etc/cacerts")).unwrap();
    fs::write(dir.path().join("etc/cacerts/ca-cert.pem"), "nothing").unwrap();
    let output = command(dir.path(), &["--config-dir", "."])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    for words in ["--root-ca-dir", "incomplete", "ca-key.pem"] {
        assert!(said.contains(words), "{said}");
    }
}
