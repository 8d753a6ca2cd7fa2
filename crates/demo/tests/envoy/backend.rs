//! A backend that behaves as a test says and counts what it is asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};

/// What a backend does with its nth request (from 0).
pub(crate) type Behaviour = fn(&str, usize) -> (Duration, StatusCode);

/// Answers at once.
pub(crate) fn prompt(_: &str, _: usize) -> (Duration, StatusCode) {
    (Duration::ZERO, StatusCode::OK)
}

/// A backend that runs until the test ends.
pub(crate) struct Backend {
    seen: Seen,
    serving: AbortHandle,
}

/// Paths and headers, in order.
type Seen = Arc<Mutex<Vec<(String, HeaderMap)>>>;

impl Backend {
    /// Listens. Its name is its answer.
    pub(crate) async fn start(
        address: SocketAddr,
        name: &'static str,
        behaviour: Behaviour,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let taken = seen.clone();
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let seen = taken.clone();
                let service =
                    service_fn(move |request| answer(request, name, behaviour, seen.clone()));
                let http = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                connections.spawn(http);
            }
        });
        let serving = serving.abort_handle();
        Self { seen, serving }
    }

    /// Ends it, with its connections.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }

    /// The paths it was asked for, in order.
    pub(crate) fn seen(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(path, _)| path.clone()).collect()
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The headers of the last request.
    pub(crate) fn last_headers(&self) -> HeaderMap {
        let seen = self.seen.lock().unwrap();
        seen.last().unwrap().1.clone()
    }
}

async fn answer(
    request: Request<Incoming>,
    name: &'static str,
    behaviour: Behaviour,
    seen: Seen,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let before = {
        let mut seen = seen.lock().unwrap();
        seen.push((path.clone(), request.headers().clone()));
        seen.len() - 1
    };
    let (delay, status) = behaviour(&path, before);
    tokio::time::sleep(delay).await;
    let mut response = Response::new(Full::new(Bytes::from_static(name.as_bytes())));
    *response.status_mut() = status;
    Ok(response)
}
