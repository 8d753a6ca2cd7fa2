//! What Envoy would refuse is closed alone: hostile objects, each in a namespace of its own, beside an honest shop.

use demo::check::nothing_refused;
use demo::http::Client;
use demo::shop::WORKLOADS;

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
