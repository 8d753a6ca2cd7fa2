//! gRPC servers for what Envoys ask: with unary methods, and with such that go both ways.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

/// Before each message: a byte for compression and the length.
const PREFIX: usize = 5;

/// Serves until the test ends. `answer` gets the path of a method and a message, and gives a message.
pub(crate) async fn serve(
    address: SocketAddr,
    answer: impl Fn(&str, Bytes) -> Vec<u8> + Send + Sync + 'static,
) {
    let listener = TcpListener::bind(address).await.unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    // A proxy that goes away meanwhile gets an answer to nothing.
                    let body = request.into_body().collect().await;
                    let body = body.map(|b| b.to_bytes()).unwrap_or_default();
                    let message = body.slice(PREFIX.min(body.len())..);
                    Ok::<_, Infallible>(reply(&answer(&path, message)))
                }
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

fn reply(message: &[u8]) -> Response<Body> {
    let body = Full::new(framed(message)).with_trailers(async { Some(Ok(well())) });
    response(body.boxed_unsync())
}

fn response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    response
}

/// The trailers of a call that went well.
fn well() -> HeaderMap {
    let status = "grpc-status".parse().unwrap();
    HeaderMap::from_iter([(status, HeaderValue::from_static("0"))])
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

/// A server that can be ended, with its connections.
pub(crate) struct Server(AbortHandle);

impl Server {
    pub(crate) fn stop(&self) {
        self.0.abort();
    }
}

/// Serves methods that answer each message, when it comes, with another one.
pub(crate) async fn serve_streams(
    address: SocketAddr,
    answer: impl Fn(&str, Bytes) -> Vec<u8> + Send + Sync + 'static,
) -> Server {
    let listener = TcpListener::bind(address).await.unwrap();
    let answer = Arc::new(answer);
    let serving = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let (send, receive) = unbounded_channel();
                let path = request.uri().path().to_owned();
                let answer = answer.clone();
                let answer = move |message| answer(&path, message);
                tokio::spawn(converse(request.into_body(), answer, send));
                let body = Frames(receive).boxed_unsync();
                std::future::ready(Ok::<_, Infallible>(response(body)))
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            connections.spawn(connection);
        }
    });
    Server(serving.abort_handle())
}

/// Answers messages until the client has no more.
async fn converse(
    mut body: Incoming,
    answer: impl Fn(Bytes) -> Vec<u8>,
    send: UnboundedSender<Frame<Bytes>>,
) {
    let mut buffer = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            buffer.extend_from_slice(&data);
        }
        while let Some(message) = next(&mut buffer) {
            // A client that goes away gets no more.
            let _ = send.send(Frame::data(framed(&answer(message))));
        }
    }
    let _ = send.send(Frame::trailers(well()));
}

/// The next whole message.
fn next(buffer: &mut BytesMut) -> Option<Bytes> {
    let length: [u8; 4] = buffer.get(1..PREFIX)?.try_into().ok()?;
    let length = PREFIX + usize::try_from(u32::from_be_bytes(length)).ok()?;
    (buffer.len() >= length).then(|| buffer.split_to(length).freeze().slice(PREFIX..))
}

/// A body of frames as they come.
struct Frames(UnboundedReceiver<Frame<Bytes>>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(Ok))
    }
}
