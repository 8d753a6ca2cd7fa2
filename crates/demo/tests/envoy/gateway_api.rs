//! `pilothouse gateway`: from a manifest to a gateway that listens.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use demo::http::Client;
use demo::shop::WORKLOADS;
use envoy::process::{self, Process};
use hyper::Method;
use tokio::net::{TcpListener, TcpStream};

use crate::api_store::Api;
use crate::backend::{Backend, prompt};
use crate::rig::{Rig, pilothouse, ports_of_all_addresses, until};
use crate::rotation::{Pair, ask, connect, pair, secret, shown};

/// What `--port-offset` adds to the ports of the manifest.
const OFFSET: u16 = 8000;

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: shop}
spec:
  gatewayClassName: pilothouse
  listeners:
  - {name: http, port: PLAIN, protocol: HTTP, hostname: '*.example.com'}
  - {name: bank, port: PLAIN, protocol: HTTP, hostname: bank.example.org}
  - {name: odd, port: LAST, protocol: ODD}
  - name: https
    port: TLS
    protocol: HTTPS
    hostname: shop.example.com
    tls: {certificateRefs: [{name: edge}]}
";

const SERVICE: &str = "
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
  hostnames: [shop.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /one}}, {path: {type: Exact, value: /}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: blue.internal, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: bank, namespace: shop}
spec:
  parentRefs: [{name: web, sectionName: bank}]
  rules:
  - backendRefs: [{group: networking.istio.io, kind: Hostname, name: blue.internal, port: 80}]
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

/// The command for a Gateway of a test, with ports of its own.
struct Site {
    manifest: String,
    plain: SocketAddr,
    tls: SocketAddr,
    /// Where Envoy's bootstrap and log are.
    run: PathBuf,
    log: PathBuf,
    pair: Pair,
}

impl Site {
    fn new(rig: &Rig) -> Self {
        let ports: [u16; 3] = ports_of_all_addresses();
        let written = ports.map(|port| (port - OFFSET).to_string());
        let names = ["PLAIN", "TLS", "LAST"].iter().zip(&written);
        let manifest = names.fold(GATEWAY.to_owned(), |text, (name, port)| {
            text.replace(name, port)
        });
        Self {
            manifest,
            plain: ([127, 0, 0, 1], ports[0]).into(),
            tls: ([127, 0, 0, 1], ports[1]).into(),
            run: rig.beside("gateway"),
            log: rig.beside("gateway.log"),
            pair: pair(1),
        }
    }

    fn secret(&self) -> String {
        secret("edge", &self.pair.chain, &self.pair.key)
    }

    fn flags(&self, rig: &Rig, gateway: &str, of: &[&str]) -> Vec<String> {
        let paths = [rig.envoy().to_owned(), self.run.clone()];
        let [envoy, run] = paths.map(|path| path.display().to_string());
        let offset = OFFSET.to_string();
        let all = ["gateway", gateway, "-n", "shop", "--envoy", &envoy];
        let more = ["--run-dir", &run, "--port-offset", &offset];
        let all = all.iter().chain(&more).chain(of);
        all.map(|flag| (*flag).to_owned()).collect()
    }

