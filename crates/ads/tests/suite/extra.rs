//! Types beside those of a view, over loopback.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use pilothouse_ads::server::{Asker, Door, ExtraStream, ExtraTypes, Incident, Options, Server};
use pilothouse_ads::{Answer, Code, Entry, Protocol, Request, Status};
use prost_types::Any;
use proto_envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use tokio_util::sync::CancellationToken;

use crate::serving::{CDS, DELTA, listen, serve_by};
use crate::socket::{Call, SOTW, World, named, world};

const RUNTIME: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";

/// Answers `echo` with the names that it is asked for and the token of the client; refuses the name `secret`.
struct Echo;

struct Echoes {
    token: String,
    protocol: Protocol,
    due: VecDeque<Bytes>,
}

impl ExtraTypes for Echo {
    fn serves(&self, type_url: &str) -> bool {
        type_url == "echo"
    }

    fn open(&self, asker: &Asker) -> Box<dyn ExtraStream> {
        let caller = asker.proven.caller.clone().unwrap();
        Box::new(Echoes {
            token: caller.downcast_ref::<String>().unwrap().clone(),
            protocol: asker.protocol,
            due: VecDeque::new(),
        })
    }
}

impl ExtraStream for Echoes {
    fn on_request(&mut self, request: Request) -> Result<(), Status> {
        let names = match request.ask {
            pilothouse_ads::Ask::Delta { subscribe, .. } => subscribe,
            pilothouse_ads::Ask::Sotw { names } => names,
        };
        if names.iter().any(|name| name == "secret") {
            return Err(Status::new(Code::PermissionDenied, "not for you"));
        }
        let resources = names.into_iter().map(|name| Entry {
            resource: Any {
                type_url: self.token.clone(),
                value: name.clone().into_bytes(),
            },
            name,
            version: "1".to_owned(),
        });
        let answer = Answer {
            type_url: request.type_url,
            nonce: "n".to_owned(),
            resources: resources.collect(),
            control_plane: Some("me".to_owned()),
            ..Answer::default()
        };
        self.due.push_back(answer.encode(self.protocol));
        Ok(())
    }

    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        let next = self.due.pop_front();
        next.map_or(Poll::Pending, |message| Poll::Ready(Ok(message)))
    }

    fn owes(&self) -> bool {
        !self.due.is_empty()
    }
}

/// A server that also echoes. It ends with the token.
fn start() -> (Arc<World>, SocketAddr, CancellationToken) {
    let world = world();
    let server = Server::new(world.clone(), Options::default()).unwrap();
    let (listener, address) = listen();
    let (stop, _) = serve_by(server.extra(Arc::new(Echo)), Door::Plaintext(listener));
    (world, address, stop)
}

fn delta(type_url: &str, nonce: &str, subscribe: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: named("n"),
        type_url: type_url.into(),
        response_nonce: nonce.into(),
        resource_names_subscribe: subscribe.iter().map(|name| (*name).into()).collect(),
        ..Default::default()
    }
}

fn sotw(type_url: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        node: named("n"),
        type_url: type_url.into(),
        response_nonce: "2026-11-28T19:22:44Z".into(),
        resource_names: names.iter().map(|name| (*name).into()).collect(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_client_that_asks_for_no_view_is_not_admitted_as_a_proxy() {
    let (world, address, stop) = start();
    let mut call = Call::open(address, SOTW).await;
    call.ask(&sotw("echo", &["a"]));
    call.ask(&sotw("a/b/Nothing", &[]));
    let (mut echo, mut nothing): (DiscoveryResponse, DiscoveryResponse) =
        (call.next().await.unwrap(), call.next().await.unwrap());
    if echo.type_url != "echo" {
        std::mem::swap(&mut echo, &mut nothing);
    }
    assert_eq!(echo.resources[0].type_url, "Bearer sesame");
    assert_eq!(echo.resources[0].value, b"a");
    assert_eq!(echo.control_plane.unwrap().identifier, "me");
    assert_eq!(
        (&*nothing.type_url, nothing.resources.len()),
        ("a/b/Nothing", 0)
    );
    assert_eq!(world.sessions.load(Ordering::SeqCst), 0);
    let unknown = Incident::UnknownType {
        client: "n".into(),
        type_url: "a/b/Nothing".into(),
    };
    world.incidents.sees(&unknown, 1).await;

    // It becomes one when it asks for what proxies ask for, by the node of its first request.
    call.ask(&DiscoveryRequest {
        type_url: CDS.into(),
        ..Default::default()
    });
    let clusters: DiscoveryResponse = call.next().await.unwrap();
    assert_eq!((&*clusters.type_url, clusters.resources.len()), (CDS, 2));
    assert_eq!(world.sessions.load(Ordering::SeqCst), 1);
    stop.cancel();
}

#[tokio::test]
async fn a_proxy_is_told_that_there_is_nothing_of_a_type_that_nobody_serves() {
    let (world, address, stop) = start();
    let mut call = Call::open(address, DELTA).await;
    call.ask(&delta(RUNTIME, "", &["layer"]));
    let nothing: DeltaDiscoveryResponse = call.next().await.unwrap();
    assert_eq!((&*nothing.type_url, nothing.resources.len()), (RUNTIME, 0));
    assert_eq!(nothing.removed_resources, ["layer"]);
    // Such types are asked for by proxies alone.
    assert_eq!(world.sessions.load(Ordering::SeqCst), 1);
    call.ask(&delta(RUNTIME, &nothing.nonce, &[]));
    call.ask(&delta("echo", "", &["b"]));
    let echo: DeltaDiscoveryResponse = call.next().await.unwrap();
    assert_eq!((&*echo.type_url, &*echo.resources[0].name), ("echo", "b"));
    stop.cancel();

    let (_, address, _stop) = start();
    let mut stranger = Call::open(address, DELTA).await;
    stranger.ask(&DeltaDiscoveryRequest {
        node: named("stranger"),
        ..delta(RUNTIME, "", &["layer"])
    });
    let refused = stranger.next::<DeltaDiscoveryResponse>().await;
    assert_eq!(refused, Err(16));
}

#[tokio::test]
async fn a_refusal_ends_the_stream_and_the_end_of_requests_waits_for_answers() {
    let (_, address, stop) = start();
    let mut call = Call::open(address, DELTA).await;
    call.ask(&delta("echo", "", &["secret"]));
    assert_eq!(call.next::<DeltaDiscoveryResponse>().await, Err(7));

    let mut call = Call::open(address, DELTA).await;
    call.ask(&delta("echo", "", &["a"]));
    call.send.send_data(Bytes::new(), true).unwrap();
    let echo = call.next::<DeltaDiscoveryResponse>().await.unwrap();
    assert_eq!(echo.resources.len(), 1);
    assert_eq!(call.next::<DeltaDiscoveryResponse>().await, Err(0));

    let mut nobody = Call::open(address, DELTA).await;
    nobody.ask(&DeltaDiscoveryRequest {
        node: named(""),
        ..delta("echo", "", &["a"])
    });
    assert_eq!(nobody.next::<DeltaDiscoveryResponse>().await, Err(3));
    stop.cancel();
}
