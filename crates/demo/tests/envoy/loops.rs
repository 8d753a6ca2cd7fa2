//! Routes whose backend is the gateway itself, with the EnvoyFilter of `examples/no-loops`: they do not go round.

use std::time::Duration;

use demo::admin::stats;
use demo::check::nothing_refused;
use tokio::net::TcpStream;

use crate::rig::{Rig, root, until};

/// What passes the gateway, by HTTP to three places at a time and by TCP, comes to the gateway again. The route takes out what
/// would tell the gateway so.
const LOOPS: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 18080, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: [shop.example.com]}
  - {port: {number: 18081, name: tcp, protocol: TCP}, bind: 127.0.0.1, hosts: ['*']}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: loop, namespace: evil}
spec:
  hosts: [loop.evil.example]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: tcp, protocol: TCP}]
  endpoints: [{address: 127.0.0.1, ports: {http: 18080, tcp: 18081}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: loop, namespace: evil}
spec:
  hosts: [shop.example.com]
  gateways: [shop/shop]
  http:
  - match: [{uri: {exact: /fine}}]
    directResponse: {status: 200}
  - rewrite: {authority: shop.example.com}
    headers: {request: {remove: [cdn-loop, x-forwarded-for]}}
    route: [{destination: {host: loop.evil.example, port: {number: 80}}}]
    mirrors:
    - {destination: {host: loop.evil.example, port: {number: 80}}}
    - {destination: {host: loop.evil.example, port: {number: 80}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: connections, namespace: evil}
spec:
  hosts: ['*']
  gateways: [shop/shop]
  tcp: [{match: [{port: 18081}], route: [{destination: {host: loop.evil.example, port: {number: 81}}}]}]
";
/// How many connections of TCP the example lets through.
const MOST: u64 = 100;

/// The sum of the counters of the gateway whose names match.
async fn sum(rig: &Rig, filter: &str) -> u64 {
    let counters = stats(rig.block.gateway_admin(), filter).await.unwrap();
    counters.values().sum()
}

pub(crate) async fn what_leads_back_to_the_gateway_does_not_go_round(rig: Rig) {
    const REQUESTS: &str = "^http.outbound.*downstream_rq_total$";
    let example = root().join("examples/no-loops/envoy-filter.yaml");
    rig.write("filter.yaml", &std::fs::read_to_string(example).unwrap());
    rig.write("loops.yaml", LOOPS);
    let mesh = rig.gateway().await;
    assert_eq!(rig.get("/fine").await.status, 200);

    let before = sum(&rig, REQUESTS).await;
    assert_eq!(rig.get("/").await.status, 502);
    // The request, what it leads to, and two mirrors.
    until("the mirrored requests have come", async || {
        sum(&rig, REQUESTS).await >= before + 4
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(sum(&rig, REQUESTS).await, before + 4);

    let connection = TcpStream::connect(rig.address("127.0.0.1:18081")).await;
    until("the limit of connections is reached", async || {
        sum(&rig, "no_loops.limited_connections").await > 0
    })
    .await;
    assert!(sum(&rig, "no_loops.active_connections").await <= MOST);
    assert_eq!(rig.get("/fine").await.status, 200);
    drop(connection.unwrap());
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
