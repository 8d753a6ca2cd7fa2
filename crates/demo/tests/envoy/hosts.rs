//! Hosts of Ingresses with annotations over TLS: routes are found by the host of a request, not by the name of its connection.

use demo::check::nothing_refused;
use demo::shop::WORKLOADS;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::backend::{Backend, prompt};
use crate::edge::{indented, secret_of};
use crate::rig::{Rig, until};
use crate::rotation::{connect, pair, secret};

const INGRESSES: &str = "
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
metadata: {name: shop, namespace: shop}
spec:
  ingressClassName: nginx
  tls: [{hosts: [shop.example.com], secretName: edge}]
  rules:
  - host: shop.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: blue, port: {number: 9080}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: bank
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/whitelist-source-range: 192.0.2.0/24}
spec:
  ingressClassName: nginx
  tls: [{hosts: [bank.example.com], secretName: edge}]
  rules:
  - host: bank.example.com
    http:
      paths: [{path: /vault, pathType: Prefix, backend: {service: {name: blue, port: {number: 9080}}}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: staff
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/auth-tls-secret: shop/authority}
spec:
  ingressClassName: nginx
  tls: [{hosts: [staff.example.com], secretName: edge}]
  rules:
  - host: staff.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: blue, port: {number: 9080}}}}]}
";

pub(crate) async fn a_host_is_routed_over_any_connection_but_one_that_asks_for_certificates(
    mut rig: Rig,
) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let [_, tls] = rig.serve_ingresses("nginx");
    let own = pair(1);
    let fields = secret("edge", &own.chain, &own.key);
    rig.write("secret.yaml", &fields);
    let authority = [("ca.crt", indented(&own.chain))];
    rig.write("authority.yaml", &secret_of("authority", &authority));
    rig.write("ingresses.yaml", INGRESSES);
    let mut mesh = rig
        .mesh_with(vec!["--insecure-test-identities".to_owned()])
        .await;
    mesh.start_gateway_with(&["--token", "sa:shop:gateway"])
        .unwrap();
    mesh.wait_for_proxies().await.unwrap();
    let address = (rig.block.gateway().ip(), tls).into();
    // The connection asks for shop.example.com.
    let status = async |host: &str, path: &str| -> u16 {
        let Ok((mut stream, _)) = connect(address).await else {
            return 0;
        };
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text).await;
        let text = String::from_utf8_lossy(&text);
        let status = text.split(' ').nth(1).and_then(|s| s.parse().ok());
        status.unwrap_or(0)
    };
    until("the host is served", async || {
        status("shop.example.com", "/").await == 200
    })
    .await;
    // Of another host, whose rule is followed; and of none.
    assert_eq!(status("bank.example.com", "/vault").await, 403);
    assert_eq!(status("bank.example.com", "/").await, 404);
    assert_eq!(status("staff.example.com", "/").await, 404);
    nothing_refused(&mesh).await.unwrap();
}
