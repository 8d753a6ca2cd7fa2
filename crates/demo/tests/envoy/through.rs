//! A service of an McpBridge that gateways reach through a proxy only, which they ask for it with CONNECT.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use demo::check::nothing_refused;
use demo::http::Client;
use hyper::Method;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::rig::{Rig, ports_of_all_addresses, until};
use crate::rotation::pair;

const INGRESS: &str = "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api, namespace: shop, annotations: {higress.io/destination: 'api.dns:8443'}}
spec:
  ingressClassName: higress
  rules:
  - host: shop.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {resource: {apiGroup: networking.higress.io, kind: McpBridge, name: default}}}
---
# No root of the machine has signed the service's certificate.
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: api, namespace: shop}
spec:
  host: api.dns
  trafficPolicy: {tls: {mode: SIMPLE, sni: api.unknown.example, insecureSkipVerify: true}}
";

fn bridge(server: SocketAddr, listener: u16) -> String {
    format!(
        "
apiVersion: networking.higress.io/v1
kind: McpBridge
metadata: {{name: default, namespace: shop}}
spec:
  proxies:
  - {{type: HTTP, name: egress, serverAddress: {}, serverPort: {}, listenerPort: {listener}}}
  registries:
  - {{type: dns, name: api, domain: api.unknown.example, port: 8443, protocol: https, proxyName: egress}}
",
        server.ip(),
        server.port()
    )
}

/// Reads the head of a request. None at the end of the connection.
async fn head<S: tokio::io::AsyncRead + Unpin>(reader: &mut BufReader<S>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// A service that speaks TLS and says which server name it was asked for.
async fn service(address: SocketAddr) {
    let pair = pair(1);
    let chain = CertificateDer::from_pem_slice(pair.chain.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            tokio::spawn(async move {
                let stream = tls.accept(stream).await.ok()?;
                let name = stream.get_ref().1.server_name().unwrap_or("").to_owned();
                let mut stream = BufReader::new(stream);
                head(&mut stream).await?;
                // One request a connection, so that each begins at the proxy.
                let length = name.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{name}"
                );
                stream.write_all(answer.as_bytes()).await.ok()?;
                stream.shutdown().await.ok()
            });
        }
    });
}

/// What a proxy was asked for.
type Asked = Arc<Mutex<Vec<String>>>;

/// A proxy that leads to the service, whatever it is asked for.
async fn proxy(address: SocketAddr, service: SocketAddr) -> Asked {
    let listener = TcpListener::bind(address).await.unwrap();
    let asked = Asked::default();
    let told = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let told = told.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let head = head(&mut stream).await?;
                let first = head.lines().next().unwrap_or_default().to_owned();
                told.lock().unwrap().push(first);
                let mut far = TcpStream::connect(service).await.ok()?;
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
                copy_bidirectional(&mut stream, &mut far).await.ok()
            });
        }
    });
    asked
}

pub(crate) async fn a_service_is_reached_through_its_proxy(mut rig: Rig) {
    let [plain, _] = rig.serve_ingresses("higress");
    let [listener] = ports_of_all_addresses();
    let far = rig.address("127.0.20.90:8443");
    service(far).await;
    let (first, second) = (
        rig.address("127.0.20.91:3128"),
        rig.address("127.0.20.92:3129"),
    );
    let asked = [proxy(first, far).await, proxy(second, far).await];
    rig.write("ingress.yaml", INGRESS);
    rig.write("bridge.yaml", &bridge(first, listener));
    let mesh = rig.gateway().await;
    let address = SocketAddr::from((rig.block.gateway().ip(), plain));
    let get = async || {
        let mut client = Client::new(address, "shop.example.com");
        client.send(Method::GET, "/", &[]).await.ok()
    };
    until("the service answers", async || {
        get().await.is_some_and(|reply| reply.status == 200)
    })
    .await;
    assert_eq!(get().await.unwrap().text(), "api.unknown.example");
    let count = |which: usize| asked[which].lock().unwrap().len();
    let lines = asked[0].lock().unwrap().clone();
    assert!(
        lines
            .iter()
            .all(|l| l == "CONNECT api.unknown.example:8443 HTTP/1.1"),
        "{lines:?}"
    );
    assert_eq!(count(1), 0);

    // An edit moves the service to another proxy, as far as connections are new.
    rig.write("bridge.yaml", &bridge(second, listener));
    until("the other proxy is asked", async || {
        let _ = get().await;
        count(1) > 0
    })
    .await;
    until("the service answers", async || {
        get().await.is_some_and(|reply| reply.status == 200)
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
