//! Knative's Ingresses, as clients of a gateway and of a sidecar see them.

use std::net::SocketAddr;

use demo::check::nothing_refused;
use demo::http::{Client, Reply};
use demo::mesh::Mesh;
use demo::shop::WORKLOADS;
use hyper::Method;
use serde_json::Value;

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

/// The gateway, and what is behind it.
struct Site {
    gateway: SocketAddr,
    blue: Backend,
    green: Backend,
}

const HOST: &str = "hello.example.com";

impl Site {
    async fn get(&self, host: &str, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Reply> {
        let mut client = Client::new(self.gateway, host);
        client.send(Method::GET, path, headers).await
    }

    /// Shares of requests, and those with the header.
    async fn splits(&self) {
        let (before, all) = (self.green.count(), 400);
        for _ in 0..all {
            assert_eq!(self.get(HOST, "/", &[]).await.unwrap().status, 200);
        }
        let share = self.green.count() - before;
        assert!((40..=120).contains(&share), "{share} of {all}");
        for _ in 0..20 {
            let tag = [("knative-serving-tag", "next")];
            assert_eq!(self.get(HOST, "/", &tag).await.unwrap().text(), "green");
        }
    }

    /// Headers, the host, and the version that a probe asks for.
    async fn headers(&self) {
        let reply = self.get(HOST, "/inner/x", &[("x-all", "mine")]).await;
        assert_eq!(reply.unwrap().text(), "blue");
        let headers = self.blue.last_headers();
        let wanted = [
            ("x-all", "a"),
            ("x-blue", "b"),
            ("host", "inner.example.com"),
        ];
        for (name, value) in wanted {
            let found: Vec<_> = headers.get_all(name).iter().collect();
            assert_eq!(found, [value], "{name}");
        }
        assert!(headers.get("k-network-hash").is_none());
        let probe = [("k-network-probe", "probe"), ("k-network-hash", "override")];
        self.get(HOST, "/inner", &probe).await.unwrap();
        let headers = self.blue.last_headers();
        assert_eq!(headers["k-network-probe"], "probe");
        assert_eq!(headers["k-network-hash"].len(), 64);
    }
}

/// What `pilothouse status` says of the folder.
fn statuses(rig: &Rig, mesh: &Mesh) -> Value {
    let config = rig.folder().display().to_string();
    let said = mesh.run(&[
        "status",
        "--config-dir",
        &config,
        "--knative-ingress-class=knative",
        "--ingress-publish-address=192.0.2.1",
        "-o",
        "json",
    ]);
    serde_json::from_slice(&said.unwrap()).unwrap()
}

pub(crate) async fn an_ingress_of_knative_is_served_to_those_who_may_reach_it(rig: Rig) {
    let at = [&WORKLOADS[0], &WORKLOADS[2]].map(|workload| rig.block.proxy(workload));
    let [plain, secure] = ports_of_all_addresses();
    let site = Site {
        gateway: (rig.block.gateway().ip(), plain).into(),
        blue: Backend::start(at[0], "blue", prompt).await,
        green: Backend::start(at[1], "green", prompt).await,
    };
    let services = [service("blue", at[0]), service("green", at[1])];
    rig.write("ingresses.yaml", INGRESSES);
    rig.write("services.yaml", &services.concat());
    let seen = "./hello.shop.svc.cluster.local, ./green.shop.svc.cluster.local";
    rig.write("sidecar.yaml", &SIDECAR.replace("HOSTS", seen));
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
    let status = async |host: &str| {
        let reply = site.get(host, "/a?b", &[]).await;
        reply.map_or(0, |reply| reply.status)
    };
    until("the Ingress is served", async || status(HOST).await == 200).await;
    site.splits().await;
    site.headers().await;

    // HTTPS alone, and what cannot be served.
    assert_eq!(status("secure.example.com").await, 301);
    assert_eq!(status("closed.example.com").await, 503);

    // The hosts of the cluster are for sidecars.
    let inner = "hello.shop.svc.cluster.local";
    until("the sidecar is told of the host", async || {
        let reply = ask(&rig, &format!("{inner}:8000")).await;
        reply.is_ok_and(|reply| reply.text() == "green")
    })
    .await;
    for host in ["hello.shop", "hello.shop.svc", inner] {
        assert_eq!(status(host).await, 404, "{host} is not for everybody");
    }

    // The status says the same.
    let statuses = statuses(&rig, &mesh);
    let of = |name: &str| {
        let mut items = statuses["items"].as_array().unwrap().iter();
        let item = items.find(|item| item["metadata"]["name"] == name);
        item.unwrap()["status"].clone()
    };
    let ready = |name: &str| of(name)["conditions"][2]["status"].clone();
    assert_eq!(ready("hello"), "True", "{statuses}");
    assert_eq!(ready("closed"), "False");
    let public = of("hello")["publicLoadBalancer"].clone();
    assert_eq!(public["ingress"][0]["ip"], "192.0.2.1");
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
