//! Options of gateways that serve Ingresses with annotations, as the ConfigMap of Higress states them, edited live.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use demo::check::nothing_refused;
use demo::http::{Client, Reply};
use demo::shop::WORKLOADS;
use hyper::{Method, StatusCode};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::backend::Backend;
use crate::grpc;
use crate::rig::{Rig, until};

const HOST: &str = "shop.example.com";

/// An Ingress, and a collector whose port does not say that it speaks gRPC.
const INGRESS: &str = "
apiVersion: v1
kind: Service
metadata: {name: blue, namespace: shop}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 9080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: blue-1, namespace: shop, labels: {kubernetes.io/service-name: blue}}
addressType: IPv4
endpoints: [{addresses: [127.0.20.10], conditions: {ready: true}}]
ports: [{name: http, port: 9080}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  namespace: shop
  annotations: {higress.io/timeout: '30'}
spec:
  ingressClassName: higress
  rules:
  - host: shop.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: blue, port: {number: 9080}}}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: otel, namespace: shop}
spec:
  hosts: [otel.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 4317, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.20.92}]
";

/// Clients come through one proxy that is trusted.
const TRUSTED: &str = "defaultConfig: {gatewayTopology: {numTrustedProxies: 1}}";

/// The ConfigMap, with these sections.
fn options(sections: &[&str]) -> String {
    let lines: String = sections.iter().map(|s| format!("    {s}\n")).collect();
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: higress-config, namespace: shop}}\n\
         data:\n  higress: |\n{lines}"
    )
}

fn behaves(path: &str, _: usize) -> (Duration, StatusCode) {
    let time = match path {
        "/slow" => Duration::from_secs(4),
        _ => Duration::ZERO,
    };
    (time, StatusCode::OK)
}

struct Site {
    blue: Backend,
    address: SocketAddr,
}

impl Site {
    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Option<Reply> {
        let mut client = Client::new(self.address, HOST);
        client.send(Method::GET, path, headers).await.ok()
    }

    async fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.get(path, headers).await.map_or(0, |r| r.status)
    }

    /// What the backend hears of the address of a client outside, who says that it is another.
    async fn real_ip(&self) -> Option<String> {
        let claims = [("x-forwarded-for", "203.0.113.7"), ("x-real-ip", "8.8.8.8")];
        self.get("/", &claims).await?;
        let heard = self.blue.last_headers();
        Some(heard.get("x-real-ip")?.to_str().unwrap().to_owned())
    }

    /// Whether the headers of a request may have so many KiB.
    async fn takes(&self, kib: usize) -> bool {
        let long = "x".repeat(kib << 10);
        match self.status("/", &[("x-long", &long)]).await {
            200 => true,
            431 => false,
            other => panic!("{other}"),
        }
    }

    /// How long a connection is left open on which nothing is said.
    async fn silence(&self) -> Duration {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let start = Instant::now();
        let mut said = [0; 64];
        let read = stream.read(&mut said);
        let _ = tokio::time::timeout(Duration::from_secs(6), read).await;
        start.elapsed()
    }
}

/// The names of Envoy's own headers that a backend heard and a client got.
fn own_headers(heard: &hyper::HeaderMap, reply: &Reply) -> Vec<String> {
    let names = heard.keys().chain(reply.headers.keys());
    let names = names.map(|name| name.as_str().to_owned());
    // Whether a request is from inside is told by the connection manager, not by routing.
    names
        .filter(|name| name.starts_with("x-envoy-"))
        .filter(|name| {
            matches!(
                &**name,
                "x-envoy-upstream-service-time" | "x-envoy-expected-rq-timeout-ms"
            )
        })
        .collect()
}

