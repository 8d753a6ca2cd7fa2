//! What a probe that speaks gRPC is told on the port of xDS.

use std::net::SocketAddr;

use ads::server::{Frames, frame};
use prost::Message;

use crate::support::Server;

/// `HealthCheckRequest`.
#[derive(Clone, PartialEq, Message)]
struct Asked {
    #[prost(string, tag = "1")]
    service: String,
}

/// `HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
struct Told {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The status of a service, or the gRPC code of the refusal.
async fn check(address: SocketAddr, service: &str) -> Result<i32, String> {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let post = http::Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc");
    let mut client = client.ready().await.unwrap();
    let (response, mut send) = client.send_request(post.body(()).unwrap(), false).unwrap();
    let service = service.to_owned();
    let asked = Asked { service }.encode_to_vec();
    send.send_data(frame(&asked), true).unwrap();
    let response = response.await.unwrap();
    if let Some(code) = response.headers().get("grpc-status") {
        return Err(code.to_str().unwrap().to_owned());
    }
    let mut frames = Frames::new(1024);
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        frames.push(data.unwrap());
        if let Some(message) = frames.pop().unwrap() {
            return Ok(Told::decode(message).unwrap().status);
        }
    }
    Err("nothing".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_speaks_grpc_is_told_that_proxies_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let config = ["--config-dir", folder.path().to_str().unwrap()];
    let server = Server::start(&[&config[..], &["--state-dir", "off"]].concat()).ready();
    assert_eq!(check(server.xds, "").await, Ok(1));
    let ads = "envoy.service.discovery.v3.AggregatedDiscoveryService";
    assert_eq!(check(server.xds, ads).await, Ok(1));
    assert_eq!(check(server.xds, "shop.Cart").await, Err("5".to_owned()));
}
