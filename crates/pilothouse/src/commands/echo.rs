//! `pilothouse echo`: a small backend for demos and tests that says who it is and whom it asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

/// The largest answer read from another backend.
const LARGEST_ANSWER: usize = 1 << 20;

/// Flags of `pilothouse echo`.
#[derive(Args, Debug, Clone)]
pub(crate) struct EchoOptions {
    /// Its name, which is part of every response.
    #[arg(long, value_name = "NAME")]
    name: String,

    /// Where to listen; may be given several times.
    #[arg(long, value_name = "HOST:PORT", required = true)]
    listen: Vec<SocketAddr>,

    /// Call another service on each request, through the proxy at ADDRESS: `http://HOST/PATH@ADDRESS`. May be given
    /// several times.
    #[arg(long, value_name = "URL@ADDRESS", value_parser = call)]
    call: Vec<Call>,
}

/// Another service to ask.
#[derive(Clone, Debug)]
struct Call {
    host: String,
    path: String,
    address: SocketAddr,
}

fn call(text: &str) -> Result<Call, String> {
    let wrong = || format!("{text:?} is not http://HOST/PATH@ADDRESS:PORT");
    let (url, address) = text.rsplit_once('@').ok_or_else(wrong)?;
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    Ok(Call {
        host: host.to_owned(),
        path: format!("/{path}"),
        address: address.parse().map_err(|_| wrong())?,
    })
}

/// Serves until the process is told to end.
pub(crate) async fn run(options: EchoOptions) -> anyhow::Result<()> {
    let options = Arc::new(options);
    let mut servers = tokio::task::JoinSet::new();
    for address in options.listen.clone() {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        servers.spawn(accept(listener, options.clone()));
    }
    tokio::select! {
        _ = servers.join_next() => {}
        result = tokio::signal::ctrl_c() => result.context("cannot wait for the signal")?,
    }
    Ok(())
}

async fn accept(listener: TcpListener, options: Arc<EchoOptions>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let options = options.clone();
        tokio::spawn(async move {
            let service =
                hyper::service::service_fn(move |request| answer(request, peer, options.clone()));
            // A client that breaks off is its own business.
            let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    options: Arc<EchoOptions>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let length = match Limited::new(body, LARGEST_ANSWER).collect().await {
        Ok(body) => body.to_bytes().len(),
        Err(_) => {
            return Ok(text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is too large",
            ));
        }
    };
    let headers: serde_json::Map<String, Value> = head
        .headers
        .iter()
        .map(|(k, v)| {
            (
                k.to_string(),
                String::from_utf8_lossy(v.as_bytes()).into_owned().into(),
            )
        })
        .collect();
    let mut asked = Vec::new();
    for call in &options.call {
        asked.push(
            ask(call, &head.headers)
                .await
                .unwrap_or_else(|e| json!({ "error": format!("{e:#}"), "host": call.host })),
        );
    }
    let value = json!({
        "name": options.name,
        "method": head.method.as_str(),
        "path": head.uri.path_and_query().map_or("/", |p| p.as_str()),
        "headers": headers,
        "body_bytes": length,
        "peer": peer.to_string(),
        "asked": asked,
    });
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    response.headers_mut().insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}

fn text(status: StatusCode, message: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(message.as_bytes())));
    *response.status_mut() = status;
    response
}

/// Headers that are handed on, so that rules on them hold along the way.
const HANDED_ON: &[&str] = &[
    "end-user",
    "x-request-id",
    "user-agent",
    "traceparent",
    "x-b3-traceid",
];

async fn ask(call: &Call, headers: &hyper::HeaderMap) -> anyhow::Result<Value> {
    let stream =
        tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(call.address)).await??;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let mut request = Request::get(&call.path).header(hyper::header::HOST, &call.host);
    for name in HANDED_ON {
        if let Some(value) = headers.get(*name) {
            request = request.header(*name, value);
        }
    }
    let response = tokio::time::timeout(
        Duration::from_secs(5),
        sender.send_request(request.body(Full::new(Bytes::new()))?),
    )
    .await??;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LARGEST_ANSWER)
        .collect()
        .await
        .map_err(|e| anyhow::anyhow!("the answer broke off: {e}"))?
        .to_bytes();
    driver.abort();
    let mut value: Value = serde_json::from_slice(&body)
        .unwrap_or_else(|_| json!({ "text": String::from_utf8_lossy(&body) }));
    if status != 200 {
        value = json!({ "status": status, "answer": value });
    }
    Ok(value)
}
