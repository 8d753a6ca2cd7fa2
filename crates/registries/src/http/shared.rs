//! Connections that many requests share, as HTTP/2 lets them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{MutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use super::HttpError;

/// HTTP/2 among the protocols of TLS.
pub(super) const PROTOCOL: &[u8] = b"h2";

/// Requests of one connection; Go's servers take 250.
const REQUESTS: usize = 200;
/// After so long without a word a server is asked whether it is there, and so long it may take to say so.
const QUIET: Duration = Duration::from_secs(15);
/// What a server may send before it is read, of one answer and of all: many wait, few come at once.
const WINDOW: u32 = 256 << 10;

/// The shared connections to a server.
#[derive(Default)]
pub(super) struct Lines {
    lines: Mutex<Vec<Line>>,
    opening: tokio::sync::Mutex<()>,
    is_any: AtomicBool,
}

struct Line {
    sender: SendRequest<Full<Bytes>>,
    room: Arc<Semaphore>,
    driver: Arc<AbortOnDropHandle<()>>,
}

/// Room for one request.
pub(super) struct Lent {
    sender: SendRequest<Full<Bytes>>,
    _room: OwnedSemaphorePermit,
    _driver: Arc<AbortOnDropHandle<()>>,
}

impl Lines {
    /// Whether the server has ever let requests share a connection.
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Who holds this may open a connection.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.opening.lock().await
    }

    /// Room on a connection that is open, if there is any.
    pub(super) fn lend(&self) -> Option<Lent> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| !line.sender.is_closed());
        lines.iter().find_map(Line::lend)
    }

    /// Speaks HTTP/2 over a stream to `name`, and takes room on it.
    pub(super) async fn add(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        name: &Arc<str>,
    ) -> Result<Lent, HttpError> {
        let broken = |error: &str| HttpError::Broken(name.clone(), error.to_owned());
        let handshake = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(QUIET)
            .keep_alive_timeout(QUIET)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(4 * WINDOW)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|e| broken(&e.to_string()))?;
        let driver = tokio::spawn(async move {
            // Whoever waits for an answer is told.
            let _ = connection.await;
        });
        let line = Line {
            sender,
            room: Arc::new(Semaphore::new(REQUESTS)),
            driver: Arc::new(AbortOnDropHandle::new(driver)),
        };
        let lent = line.lend().ok_or_else(|| broken("it is closed at once"))?;
        self.is_any.store(true, Ordering::Relaxed);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
        Ok(lent)
    }
}

impl Line {
    fn lend(&self) -> Option<Lent> {
        Some(Lent {
            _room: self.room.clone().try_acquire_owned().ok()?,
            sender: self.sender.clone(),
            _driver: self.driver.clone(),
        })
    }
}

impl Lent {
    /// Sends a request to `name`.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        name: &Arc<str>,
    ) -> Result<Response<Incoming>, HttpError> {
        let sent = self.sender.send_request(request).await;
        sent.map_err(|error| HttpError::Broken(name.clone(), error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::BodyExt;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;

    use super::*;

    /// A server that answers everything with its path.
    fn server(stream: tokio::io::DuplexStream) -> AbortOnDropHandle<()> {
        let echo = service_fn(async |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(path))))
        });
        let serving = http2::Builder::new(TokioExecutor::new());
        let serving = serving.serve_connection(TokioIo::new(stream), echo);
        AbortOnDropHandle::new(tokio::spawn(async move { _ = serving.await }))
    }

    #[tokio::test]
    async fn requests_share_a_connection_until_it_is_full_or_closed() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let serving = server(theirs);
        let (lines, name) = (Lines::default(), Arc::from("registry"));
        assert!(lines.lend().is_none() && !lines.is_any());
        let mut lent = vec![lines.add(ours, &name).await.unwrap()];
        lent.extend(std::iter::from_fn(|| lines.lend()));
        assert_eq!(lent.len(), REQUESTS);
        for (n, lent) in lent.iter_mut().enumerate().step_by(50) {
            let request = Request::get(format!("https://registry/{n}"));
            let request = request.body(Full::default()).unwrap();
            let answer = lent.send(request, &name).await.unwrap().into_body();
            let body = answer.collect().await.unwrap().to_bytes();
            assert_eq!(body, format!("/{n}"));
        }
        lent.pop();
        assert!(lines.lend().is_some(), "there is room again");
        drop(serving);
        while lines.lend().is_some() {
            tokio::task::yield_now().await;
        }
        assert!(lines.is_any(), "the server is of that kind nevertheless");
    }
}
