//! TLS at a gateway, with certificates that it gets from Secrets; and what a sidecar lets out. The client of the TLS is
//! a sidecar as well: what a DestinationRule says of it is tested along with it.

use demo::check::nothing_refused;
use demo::http::{Client, Reply};
use demo::mesh::Mesh;
use demo::shop::WORKLOADS;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, until};
use crate::traffic::SERVICES;

pub(crate) const ROOT: &str = include_str!("certificates/root.pem");
const EDGE: (&str, &str) = (
    include_str!("certificates/edge.pem"),
    include_str!("certificates/edge.key"),
);
const CLIENT: (&str, &str) = (
    include_str!("certificates/client.pem"),
    include_str!("certificates/client.key"),
);

/// One port of the gateway for each mode, and one that passes TLS on to the first of them.
const GATEWAY: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - port: {number: 18443, name: simple, protocol: HTTPS}
    bind: 127.0.0.1
    hosts: [shop.example.com]
    tls: {mode: SIMPLE, credentialName: edge}
  - port: {number: 18444, name: mutual, protocol: HTTPS}
    bind: 127.0.0.1
    hosts: [shop.example.com]
    tls: {mode: MUTUAL, credentialName: edge}
  - port: {number: 18445, name: passed, protocol: TLS}
    bind: 127.0.0.1
    hosts: [shop.example.com]
    tls: {mode: PASSTHROUGH}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: edge, namespace: shop}
spec:
  hosts: [shop.example.com]
  gateways: [edge]
  http: [{route: [{destination: {host: blue, port: {number: 9080}}}]}]
  tls:
  - match: [{port: 18445, sniHosts: [shop.example.com]}]
    route: [{destination: {host: simple.edge.example.com, port: {number: 8000}}}]
";

/// What the client knows the gateway's port as, and how it goes there.
/// An endpoint at the address of a proxy tells the labels of that proxy, so that it needs those of the gateway.
pub(crate) fn way(name: &str, port: u16, tls: &str) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: shop}}
spec:
  hosts: [{name}.edge.example.com]
  location: MESH_EXTERNAL
  resolution: STATIC
  ports: [{{number: 8000, name: http, protocol: HTTP, targetPort: {port}}}]
  endpoints: [{{address: 127.0.0.1, labels: {{istio: ingressgateway}}}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}, namespace: shop}}
spec:
  host: {name}.edge.example.com
  workloadSelector: {{matchLabels: {{app: details}}}}
  trafficPolicy: {{tls: {{sni: shop.example.com, {tls}}}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: shop}}
spec:
  hosts: [{name}.edge.example.com]
  http:
  - rewrite: {{authority: shop.example.com}}
    route: [{{destination: {{host: {name}.edge.example.com, port: {{number: 8000}}}}}}]
"
    )
}

/// Where the client's application dials its proxy.
pub(crate) const SIDECAR: &str = "
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: details, namespace: shop}
spec:
  workloadSelector: {labels: {app: details}}
  ingress:
  - port: {number: 9081, name: http, protocol: HTTP}
    bind: 127.0.20.20
    captureMode: NONE
    defaultEndpoint: 127.0.0.1:19020
  egress:
  - port: {number: 8000, name: http, protocol: HTTP}
    bind: 127.0.21.20
    captureMode: NONE
    hosts: [HOSTS]
";

/// The client's proxy is asked; it may not take connections yet.
pub(crate) async fn ask(rig: &Rig, host: &str) -> anyhow::Result<Reply> {
    let sidecar = rig.address("127.0.21.20:8000");
    Client::new(sidecar, host).get("/").await
}

pub(crate) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// A Secret of the shop with these fields, whose texts are indented.
pub(crate) fn secret_of(name: &str, fields: &[(&str, String)]) -> String {
    let fields: String = fields
        .iter()
        .map(|(field, text)| format!("  {field}: |\n{text}"))
        .collect();
    format!(
        "
apiVersion: v1
kind: Secret
metadata: {{name: {name}, namespace: shop}}
stringData:
{fields}"
    )
}

