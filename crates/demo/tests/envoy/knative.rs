//! Knative's Ingresses, as clients of a gateway and of a sidecar see them.

use std::net::SocketAddr;

use demo::check::nothing_refused;
use demo::http::{Client, Reply};
use demo::shop::WORKLOADS;
use hyper::Method;

use crate::backend::{Backend, prompt};
use crate::edge::{SIDECAR, ask};
use crate::rig::{Rig, ports_of_all_addresses, until};

/// A host that everybody reaches, one that is for the cluster, and one that is for HTTPS alone.
const INGRESSES: &str = "
apiVersion: networking.internal.knative.dev/v1alpha1
kind: Ingress
metadata: {name: hello, namespace: shop, annotations: {networking.knative.dev/ingress.class: knative}}
spec:
  rules:
  - hosts: [hello.example.com]
    visibility: ExternalIP
    http:
      paths:
      - headers: {Knative-Serving-Tag: {exact: next}}
        splits: [{serviceNamespace: shop, serviceName: green, servicePort: 8000}]
      - path: /inner
        rewriteHost: inner.example.com
        appendHeaders: {X-All: a}
        splits: [{serviceNamespace: shop, serviceName: blue, servicePort: http, appendHeaders: {X-Blue: b}}]
      - splits:
        - {serviceNamespace: shop, serviceName: blue, servicePort: 8000, percent: 80}
        - {serviceNamespace: shop, serviceName: green, servicePort: 8000, percent: 20}
  - hosts: [hello.shop, hello.shop.svc, hello.shop.svc.cluster.local]
    visibility: ClusterLocal
    http: {paths: [{splits: [{serviceNamespace: shop, serviceName: green, servicePort: 8000}]}]}
---
apiVersion: networking.internal.knative.dev/v1alpha1
kind: Ingress
metadata: {name: secure, namespace: shop, annotations: {networking.knative.dev/ingress.class: knative}}
spec:
  httpOption: Redirected
  rules:
  - hosts: [secure.example.com]
    http: {paths: [{splits: [{serviceNamespace: shop, serviceName: blue, servicePort: 8000}]}]}
