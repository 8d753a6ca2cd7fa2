//! `pilothouse explain`, as operators call it: of a folder, and of a proxy that is connected.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::support::{Running, Server, pilothouse, printed, until};

const CLUSTER: &str = "outbound|9080|v1|reviews.shop.svc.cluster.local";

fn explain(args: &[&str]) -> Output {
    pilothouse(&[&["explain"], args].concat()).output().unwrap()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

#[test]
fn a_connected_proxy_is_explained_as_one_of_the_folder() {
    let folder = example();
    let folder = folder.to_str().unwrap();
    let server = Server::start(&["--config-dir", folder]);
    let (xds, http) = (server.xds.to_string(), server.http.to_string());
    let id = "sidecar~10.0.0.1~front.shop~shop.svc.cluster.local";
    let mut proxy = pilothouse(&[
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
    let _proxy = Running(proxy.stdout(Stdio::null()).spawn().unwrap());
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
    until("it is explained", || {
        let first = ["cluster", CLUSTER];
        let output = explain(&[&first[..], &asked, &live].concat());
        output.status.success()
    });
    for what in [
        vec!["cluster", CLUSTER],
        vec!["endpoint", CLUSTER],
        vec!["listener", "virtualInbound"],
        vec!["--object", "DestinationRule/shop/reviews"],
    ] {
        let here = printed(&explain(&[&what[..], &asked, &offline].concat()));
        let there = printed(&explain(&[&what[..], &asked, &live].concat()));
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
    let found = printed(&explain(&args));
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

#[test]
fn a_simulated_request_is_told_that_a_password_is_asked_for() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/nginx-ingress");
    let folder = folder.to_str().unwrap();
    let simulated = |path: &str| {
        let url = format!("http://shop.example.com{path}");
        let args = [
            "simulate",
            "--from",
            "gateway.higress-system",
            "--config-dir",
            folder,
            "--role",
            "gateway",
            "-l",
            "higress=higress-system-higress-gateway",
            "--ingress-class",
            "nginx",
            "-o",
            "json",
            "GET",
            &url,
        ];
        let walk = printed(&pilothouse(&args).output().unwrap());
        let asked = walk["asked"].as_array().cloned().unwrap_or_default();
        let what = asked.iter().map(|asked| asked["what"].as_str().unwrap());
        what.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        simulated("/admin"),
        ["a name and a password (basic auth) are asked for"]
    );
    assert_eq!(simulated("/api/stars"), [""; 0]);
}