pub(crate) async fn options_of_the_edge_follow_a_config_map(mut rig: Rig) {
    let blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", behaves).await;
    let spans = Arc::new(AtomicUsize::new(0));
    let received = spans.clone();
    grpc::serve(rig.address("127.0.20.92:4317"), move |_, _| {
        received.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    })
    .await;
    let [plain, _] = rig.serve_ingresses("higress");
    rig.write("ingress.yaml", INGRESS);
    let mesh = rig.gateway_with(vec![rig.mesh_config(TRUSTED)]).await;
    let site = Site {
        blue,
        address: (rig.block.gateway().ip(), plain).into(),
    };
    until("the Ingress is served", async || {
        site.status("/", &[]).await == 200
    })
    .await;

    // Higress's defaults: nothing is told of addresses, Envoy's headers are there, and headers have 60 KiB.
    assert_eq!(site.real_ip().await.as_deref(), Some("8.8.8.8"));
    let reply = site.get("/", &[]).await.unwrap();
    assert_eq!(own_headers(&site.blue.last_headers(), &reply).len(), 2);
    assert!(site.takes(4).await);
    assert_eq!(spans.load(Ordering::Relaxed), 0);

    let all = [
        "addXRealIpHeader: true",
        "disableXEnvoyHeaders: true",
        "downstream: {maxRequestHeadersKb: 2, idleTimeout: 2, routeTimeout: 1}",
        "tracing: {enable: true, sampling: 100, opentelemetry: {service: otel.shop.svc.cluster.local, port: 4317}}",
    ];
    rig.write("options.yaml", &options(&all));
    until("clients outside are told by their address", async || {
        site.real_ip().await.as_deref() == Some("203.0.113.7")
    })
    .await;
    until("long headers are refused", async || !site.takes(4).await).await;
    let reply = site.get("/", &[]).await.unwrap();
    let heard = site.blue.last_headers();
    assert_eq!(own_headers(&heard, &reply), [""; 0]);
    // What a client says of itself does not pass.
    site.get("/", &[("x-real-ip", "8.8.8.8")]).await.unwrap();
    let heard = site.blue.last_headers();
    assert!(heard.get("x-real-ip").is_none_or(|told| told != "8.8.8.8"));
    // The Ingress says 30 s.
    assert_eq!(site.status("/slow", &[]).await, 504);
    let silence = site.silence().await;
    assert!((1..4).contains(&silence.as_secs()), "{silence:?}");
    until("spans arrive", async || {
        site.status("/", &[]).await;
        spans.load(Ordering::Relaxed) > 0
    })
    .await;

    // Other collectors are taken as well.
    let other = |collector: &str, kib: u8| {
        let limits = format!("downstream: {{maxRequestHeadersKb: {kib}, routeTimeout: 1}}");
        let told = "service: otel.shop.svc.cluster.local, port: 4317";
        let tracing = format!("tracing: {{enable: true, {collector}: {{{told}}}}}");
        rig.write(
            "options.yaml",
            &options(&[all[0], all[1], &limits, &tracing]),
        );
    };
    other("zipkin", 8);
    until("zipkin is taken", async || site.takes(4).await).await;
    other("skywalking", 2);
    until("skywalking is taken", async || !site.takes(4).await).await;

    // A section that is bad keeps what it said, and the others count.
    let mut edited = all.to_vec();
    edited[0] = "addXRealIpHeader: false";
    edited[2] = "downstream: {maxRequestHeadersKb: 9000}";
    rig.write("options.yaml", &options(&edited));
    until("clients say who they are again", async || {
        site.real_ip().await.as_deref() == Some("8.8.8.8")
    })
    .await;
    assert!(!site.takes(4).await);
    assert_eq!(site.status("/slow", &[]).await, 504);

    // Without the ConfigMap the defaults are back, also those of what was bad.
    std::fs::remove_file(rig.folder().join("options.yaml")).unwrap();
    until("long headers are taken again", async || site.takes(4).await).await;
    assert_eq!(site.status("/slow", &[]).await, 200);
    // What was bad does not come back by being there again.
    rig.write("options.yaml", &options(&edited));
    until("the other options are back", async || {
        let reply = site.get("/", &[]).await.unwrap();
        own_headers(&site.blue.last_headers(), &reply).is_empty()
    })
    .await;
    assert!(site.takes(4).await);
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
