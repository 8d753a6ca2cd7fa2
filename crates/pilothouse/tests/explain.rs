//! `pilothouse explain`, as operators call it: of a folder, and of a proxy that is connected.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const CLUSTER: &str = "outbound|9080|v1|reviews.shop.svc.cluster.local";

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pilothouse(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse"));
    command.args(args).stdin(Stdio::null());
    command
}

fn start(args: &[&str]) -> Running {
    Running(pilothouse(args).stdout(Stdio::null()).spawn().unwrap())
}

fn explain(args: &[&str]) -> Output {
    pilothouse(&[&["explain"], args].concat()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn a_connected_proxy_is_explained_as_one_of_the_folder() {
    let folder = example();
    let folder = folder.to_str().unwrap();
    let (xds, http) = (free().to_string(), free().to_string());
    let _server = start(&[
        "serve",
        "--config-dir",
        folder,
        "--grpc-addr",
        &xds,
        "--http-addr",
        &http,
        "--log",
        "warn",
    ]);
    let id = "sidecar~10.0.0.1~front.shop~shop.svc.cluster.local";
    let _proxy = start(&[
        "load",
        "--server",
        &xds,
        "-n",
        "1",
        "--namespace",
        "shop",
        "--id",
        id,
        "--watch",
        "600",
        "--label",
        "app=front",
    ]);
    let offline = [
        "--config-dir",
        folder,
        "-l",
        "app=front",
        "--ip",
        "10.0.0.1",
    ];
    let asked = ["--proxy", "front.shop", "-o", "json"];
    let live = ["--server", &http];
    let began = Instant::now();
    let first = ["cluster", CLUSTER];
    while !explain(&[&first[..], &asked, &live].concat())
        .status
        .success()
    {
        assert!(began.elapsed() < Duration::from_secs(60), "never explained");
        std::thread::sleep(Duration::from_millis(100));
    }
    for what in [
        vec!["cluster", CLUSTER],
        vec!["endpoint", CLUSTER],
        vec!["listener", "virtualInbound"],
        vec!["--object", "DestinationRule/shop/reviews"],
    ] {
        let here = json(&explain(&[&what[..], &asked, &offline].concat()));
        let there = json(&explain(&[&what[..], &asked, &live].concat()));
        assert_eq!(here, there, "{what:?}");
        let found = here["objects"].as_array().or(here["resources"].as_array());
        assert!(!found.unwrap().is_empty(), "{here}");
    }
    let unknown = explain(&[&["cluster", "reviews v1"][..], &asked, &live].concat());
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        !unknown.status.success() && said.contains(CLUSTER),
        "{said}"
    );
}

#[test]
fn the_objects_are_named_with_their_places() {
    let folder = example();
    let folder = folder.to_str().unwrap();
    let args = [
        "cluster",
        CLUSTER,
        "--config-dir",
        folder,
        "--proxy",
        "front.shop",
        "-o",
        "json",
    ];
    let found = json(&explain(&args));
    let objects = found["objects"].as_array().unwrap().iter();
    let titles: Vec<String> = objects
        .map(|o| {
            let text = |key: &str| o[key].as_str().unwrap().to_owned();
            assert!(text("at").starts_with(folder), "{o}");
            format!("{}/{}/{}", text("kind"), text("namespace"), text("name"))
        })
        .collect();
    let wanted = [
        "ServiceEntry/shop/reviews",
        "DestinationRule/shop/reviews",
        "PeerAuthentication/shop/default",
    ];
    assert_eq!(titles, wanted);
}