---
apiVersion: networking.internal.knative.dev/v1alpha1
kind: Ingress
metadata: {name: closed, namespace: shop, annotations: {networking.knative.dev/ingress.class: knative}}
spec:
  rules:
  - hosts: [closed.example.com]
    http: {paths: [{splits: [{serviceNamespace: shop, serviceName: gone, servicePort: 8000}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: hello, namespace: shop}
spec: {clusterIP: 127.0.20.99, ports: [{name: http, port: 8000}]}
";

fn service(name: &str, at: SocketAddr) -> String {
    format!(
        "
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: shop}}
spec: {{clusterIP: 127.0.30.{}, ports: [{{name: http, port: 8000}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, namespace: shop, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: {}}}]
endpoints: [{{addresses: [{}]}}]
",
        name.len(),
        at.port(),
        at.ip()
    )
}

pub(crate) async fn an_ingress_of_knative_is_served_to_those_who_may_reach_it(rig: Rig) {
    let at = [&WORKLOADS[0], &WORKLOADS[2]].map(|workload| rig.block.proxy(workload));
    let blue = Backend::start(at[0], "blue", prompt).await;
    let green = Backend::start(at[1], "green", prompt).await;
    let [plain, secure] = ports_of_all_addresses();
    rig.write("ingresses.yaml", INGRESSES);
    rig.write(
        "services.yaml",
        &format!("{}{}", service("blue", at[0]), service("green", at[1])),
    );
    rig.write(
        "sidecar.yaml",
        &SIDECAR.replace(
            "HOSTS",
            "./hello.shop.svc.cluster.local, ./green.shop.svc.cluster.local",
        ),
    );
    let flags = [
        "--knative-ingress-class=knative".to_owned(),
        "--ingress-namespace=shop".to_owned(),
        "--ingress-selector=istio=ingressgateway".to_owned(),
        format!("--ingress-http-port={plain}"),
        format!("--ingress-https-port={secure}"),
    ];
    let mut mesh = rig.mesh_with(flags.into()).await;
    mesh.start_gateway().unwrap();
    mesh.start_sidecar(&WORKLOADS[1], &[]).unwrap();
    mesh.wait_for_proxies().await.unwrap();
    let gateway = (rig.block.gateway().ip(), plain).into();
    let get = async |host: &str, path: &str, headers: &[(&str, &str)]| -> anyhow::Result<Reply> {
        Client::new(gateway, host)
            .send(Method::GET, path, headers)
            .await
    };
    let host = "hello.example.com";
    until("the Ingress is served", async || {
        get(host, "/", &[])
            .await
            .is_ok_and(|reply| reply.status == 200)
    })
    .await;

    // Shares of requests, and those with the header.
    let (before, all) = (green.count(), 400);
    for _ in 0..all {
        assert_eq!(get(host, "/", &[]).await.unwrap().status, 200);
    }
    let share = green.count() - before;
    assert!((40..=120).contains(&share), "{share} of {all}");
    for _ in 0..20 {
        let reply = get(host, "/", &[("knative-serving-tag", "next")]).await;
        assert_eq!(reply.unwrap().text(), "green");
    }

    // Headers, the host, and the version that a probe asks for.
    let reply = get(host, "/inner/x", &[("x-all", "mine")]).await.unwrap();
    assert_eq!(reply.text(), "blue");
    let headers = blue.last_headers();
    for (name, value) in [
        ("x-all", "a"),
        ("x-blue", "b"),
        ("host", "inner.example.com"),
    ] {
        let found: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(found, [value], "{name}");
    }
    assert!(headers.get("k-network-hash").is_none());
    let probe = [("k-network-probe", "probe"), ("k-network-hash", "override")];
    get(host, "/inner", &probe).await.unwrap();
    let headers = blue.last_headers();
    assert_eq!(headers["k-network-probe"], "probe");
    assert_eq!(headers["k-network-hash"].len(), 64);

    // HTTPS alone, and what cannot be served.
    let reply = get("secure.example.com", "/a?b", &[]).await.unwrap();
    assert_eq!(reply.status, 301);
    assert_eq!(
        get("closed.example.com", "/", &[]).await.unwrap().status,
        503
    );

    // The hosts of the cluster are for sidecars.
    until("the sidecar is told of the host", async || {
        let reply = ask(&rig, "hello.shop.svc.cluster.local:8000").await;
        reply.is_ok_and(|reply| reply.text() == "green")
    })
    .await;
    for host in [
        "hello.shop",
        "hello.shop.svc",
        "hello.shop.svc.cluster.local",
    ] {
        let reply = get(host, "/", &[]).await.unwrap();
        assert_eq!(reply.status, 404, "{host} is not for everybody");
    }

    // The status says the same, and what is not served.
    let config = rig.folder().display().to_string();
    let status = [
        "status",
        "--config-dir",
        &config,
        "--knative-ingress-class=knative",
    ];
    let status = [
        &status[..],
        &["--ingress-publish-address=192.0.2.1", "-o", "json"],
    ]
    .concat();
    let status = String::from_utf8(mesh.run(&status).unwrap()).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let of = |name: &str| {
        let mut items = status["items"].as_array().unwrap().iter();
        let item = items.find(|item| item["metadata"]["name"] == name);
        item.unwrap()["status"].clone()
    };
    let ready = |name: &str| of(name)["conditions"][2]["status"].clone();
    assert_eq!(ready("hello"), "True", "{status}");
    assert_eq!(ready("closed"), "False");
    assert_eq!(
        of("hello")["publicLoadBalancer"]["ingress"][0]["ip"],
        "192.0.2.1"
    );
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
