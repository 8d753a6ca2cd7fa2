//! Met by another implementation: the client of the `h2` crate.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use pilothouse_http2::{Call, Connection, Data, Input, Part, Service};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Answers `/echo` with what it is sent, `/large` with as many octets as the query says, `/only` with a head, `/never`
/// with nothing.
struct World;

enum Answer {
    Echo { begun: bool },
    Large { left: usize, begun: bool },
    Only,
    Never(Option<Waker>),
}

const PIECE: usize = 100_000;

fn octets(from: usize, count: usize) -> Bytes {
    (from..from + count).map(|n| n as u8).collect()
}

impl Service for World {
    type Call = Answer;

    fn call(&mut self, request: Request<()>) -> Answer {
        match request.uri().path() {
            "/echo" => Answer::Echo { begun: false },
            "/large" => Answer::Large {
                left: request.uri().query().unwrap().parse().unwrap(),
                begun: false,
            },
            "/only" => Answer::Only,
            _ => Answer::Never(None),
        }
    }
}

fn end() -> Part {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("long", HeaderValue::from_str(&"x".repeat(20_000)).unwrap());
    Part::End(trailers)
}

impl Call for Answer {
    fn poll(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<Part> {
        match self {
            Answer::Echo { begun } => {
                if !std::mem::replace(begun, true) {
                    return Poll::Ready(Part::Head(Response::new(())));
                }
                match input.take() {
                    Some(shared) => Poll::Ready(Part::Data(Data {
                        own: shared[..1].into(),
                        shared: shared.slice(1..),
                    })),
                    None if input.is_over() => Poll::Ready(end()),
                    None => Poll::Pending,
                }
            }
            Answer::Large { left, begun } => {
                if !std::mem::replace(begun, true) {
                    return Poll::Ready(Part::Head(Response::new(())));
                }
                let count = PIECE.min(*left);
                if count == 0 {
                    return Poll::Ready(end());
                }
                *left -= count;
                Poll::Ready(Part::Data(Data {
                    shared: octets(*left, count),
                    ..Data::default()
                }))
            }
            Answer::Only => Poll::Ready(Part::Only(
                Response::builder()
                    .status(418)
                    .header("why", "tea")
                    .body(())
                    .unwrap(),
            )),
            Answer::Never(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn serve(
    buffer: usize,
) -> (
    DuplexStream,
    JoinHandle<Result<(), pilothouse_http2::Error>>,
) {
    let (client, server) = tokio::io::duplex(buffer);
    (client, tokio::spawn(Connection::new(server, World)))
}

async fn open(buffer: usize, window: u32) -> SendRequest<Bytes> {
    let (io, _) = serve(buffer);
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(window)
        .initial_connection_window_size(window.max(65_535));
    let (client, connection) = builder.handshake(io).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

fn call(
    client: &mut SendRequest<Bytes>,
    path: &str,
    ends: bool,
) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://server{path}")).body(());
    client.send_request(request.unwrap(), ends).unwrap()
}

async fn read(mut body: RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    (all, body.trailers().await.unwrap())
}

async fn within<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(20), future).await.unwrap()
}

#[tokio::test]
async fn bodies_of_any_size_arrive_through_windows_and_sockets_of_any_size() {
    for (buffer, window) in [
        (1 << 20, 1 << 24),
        (100, 1 << 24),
        (1 << 16, 1000),
        (4096, 1),
    ] {
        let mut client = open(buffer, window).await;
        for len in [0, 1, 16_384, 16_385, 250_001] {
            // By a window of one octet only a little: more of it is an attack.
            let len = if window == 1 { len % 5000 } else { len };
            let (response, _) = call(&mut client, &format!("/large?{len}"), true);
            let response = within(response).await.unwrap();
            let (got, trailers) = within(read(response.into_body())).await;
            assert_eq!(got.len(), len);
            let pieces = (0..len).rev().collect::<Vec<_>>();
            let first = pieces.chunks(PIECE).next().map(|c| c[c.len() - 1] as u8);
            assert_eq!(got.first().copied(), first);
            let trailers = trailers.unwrap();
            assert_eq!(trailers["grpc-status"], "0");
            assert_eq!(trailers["long"].len(), 20_000);
        }
    }
}

#[tokio::test]
async fn what_is_sent_comes_back_and_windows_are_opened_again() {
    let mut client = open(1 << 14, 1 << 20).await;
    let (response, mut send) = call(&mut client, "/echo", false);
    let body = within(response).await.unwrap().into_body();
    let back = tokio::spawn(read(body));
    let all = octets(3, 300_000);
    let mut rest = all.clone();
    while !rest.is_empty() {
        send.reserve_capacity(rest.len());
        let room = within(std::future::poll_fn(|cx| send.poll_capacity(cx))).await;
        let piece = rest.split_to(room.unwrap().unwrap().min(rest.len()));
        send.send_data(piece, rest.is_empty()).unwrap();
    }
    let (got, trailers) = within(back).await.unwrap();
    assert_eq!(got, all);
    assert!(trailers.is_some());
}

#[tokio::test]
async fn calls_do_not_wait_for_each_other() {
    let mut client = open(1 << 16, 1 << 16).await;
    let never = call(&mut client, "/never", false);
    let (large, _) = call(&mut client, "/large?1000000", true);
    // Its window is full, and nobody reads it.
    let large = within(large).await.unwrap();
    for _ in 0..300 {
        let (only, _) = call(&mut client, "/only", false);
        let response = within(only).await.unwrap();
        assert_eq!(response.status(), 418);
        assert_eq!(response.headers()["why"], "tea");
        assert!(response.body().is_end_stream());
    }
    drop(never);
    let (got, _) = within(read(large.into_body())).await;
    assert_eq!(got.len(), 1_000_000);
}

#[tokio::test]
async fn streams_above_the_limit_can_be_tried_again() {
    let mut client = open(1 << 16, 1 << 16).await;
    let mut calls: Vec<_> = (0..100)
        .map(|_| call(&mut client, "/never", false))
        .collect();
    client = within(client.ready()).await.unwrap();
    let waits = call(&mut client, "/only", true).0;
    drop(calls.pop());
    assert_eq!(within(waits).await.unwrap().status(), 418);
}

#[tokio::test]
async fn a_drained_connection_answers_what_it_has_begun_and_ends() {
    let (io, server) = tokio::io::duplex(1 << 16);
    let mut connection = Connection::new(server, World);
    let (drain, drained) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(async move {
        tokio::select! {
            result = &mut connection => return result,
            _ = drained => connection.drain(),
        }
        connection.await
    });
    let (mut client, connection) = client::handshake(io).await.unwrap();
    let driver = tokio::spawn(connection);
    let (response, mut send) = call(&mut client, "/echo", false);
    let body = within(response).await.unwrap().into_body();
    drain.send(()).unwrap();
    send.send_data(Bytes::from_static(b"last"), true).unwrap();
    assert_eq!(within(read(body)).await.0, b"last");
    within(served).await.unwrap().unwrap();
    within(driver).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_is_asked_for_a_sign_of_life() {
    let (mut io, server) = tokio::io::duplex(1 << 16);
    let mut connection = Connection::new(server, World);
    connection.ping();
    let served = tokio::spawn(connection);
    io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    // Settings, a window, the ping, and that the settings are taken.
    let mut got = vec![0; 21 + 13 + 17 + 9];
    within(io.read_exact(&mut got)).await.unwrap();
    assert_eq!(got[34..43], [0, 0, 8, 6, 0, 0, 0, 0, 0]);
    drop(io);
    within(served).await.unwrap().unwrap();
}
