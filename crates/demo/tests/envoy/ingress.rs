//! An Ingress, as clients see it.

use demo::check::nothing_refused;
use demo::http::Client;
use demo::shop::WORKLOADS;

use crate::backend::{Backend, prompt};
use crate::edge::{ROOT, SIDECAR, ask, start, way};
use crate::rig::{Rig, ports_of_all_addresses, until};
use crate::traffic::SERVICES;

/// The Ingress, and the service through which its ports are reached: those that all addresses share are taken.
const INGRESS: &str = "
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: istio}
spec: {controller: istio.io/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: shop}
spec:
  ingressClassName: istio
  tls: [{hosts: [shop.example.com], secretName: edge}]
  rules:
  - host: shop.example.com
    http:
      paths:
      - {path: /, pathType: Exact, backend: {service: {name: blue, port: {number: 9080}}}}
      - {path: /stars/, pathType: Prefix, backend: {service: {name: blue, port: {number: 9080}}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: gateway, namespace: shop}
spec:
  hosts: [gateway.edge.internal]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP, targetPort: PLAIN}, {name: https, number: 443, protocol: HTTPS, targetPort: TLS}]
  endpoints: [{address: 127.0.0.1, labels: {istio: ingressgateway}}]
";

pub(crate) async fn an_ingress_routes_paths_over_plain_text_and_tls(rig: Rig) {
    let blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let [plain, tls] = ports_of_all_addresses();
    let roots = rig.beside("root.pem");
    std::fs::write(&roots, ROOT).unwrap();
    rig.write(
        "services.yaml",
        &SERVICES.replace("127.0.20.20", "127.0.20.10"),
    );
    let ingress = INGRESS.replace("PLAIN", &plain.to_string());
    let ingress = ingress.replace("TLS", &tls.to_string());
    rig.write("ingress.yaml", &ingress);
    rig.write(
        "sidecar.yaml",
        &SIDECAR.replace("HOSTS", "'*/*.edge.example.com'"),
    );
    let simple = format!(
        "mode: SIMPLE, caCertificates: '{}', subjectAltNames: [shop.example.com]",
        roots.display()
    );
    rig.write("ways.yaml", &way("simple", tls, &simple));
    let mesh = start(&rig).await;
    until("the Ingress is served over TLS", async || {
        let reply = ask(&rig, "simple.edge.example.com").await;
        reply.is_ok_and(|r| r.status == 200 && r.text() == "blue")
    })
    .await;
    let address = (rig.block.gateway().ip(), plain).into();
    let status = async |host: &str, path: &str| {
        let reply = Client::new(address, host).get(path).await;
        reply.map_or(0, |reply| reply.status)
    };
    let host = "shop.example.com";
    until("the Ingress is served", async || {
        status(host, "/").await == 200
    })
    .await;
    for (path, wanted) in [
        ("/stars", 200),
        ("/stars/7", 200),
        ("/starship", 404),
        ("/other", 404),
    ] {
        assert_eq!(status(host, path).await, wanted, "{path}");
    }
    assert_eq!(status("bank.example.org", "/").await, 404);
    assert!(blue.count() >= 4);
    // A path that the author adds is served, and one that is taken away is not.
    rig.write("ingress.yaml", &ingress.replace("/stars/", "/other"));
    until("the edit is served", async || {
        status(host, "/other").await == 200 && status(host, "/stars").await == 404
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
