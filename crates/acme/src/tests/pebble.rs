//! Pebble, the directory that Let's Encrypt tests clients with: it refuses one nonce in twenty, and validates for real.
//!
//! `go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3 github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.3`,
//! then `PEBBLE=FOLDER cargo test -p pilothouse-acme pebble -- --ignored` with the folder of both programs.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};

use super::world::World;
use crate::State;

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
#[ignore = "needs Pebble: .ci/pebble runs it, with PEBBLE as the folder of its programs"]
async fn pebble_issues_renews_and_revokes() {
    let programs = PathBuf::from(std::env::var_os("PEBBLE").expect("PEBBLE names a folder"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let own = CertificateParams::new(names)
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let root = file("root.pem", &own.pem());
    let mut world = World::start().await;
    let (directory, dns) = (port(), format!("127.0.0.1:{}", port()));
    let config = serde_json::json!({"pebble": {
        "listenAddress": format!("127.0.0.1:{directory}"), "managementListenAddress": format!("127.0.0.1:{}", port()),
        "certificate": root, "privateKey": file("key.pem", &key.serialize_pem()),
        "httpPort": world.hosts.port(), "tlsPort": port(), "retryAfter": {"authz": 1, "order": 1},
        "keyAlgorithm": "ecdsa", "profiles": {"default": {"description": "d", "validityPeriod": 7_776_000}},
    }});
    let config = file("pebble.json", &config.to_string());
    let management = format!("127.0.0.1:{}", port());
    let _names = Running::start(
        &programs.join("pebble-challtestsrv"),
        &[
            "-dnsserver",
            &dns,
            "-management",
            &management,
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
            "-doh",
            "",
            "-defaultIPv6",
            "",
        ],
    );
    let _pebble = Running::start(
        &programs.join("pebble"),
        &["-config", &config, "-dnsserver", &dns],
    );
    for _ in 0..200 {
        if std::net::TcpStream::connect(("127.0.0.1", directory)).is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.ask_elsewhere(
        &format!("https://127.0.0.1:{directory}/dir"),
        Path::new(&root),
    );
    for n in 0..8 {
        world.want(
            &format!("tls-{n}"),
            &[
                &format!("h{n}.pebble.example"),
                &format!("i{n}.pebble.example"),
            ],
        );
    }
    world.all(State::Valid).await;
    let first = world.row("tls-0").serial;
    assert!(world.renew("h0.pebble.example").await.is_ok());
    world
        .until(|world| world.row("tls-0").serial != first)
        .await;
    let second = world.row("tls-0").serial;
    let said = world.revoke("h0.pebble.example").await;
    assert_eq!(said, Ok("revoked; another is ordered".to_owned()));
    world
        .until(|world| world.row("tls-0").serial != second)
        .await;
    assert_eq!(
        world.directory.counts().requests,
        0,
        "the other directory is not asked"
    );
}
