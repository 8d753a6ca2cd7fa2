//! Hosts of one namespace while another one names them, and paths that get around what is protected.

use std::net::SocketAddr;

use demo::check::nothing_refused;
use demo::http::Client;
use demo::shop::WORKLOADS;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, until};

/// The Service of a namespace, with its endpoint.
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAMESPACE}
spec: {clusterIP: 10.0.0.NUMBER, ports: [{name: http, port: 9080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: NAMESPACE, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [127.0.20.NUMBER], conditions: {ready: true}}]
ports: [{name: http, port: 9080}]
";

/// An Ingress with a path; `CREATED` is the year.
const INGRESS: &str = "---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: NAME, namespace: NAMESPACE, creationTimestamp: 'CREATED-01-01T00:00:00Z', annotations: {ANNOTATIONS}}
spec:
  ingressClassName: nginx
  rules:
  - host: HOST
    http: {paths: [{path: \"PATH\", pathType: KIND, backend: {service: {name: web, port: {number: 9080}}}}]}
";

fn ingress(
    [namespace, name]: [&str; 2],
    host: &str,
    [path, kind]: [&str; 2],
    annotations: &str,
) -> String {
    let created = if namespace == "bank" { "2020" } else { "2026" };
    let parts = [
        ("NAMESPACE", namespace),
        ("NAME", name),
        ("CREATED", created),
        ("ANNOTATIONS", annotations),
        ("HOST", host),
        ("PATH", path),
        ("KIND", kind),
    ];
    let parts = parts.into_iter();
    parts.fold(INGRESS.to_owned(), |text, (part, value)| {
        text.replace(part, value)
    })
}

const PROTECTED: &str = "nginx.ingress.kubernetes.io/whitelist-source-range: 192.0.2.0/24";

pub(crate) async fn an_ingress_of_another_namespace_gets_nothing_of_a_host(mut rig: Rig) {
    let bank = Backend::start(rig.block.proxy(&WORKLOADS[0]), "bank", prompt).await;
    let evil = Backend::start(rig.block.proxy(&WORKLOADS[1]), "evil", prompt).await;
    let [plain, _] = rig.serve_ingresses("nginx");
    let root = ["/", "Prefix"];
    let mut text = String::new();
    for (namespace, number) in [("bank", "10"), ("evil", "20")] {
        let service = SERVICE.replace("NAMESPACE", namespace);
        text += &format!("---{}", service.replace("NUMBER", number));
    }
    text += &ingress(["bank", "shop"], "bank.example.com", root, "");
    // A host of which a part is protected, and one whose protected paths are a choice.
    text += &ingress(["bank", "desk"], "desk.example.com", root, "");
    text += &ingress(
        ["bank", "desk-admin"],
        "desk.example.com",
        ["/admin", "Prefix"],
        PROTECTED,
    );
    text += &ingress(["bank", "pick"], "pick.example.com", root, "");
    let regex = format!("{PROTECTED}, nginx.ingress.kubernetes.io/use-regex: 'true'");
    let choice = ["/admin|/secure", "ImplementationSpecific"];
    text += &ingress(["bank", "pick-admin"], "pick.example.com", choice, &regex);
    rig.write("bank.yaml", &text);
    let mut mesh = rig
        .mesh_with(vec!["--insecure-test-identities".to_owned()])
        .await;
    mesh.start_gateway_with(&["--token", "sa:shop:gateway"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    let address: SocketAddr = (rig.block.gateway().ip(), plain).into();
    let asked = async |host: &str, path: &str| {
        let reply = Client::new(address, host).get(path).await;
        reply.map_or((0, String::new()), |reply| {
            (reply.status, reply.text().to_owned())
        })
    };
    until("the bank is served", async || {
        asked("bank.example.com", "/").await == (200, "bank".to_owned())
    })
    .await;

    let annotation = |text: &str| format!("nginx.ingress.kubernetes.io/{text}");
    let canary = format!(
        "{}, {}",
        annotation("canary: 'true'"),
        annotation("canary-weight: '100'")
    );
    let regex = ["/.*(aaaaaaaaaaaaaaaa)?.*", "ImplementationSpecific"];
    let host = "bank.example.com";
    let hostile = [
        ingress(["evil", "canary"], host, root, &canary),
        ingress(
            ["evil", "regex"],
            host,
            regex,
            &annotation("use-regex: 'true'"),
        ),
        ingress(
            ["evil", "root"],
            host,
            ["/x", "Exact"],
            &annotation("app-root: /phish"),
        ),
        // What says that the others have arrived.
        ingress(["evil", "own"], "evil.example.com", root, ""),
    ];
    rig.write("evil.yaml", &hostile.concat());
    until("the other namespace is served", async || {
        asked("evil.example.com", "/").await == (200, "evil".to_owned())
    })
    .await;
    let before = evil.count();
    for path in ["/", "/login", "/x", "/a/b"] {
        assert_eq!(asked(host, path).await, (200, "bank".to_owned()), "{path}");
    }
    assert_eq!(evil.count(), before);
    assert!(bank.count() >= 5);

    for (host, path, status) in [
        ("desk.example.com", "/", 200),
        ("desk.example.com", "/projects/a%2fb", 200),
        ("desk.example.com", "/find?in=%2fadmin", 200),
        ("desk.example.com", "/admin/x", 403),
        ("desk.example.com", "/admin%2fx", 400),
        ("desk.example.com", "/%2Fadmin/x", 400),
        ("desk.example.com", "/x/..%2fadmin", 400),
        ("bank.example.com", "/admin%2fx", 200),
        ("pick.example.com", "/open", 200),
        ("pick.example.com", "/admin/x", 403),
        ("pick.example.com", "/secure/x", 403),
    ] {
        assert_eq!(asked(host, path).await.0, status, "{host}{path}");
    }
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
