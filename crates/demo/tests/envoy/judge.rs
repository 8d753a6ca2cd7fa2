//! What Envoy would refuse is closed alone: hostile objects, each in a namespace of its own, beside an honest shop.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use demo::admin;
use demo::check::nothing_refused;
use demo::http::{Client, get};
use demo::shop::WORKLOADS;
use envoy::process::Process;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, root, until};
use crate::traffic::{SERVICES, all_to};

/// The service that hostile routes lead to.
const TARGET: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: evil}
spec:
  hosts: [web.evil.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.20.20}]
";

/// The hostile objects of `xlate`'s tests, each file in a namespace of its own, at the gateway of the shop.
fn hostile(rig: &Rig) -> Vec<String> {
    let folder = root().join("crates/xlate/tests/judged");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    let mut hosts = Vec::new();
    for (at, path) in names.iter().enumerate() {
        let text = std::fs::read_to_string(path).unwrap();
        let text = format!("{text}---{TARGET}");
        let text = text
            .replace("edge/edge", "shop/shop")
            .replace("role: edge", "istio: ingressgateway")
            .replace("namespace: evil", &format!("namespace: evil-{at}"))
            .replace("web.evil.", &format!("web.evil-{at}."))
            .replace("x.evil.", &format!("x.evil-{at}."));
        if text.contains("kind: VirtualService") {
            hosts.push(format!("x.evil-{at}.example"));
        }
        let name = path.file_stem().unwrap().display().to_string();
        rig.write(&format!("hostile-{name}.yaml"), &text);
    }
    assert!(hosts.len() > 20, "{hosts:?}");
    hosts
}

pub(crate) async fn what_envoy_would_refuse_costs_nobody_else(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let _green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    rig.write(
        "services.yaml",
        &SERVICES.replace("[shop.example.com]", "['*']"),
    );
    rig.write("routes.yaml", &all_to("blue"));
    let hosts = hostile(&rig);
    let mut mesh = rig.mesh_with(vec!["--validation=warn".to_owned()]).await;
    mesh.start_gateway().unwrap();
    mesh.start_sidecar(&WORKLOADS[2], &["--interception", "redirect"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    until("the shop answers", async || {
        rig.get("/").await.text() == "blue"
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    for host in &hosts {
        let mut client = Client::new(rig.block.gateway(), host.as_str());
        let status = client.get("/").await.unwrap().status;
        assert!([503, 404].contains(&status), "{host} answers {status}");
    }
    // What changes next arrives.
    rig.write("routes.yaml", &all_to("green"));
    until("the next change is in force", async || {
        rig.get("/").await.text() == "green"
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

/// Services of another namespace whose owner names files that no client has, or that are no certificates.
const FILES: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: files, namespace: evil}
spec:
  hosts: [a.evil.example, b.evil.example, c.evil.example]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{number: 9443, name: https, protocol: HTTPS}]
  endpoints: [{address: 127.0.20.20}]
";
const RULES: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a, namespace: evil}
spec:
  host: a.evil.example
  trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /etc/passwd}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: b, namespace: evil}
spec:
  host: b.evil.example
  trafficPolicy: {tls: {mode: MUTUAL, clientCertificate: /etc/passwd, privateKey: /nowhere, caCertificates: /dev/zero}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: c, namespace: evil}
spec:
  host: c.evil.example
  trafficPolicy: {tls: {mode: SIMPLE, caCrl: /nowhere}}
";
/// What others change next.
const NEXT: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: next, namespace: shop}
spec:
  hosts: [next.shop.example]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{number: 9443, name: https, protocol: HTTPS}]
  endpoints: [{address: 127.0.20.20}]
";

/// The hosts of a proxy's outbound clusters.
async fn hosts_of(admin: SocketAddr) -> BTreeSet<String> {
    let dump = get(admin, "/config_dump?resource=dynamic_active_clusters").await;
    let dump = dump.unwrap().json().unwrap();
    let clusters = dump["configs"].as_array().into_iter().flatten();
    let names = clusters.filter_map(|config| config["cluster"]["name"].as_str());
    let hosts = names.filter_map(|name| name.strip_prefix("outbound|")?.rsplit('|').next());
    hosts.map(str::to_owned).collect()
}

/// As Envoy takes updates of clusters: those that it refuses alone.
pub(crate) async fn a_file_that_cannot_be_used_costs_its_cluster_alone(rig: Rig) {
    rig.write("services.yaml", SERVICES);
    rig.write("files.yaml", FILES);
    rig.write("rules.yaml", RULES);
    let mut mesh = rig.mesh().await;
    let (delta, whole) = (&WORKLOADS[2], &WORKLOADS[1]);
    mesh.start_sidecar(delta, &["--interception", "redirect"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    // Another one that asks for the state of the world.
    let page = rig.block.admin(whole);
    let printed = mesh.run(&[
        "bootstrap",
        "sidecar",
        "--name",
        "whole",
        "--namespace",
        "shop",
        "--ip",
        &rig.block.proxy(whole).ip().to_string(),
        "--interception",
        "redirect",
        "--admin",
        &page.to_string(),
        "--xds",
        &rig.block.xds().to_string(),
    ]);
    let bootstrap = String::from_utf8(printed.unwrap()).unwrap();
    assert!(bootstrap.contains("\"DELTA_GRPC\""));
    let path = rig.beside("run/whole.json");
    std::fs::write(&path, bootstrap.replace("DELTA_GRPC", "GRPC")).unwrap();
    let args = [
        "-c",
        &path.display().to_string(),
        "--disable-hot-restart",
        "--concurrency",
        "1",
    ];
    let args = args.map(str::to_owned);
    let process = Process::start("whole", rig.envoy(), &args, &rig.beside("run/whole.log"));
    let process = process.unwrap();
    until("the other proxy is ready", async || {
        admin::is_ready(page).await
    })
    .await;
    let pages = [rig.block.admin(delta), page];
    let evil = ["a.evil.example", "b.evil.example", "c.evil.example"];
    for page in pages {
        let hosts = hosts_of(page).await;
        assert!(hosts.contains("blue.shop.svc.cluster.local"), "{hosts:?}");
        for host in evil {
            assert!(!hosts.contains(host), "{host} of {hosts:?}");
        }
        let refused = admin::rejected(page).await.unwrap();
        assert!(!refused.is_empty(), "the files are refused");
    }
    rig.write("next.yaml", NEXT);
    for page in pages {
        until("what changes next arrives", async || {
            hosts_of(page).await.contains("next.shop.example")
        })
        .await;
    }
    std::fs::remove_file(rig.folder().join("rules.yaml")).unwrap();
    for page in pages {
        until("the services are there without the files", async || {
            let hosts = hosts_of(page).await;
            evil.iter().all(|host| hosts.contains(*host))
        })
        .await;
    }
    envoy::process::stop(vec![process]).await;
    mesh.stop().await;
}
