//! A gRPC server with unary methods, for what Envoys ask.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

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
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    let trailers = HeaderMap::from_iter([(
        "grpc-status".parse().unwrap(),
        HeaderValue::from_static("0"),
    )]);
    let body = Full::new(frame.freeze()).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed_unsync());
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    response
}