/// The mesh with a gateway whose identity may read Secrets, and the client's proxy.
pub(crate) async fn start(rig: &Rig) -> Mesh {
    let fields = [("tls.crt", EDGE.0), ("tls.key", EDGE.1), ("ca.crt", ROOT)];
    let secret = secret_of("edge", &fields.map(|(field, text)| (field, indented(text))));
    rig.write("secret.yaml", &secret);
    let mut mesh = rig
        .mesh_with(vec!["--insecure-test-identities".to_owned()])
        .await;
    mesh.start_gateway_with(&["--token", "sa:shop:gateway"])
        .unwrap();
    mesh.start_sidecar(&WORKLOADS[1], &[]).unwrap();
    mesh.wait_for_proxies().await.unwrap();
    mesh
}

pub(crate) async fn tls_ends_at_the_gateway_or_passes_it(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let file = |name: &str, text: &str| {
        let path = rig.beside(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let roots = file("root.pem", ROOT);
    let simple =
        format!("mode: SIMPLE, caCertificates: '{roots}', subjectAltNames: [shop.example.com]");
    let mutual = format!(
        "mode: MUTUAL, caCertificates: '{roots}', clientCertificate: '{}', privateKey: '{}'",
        file("client.pem", CLIENT.0),
        file("client.key", CLIENT.1),
    );
    let other =
        format!("mode: SIMPLE, caCertificates: '{roots}', subjectAltNames: [bank.example.org]");
    // No service has an endpoint at the address of the client's proxy.
    rig.write(
        "services.yaml",
        &SERVICES.replace("127.0.20.20", "127.0.20.10"),
    );
    rig.write("gateway.yaml", GATEWAY);
    rig.write(
        "sidecar.yaml",
        &SIDECAR.replace("HOSTS", "'*/*.edge.example.com'"),
    );
    let ways = [
        way("simple", 18443, &simple),
        way("mutual", 18444, &mutual),
        way("nobody", 18444, &simple),
        way("passed", 18445, &simple),
        way("other", 18443, &other),
    ];
    rig.write("ways.yaml", &ways.concat());
    let mesh = start(&rig).await;
    for host in ["simple", "mutual", "passed"] {
        let host = format!("{host}.edge.example.com");
        let served = async || {
            let reply = ask(&rig, &host).await;
            reply.is_ok_and(|r| r.status == 200 && r.text() == "blue")
        };
        until(&format!("{host} is served"), served).await;
    }
    for (host, why) in [
        ("nobody", "the gateway wants a certificate"),
        ("other", "the certificate is for another name"),
    ] {
        let reply = ask(&rig, &format!("{host}.edge.example.com"))
            .await
            .unwrap();
        assert_eq!(reply.status, 503, "{why}: {}", reply.text());
    }
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn a_sidecar_lets_out_what_its_sidecar_lists(rig: Rig) {
    let blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    rig.write(
        "services.yaml",
        &SERVICES.replace("127.0.20.20", "127.0.20.10"),
    );
    let only_blue = SIDECAR.replace("HOSTS", "./blue.shop.svc.cluster.local");
    let only_blue = only_blue.replace("port: {number: 8000,", "port: {number: 9080,");
    let more = "  outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n";
    rig.write("sidecar.yaml", &format!("{only_blue}{more}"));
    let mut mesh = rig.mesh().await;
    mesh.start_sidecar(&WORKLOADS[1], &[]).unwrap();
    mesh.wait_for_proxies().await.unwrap();
    let sidecar = rig.block.outbound(&WORKLOADS[1]);
    let ask = async |host: &str| Client::new(sidecar, host).get("/").await.unwrap();
    let listens = async || Client::new(sidecar, "nobody").get("/").await.is_ok();
    until("the sidecar takes connections", listens).await;
    assert_eq!(ask("blue.shop.svc.cluster.local:9080").await.text(), "blue");
    assert_eq!(ask("blue:9080").await.text(), "blue");
    for host in ["green:9080", "elsewhere.example.com"] {
        let reply = ask(host).await;
        assert_eq!(reply.status, 502, "{host} is not in the registry");
    }
    assert_eq!(blue.count(), 2);
    rig.write(
        "sidecar.yaml",
        &only_blue.replace("[./blue", "[./green.shop.svc.cluster.local, ./blue"),
    );
    until("green is let out", async || {
        ask("green:9080").await.status == 200
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
