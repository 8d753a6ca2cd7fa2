//! What is spoken besides HTTP/1.1: HTTP/2 with gRPC, WebSocket, plain TCP; and what is done to headers.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use demo::check::nothing_refused;
use demo::shop::{HOST, WORKLOADS};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::backend::{Backend, prompt};
use crate::rig::Rig;
use crate::traffic::{SERVICES, routes};

/// A gRPC service and one of bytes, and a port of the gateway for the latter.
const MORE: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: calls, namespace: shop}
spec:
  hosts: [calls.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9090, name: grpc, protocol: GRPC}]
  endpoints: [{address: 127.0.20.31}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: bytes, namespace: shop}
spec:
  hosts: [bytes.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9091, name: tcp, protocol: TCP}]
  endpoints: [{address: 127.0.20.31}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: bytes, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 18081, name: tcp, protocol: TCP}, bind: 127.0.0.1, hosts: ['*']}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: bytes, namespace: shop}
spec:
  hosts: ['*']
  gateways: [bytes]
  tcp: [{route: [{destination: {host: bytes, port: {number: 9091}}}]}]
";

/// A gRPC server whose answer is a fixed message, over HTTP/2 alone.
async fn grpc_server(address: SocketAddr) {
    let listener = TcpListener::bind(address).await.unwrap();
    let answer = async |request: Request<Incoming>| {
        assert_eq!(request.version(), Version::HTTP_2);
        let trailers =
            HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        let body = Full::new(Bytes::from_static(b"\0\0\0\0\x02\x08\x07"));
        let body = body.with_trailers(async { Some(Ok(trailers)) });
        let response = Response::builder().header("content-type", "application/grpc");
        Ok::<_, Infallible>(response.body(body.boxed_unsync()).unwrap())
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            tokio::spawn(http);
        }
    });
}

/// A server of bytes that repeats what it is told; with a handshake first, one of WebSocket.
async fn echo(address: SocketAddr, handshake: bool) {
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                if handshake {
                    let head = head(&mut stream).await;
                    assert!(head.to_lowercase().contains("upgrade: websocket"), "{head}");
                    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                                  Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                let (mut from, mut to) = stream.split();
                // The other side may go away at any time.
                tokio::io::copy(&mut from, &mut to).await.ok();
            });
        }
    });
}

/// The head of an HTTP message.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn assert_echoes(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(back, text.as_bytes());
}

pub(crate) async fn grpc_websocket_and_tcp_pass_the_gateway(rig: Rig) {
    grpc_server(rig.address("127.0.20.31:9090")).await;
    echo(rig.address("127.0.20.31:9091"), false).await;
    echo(rig.block.proxy(&WORKLOADS[0]), true).await;
    rig.write("services.yaml", SERVICES);
    rig.write("more.yaml", MORE);
    rig.write(
        "routes.yaml",
        &routes(
            "  - match: [{uri: {prefix: /shop.Calls/}}]
    route: [{destination: {host: calls, port: {number: 9090}}}]
  - route: [{destination: {host: blue, port: {number: 9080}}}]
",
        ),
    );
    let mesh = rig.gateway().await;

    let stream = TcpStream::connect(rig.block.gateway()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::post(format!("http://{HOST}/shop.Calls/Count"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(b"\0\0\0\0\0")))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
    assert_eq!(&body.to_bytes()[..], b"\0\0\0\0\x02\x08\x07");
    driver.abort();

    let mut socket = TcpStream::connect(rig.block.gateway()).await.unwrap();
    let hello = format!(
        "GET /socket HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    );
    socket.write_all(hello.as_bytes()).await.unwrap();
    let answer = head(&mut socket).await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    assert_echoes(&mut socket, "no longer HTTP").await;

    let mut bytes = TcpStream::connect(rig.address("127.0.0.1:18081"))
        .await
        .unwrap();
    assert_echoes(&mut bytes, "never was HTTP").await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn headers_are_changed_and_origins_allowed_as_the_route_says(rig: Rig) {
    let blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    rig.write("services.yaml", SERVICES);
    rig.write(
        "routes.yaml",
        &routes(
            "  - headers:
      request: {set: {x-set: new}, add: {x-added: more}, remove: [x-secret]}
      response: {set: {x-answered-by: shop}}
    corsPolicy:
      allowOrigins: [{exact: 'https://good.example.com'}]
      allowMethods: [GET, PUT]
      maxAge: 60s
    route: [{destination: {host: blue, port: {number: 9080}}}]
",
        ),
    );
    let mesh = rig.gateway().await;
    let sent = [
        ("x-set", "old"),
        ("x-secret", "s"),
        ("origin", "https://good.example.com"),
    ];
    let reply = rig.get_with("/", &sent).await;
    assert_eq!(reply.headers["x-answered-by"], "shop");
    let allowed = "access-control-allow-origin";
    assert_eq!(reply.headers[allowed], "https://good.example.com");
    let seen = blue.last_headers();
    assert_eq!(
        (&seen["x-set"], &seen["x-added"]),
        (&"new".parse().unwrap(), &"more".parse().unwrap())
    );
    assert!(!seen.contains_key("x-secret"), "{seen:?}");

    let before = blue.count();
    let ask = [
        ("origin", "https://good.example.com"),
        ("access-control-request-method", "PUT"),
    ];
    let preflight = rig.client().send(Method::OPTIONS, "/", &ask).await.unwrap();
    assert_eq!(preflight.status, 200);
    assert_eq!(preflight.headers["access-control-max-age"], "60");
    let methods = preflight.headers["access-control-allow-methods"]
        .to_str()
        .unwrap();
    assert!(methods.contains("PUT"), "{methods}");
    assert_eq!(blue.count(), before, "the gateway answers for the backend");
    let bad = rig
        .get_with("/", &[("origin", "https://bad.example.com")])
        .await;
    assert!(!bad.headers.contains_key(allowed), "{:?}", bad.headers);
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
