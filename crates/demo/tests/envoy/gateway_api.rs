//! `pilothouse gateway`: from a manifest to a gateway that listens.

use std::process::Command;
use std::time::Duration;

use demo::http::Client;
use demo::shop::WORKLOADS;
use envoy::process::{self, Process};
use tokio::net::TcpStream;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, pilothouse, until};

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: shop}
spec:
  gatewayClassName: pilothouse
  listeners:
  - {name: http, port: 80, protocol: HTTP, hostname: '*.example.com'}
  - {name: odd, port: 81, protocol: ODD}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: blue, namespace: shop}
spec:
  hosts: [blue.internal]
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP}]
  endpoints: [{address: 127.0.20.10, ports: {http: 9080}}]
";

const ROUTES: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: blue, namespace: shop}
spec:
  parentRefs: [{name: web}]
  hostnames: [blue.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /one}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: blue.internal, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: lost, namespace: shop}
spec:
  parentRefs: [{name: web, sectionName: http}]
  hostnames: [lost.example.org]
  rules:
  - backendRefs: [{group: networking.istio.io, kind: Hostname, name: blue.internal, port: 80}]
";

pub(crate) async fn one_command_makes_a_listening_gateway_of_a_manifest(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    rig.write("gateway.yaml", GATEWAY);
    rig.write("routes.yaml", ROUTES);
    // The ports of the manifest are for root, and those of other tests.
    let offset = 45_000 + 2 * u16::from(rig.block.0);
    let port = 80 + offset;
    let flags = |gateway: &str| {
        let paths = [rig.folder(), rig.envoy().to_owned(), rig.beside("run")];
        let [folder, envoy, run] = paths.map(|path| path.display().to_string());
        let offset = offset.to_string();
        let flags = [
            "gateway",
            gateway,
            "-n",
            "shop",
            "--config-dir",
            &folder,
            "--envoy",
            &envoy,
        ];
        let more = ["--run-dir", &run, "--port-offset", &offset];
        let all = flags.iter().chain(&more);
        all.map(|flag| (*flag).to_owned()).collect::<Vec<String>>()
    };

    let none = Command::new(pilothouse())
        .args(flags("none"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&none.stderr);
    assert_eq!(none.status.code(), Some(2), "{said}");
    assert!(
        said.contains("there is no Gateway shop/none; there are shop/web"),
        "{said}"
    );

    let log = rig.beside("gateway.log");
    let mut gateway = Process::start("gateway", pilothouse(), &flags("web"), &log).unwrap();
    let said = || std::fs::read_to_string(&log).unwrap();
    until("the gateway says what it listens on", async || {
        said().contains("Ctrl-C ends it.")
    })
    .await;
    let url = format!("http://127.0.0.1:{port}  for *.example.com");
    for wanted in [
        &url,
        "odd   not served",
        "Listener odd is not accepted",
        "HTTPRoute shop/lost is not accepted",
    ] {
        assert!(said().contains(wanted), "no {wanted:?} in {}", said());
    }
    assert!(!said().contains("HTTPRoute shop/blue"), "{}", said());

    let address = ([127, 0, 0, 1], port).into();
    let status = async |path: &str| {
        let reply = Client::new(address, "blue.example.com").get(path).await;
        reply.map_or(0, |reply| reply.status)
    };
    until("the route is served", async || status("/one").await == 200).await;
    assert_eq!(status("/two").await, 404);
    rig.write("routes.yaml", &ROUTES.replace("/one", "/two"));
    until("the edit is served", async || {
        status("/two").await == 200 && status("/one").await == 404
    })
    .await;

    gateway.terminate();
    let ended = async {
        loop {
            match gateway.check() {
                Ok(()) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(end) => break end.to_string(),
            }
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let end = end.expect("the command ends");
    assert!(end.contains("exit status: 0"), "{end}");
    assert!(
        TcpStream::connect(address).await.is_err(),
        "Envoy still listens"
    );
    process::stop(vec![gateway]).await;
}