    /// Starts it, and waits until it says that it listens.
    async fn start(&self, flags: &[String]) -> Process {
        let _ = std::fs::remove_file(&self.log);
        let mut gateway = Process::start("gateway", pilothouse(), flags, &self.log).unwrap();
        let listens = async {
            while !self.said().contains("Ctrl-C ends it.") {
                gateway.check().unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let patience = Duration::from_secs(90);
        let listens = tokio::time::timeout(patience, listens).await;
        assert!(listens.is_ok(), "it says nothing: {}", self.said());
        gateway
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    async fn status(&self, host: &str, path: &str) -> u16 {
        let reply = Client::new(self.plain, host).get(path).await;
        reply.map_or(0, |reply| reply.status)
    }

    async fn serves_tls(&self) {
        until("the certificate is shown", async || {
            shown(self.tls).await == self.pair.der
        })
        .await;
        let (mut stream, _) = connect(self.tls).await.unwrap();
        assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200"));
    }

    /// Waits until `/two` is served in place of `/one`.
    async fn serves_the_edit(&self) {
        until("the edit is served", async || {
            self.status("shop.example.com", "/two").await == 200
                && self.status("shop.example.com", "/one").await == 404
        })
        .await;
    }

    /// Asks the command to end, which ends Envoy with it.
    async fn ends_well(&self, mut gateway: Process) {
        gateway.terminate();
        let said = end(&mut gateway).await;
        assert!(said.contains("exit status: 0"), "{said}");
        assert!(self.is_closed().await, "Envoy still listens");
    }

    async fn is_closed(&self) -> bool {
        TcpStream::connect(self.plain).await.is_err()
    }
}

/// Runs the command where it is to fail by itself; gives its status and what it says.
fn fails(flags: &[String]) -> (Option<i32>, String) {
    let output = Command::new(pilothouse()).args(flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// How a process ends.
async fn end(process: &mut Process) -> String {
    let ended = async {
        loop {
            match process.check() {
                Ok(()) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(end) => break end.to_string(),
            }
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(60), ended).await;
    end.expect("the command ends")
}

pub(crate) async fn one_command_makes_a_listening_gateway_of_a_manifest(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let site = Site::new(&rig);
    rig.write("gateway.yaml", &site.manifest);
    rig.write("service.yaml", SERVICE);
    rig.write("secret.yaml", &site.secret());
    rig.write("routes.yaml", ROUTES);
    let folder = rig.folder().display().to_string();
    let flags = |gateway: &str| site.flags(&rig, gateway, &["--config-dir", &folder]);

    let (code, said) = fails(&flags("none"));
    assert_eq!(code, Some(2), "{said}");
    let wanted = "there is no Gateway shop/none; there are shop/web";
    assert!(said.contains(wanted), "{said}");
    let taken = TcpListener::bind(site.plain).await.unwrap();
    let (code, said) = fails(&flags("web"));
    assert_eq!(code, Some(2), "{said}");
    let wanted = format!(
        "another program listens on port {}; --port-offset moves all ports",
        site.plain.port()
    );
    assert!(said.contains(&wanted), "{said}");
    drop(taken);

    let gateway = site.start(&flags("web")).await;
    for wanted in [
        &format!("http   http://{}  for *.example.com", site.plain),
        &format!("bank   http://{}  for bank.example.org", site.plain),
        &format!("https  https://{}  for shop.example.com", site.tls),
        "odd    not served",
        "Listener odd is not accepted",
        "HTTPRoute shop/lost is not accepted",
    ] {
        assert!(site.said().contains(wanted), "{wanted:?}: {}", site.said());
    }
    for unwanted in ["HTTPRoute shop/b", "Listener http", "Listener bank"] {
        assert!(!site.said().contains(unwanted), "{}", site.said());
    }
    until("the route is served", async || {
        site.status("shop.example.com", "/one").await == 200
    })
    .await;
    site.serves_tls().await;
    assert_eq!(site.status("shop.example.com", "/two").await, 404);
    assert_eq!(site.status("bank.example.org", "/two").await, 200);
    assert_eq!(site.status("lost.example.org", "/one").await, 404);
    rig.write("routes.yaml", &ROUTES.replace("/one", "/two"));
    site.serves_the_edit().await;
    site.ends_well(gateway).await;

    // An Envoy that ends by itself is reported.
    let mut gateway = site.start(&flags("web")).await;
    let admin = std::fs::read_to_string(site.run.join("admin-address")).unwrap();
    let admin: SocketAddr = admin.trim().parse().unwrap();
    let mut client = Client::new(admin, "admin");
    let asked = client.send(Method::POST, "/quitquitquit", &[]).await;
    assert_eq!(asked.unwrap().status, 200);
    let said = end(&mut gateway).await;
    assert!(said.contains("exit status: 2"), "{said}");
    assert!(site.said().contains("Envoy ended"), "{}", site.said());
    assert!(site.is_closed().await, "Envoy still listens");
    process::stop(vec![gateway]).await;
}

pub(crate) async fn one_command_makes_a_listening_gateway_of_a_store(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let site = Site::new(&rig);
    std::fs::create_dir_all(rig.folder()).unwrap();
    let api = Api(rig.address("127.0.0.1:16443"));
    let secure = rig.block.secure_xds().to_string();
    let store = [
        format!("--secure-grpc-addr={secure}"),
        format!("--data={}", rig.beside("data").display()),
        format!("--api-addr={}", api.0),
        "--insecure-local".to_owned(),
    ];
    let mesh = rig.mesh_with(store.to_vec()).await;
    api.namespace("shop").await;
    let objects = [SERVICE, &site.manifest, &site.secret(), ROUTES].join("---");
    for object in rig.block.place(&objects).split("\n---\n") {
        api.apply(object).await;
    }
    let pages = rig.block.pages().to_string();
    let xds = rig.block.xds().to_string();
    let flags = site.flags(&rig, "web", &["--server", &pages, "--xds", &xds]);
    let gateway = site.start(&flags).await;
    until("the route is served", async || {
        site.status("shop.example.com", "/one").await == 200
    })
    .await;
    // Secrets are for proxies that prove who they are.
    let wanted = "https  not served: Secrets are for proxies that prove who they are";
    assert!(site.said().contains(wanted), "{}", site.said());

    let edit = ROUTES.replace("/one", "/two");
    api.apply(edit.split("---\n").next().unwrap()).await;
    site.serves_the_edit().await;
    site.ends_well(gateway).await;

    // With the token of its account it gets them.
    let token = rig.beside("token");
    std::fs::write(&token, api.token("shop", "web-pilothouse").await).unwrap();
    let roots = rig.beside("roots.pem");
    let said = Command::new(pilothouse())
        .args(["root-cert", "--server", &pages])
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    std::fs::write(&roots, &said.stdout).unwrap();
    let (token, roots) = (token.display().to_string(), roots.display().to_string());
    let of = ["--server", &pages, "--xds", &secure];
    let proof = ["--root-cert", &roots, "--token-file", &token];
    let flags = site.flags(&rig, "web", &[of, proof].concat());
    let gateway = site.start(&flags).await;
    site.serves_tls().await;
    process::stop(vec![gateway]).await;
    mesh.stop().await;
}
