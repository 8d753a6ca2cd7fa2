//! Connections that many requests share, as HTTP/2 lets them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{MutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::HttpError;

/// HTTP/2 among the protocols of TLS.
pub(super) const PROTOCOL: &[u8] = b"h2";

/// Requests of one connection; Go's servers take 250.
const REQUESTS: usize = 200;
/// So often a server is asked whether it is there, and so long it may take to say so.
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
    sender: SendRequest<Bytes>,
    room: Arc<Semaphore>,
    driver: Arc<AbortOnDropHandle<()>>,
}

/// Room for one request.
pub(super) struct Lent {
    sender: SendRequest<Bytes>,
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
        lines.retain(|line| !line.driver.is_finished());
        lines.iter().find_map(Line::lend)
    }

    /// Speaks HTTP/2 over a stream to `name`, and takes room on it.
    pub(super) async fn add(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        name: &Arc<str>,
    ) -> Result<Lent, HttpError> {
        let handshake = Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(4 * WINDOW)
            .initial_max_send_streams(REQUESTS)
            .max_header_list_size(16 << 10)
            .enable_push(false)
            .handshake(stream);
        let (sender, mut connection) = handshake.await.map_err(|error| broken(name, error))?;
        let pings = connection.ping_pong();
        // Whoever waits for an answer is told when it ends.
        let driver = tokio::spawn(async move {
            tokio::select! {
                _ = connection => {}
                () = silence(pings) => {}
            }
        });
        let line = Line {
            sender,
            room: Arc::new(Semaphore::new(REQUESTS)),
            driver: Arc::new(AbortOnDropHandle::new(driver)),
        };
        let lent = line
            .lend()
            .ok_or_else(|| broken(name, "it is closed at once"))?;
        self.is_any.store(true, Ordering::Relaxed);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
        Ok(lent)
    }
}

/// Ends when a server does not say that it is there.
async fn silence(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return };
    loop {
        sleep(QUIET).await;
        let pong = timeout(QUIET, pings.ping(Ping::opaque())).await;
        if !matches!(pong, Ok(Ok(_))) {
            return;
        }
    }
}

impl Line {
    fn lend(&self) -> Option<Lent> {
        let room = self.room.clone().try_acquire_owned().ok()?;
        // Or the server closes it, and answers no more than what it was asked so far.
        let ready = self.sender.clone().ready().now_or_never()?;
        Some(Lent {
            sender: ready.ok()?,
            _room: room,
            _driver: self.driver.clone(),
        })
    }
}

impl Lent {
    /// Sends a request to `name`.
    pub(super) fn send(
        &mut self,
        request: Request<()>,
        name: &Arc<str>,
    ) -> Result<ResponseFuture, HttpError> {
        let sent = self.sender.send_request(request, true);
        let (answer, _) = sent.map_err(|error| broken(name, error))?;
        Ok(answer)
    }
}

/// The error of a connection to `name`.
pub(super) fn broken(name: &Arc<str>, error: impl ToString) -> HttpError {
    HttpError::Broken(name.clone(), error.to_string())
}

/// The next octets of a body, with room made for as many more.
pub(crate) async fn octets(body: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    let octets = body.data().await?;
    Some(octets.and_then(|octets| {
        body.flow_control().release_capacity(octets.len())?;
        Ok(octets)
    }))
}

/// Reads at most `limit` bytes of an answer of `name`.
pub(super) async fn whole(
    mut body: RecvStream,
    limit: usize,
    name: &Arc<str>,
) -> Result<Bytes, HttpError> {
    let too_large = || HttpError::TooLarge(name.clone(), limit);
    let mut read = BytesMut::new();
    while let Some(octets) = octets(&mut body).await {
        let octets = octets.map_err(|_| too_large())?;
        if octets.len() > limit - read.len() {
            return Err(too_large());
        }
        read.extend_from_slice(&octets);
    }
    Ok(read.freeze())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use http_body_util::Full;
    use hyper::body::Incoming;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};

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
            let answer = lent.send(request.body(()).unwrap(), &name).unwrap();
            let body = answer.await.unwrap().into_body();
            let body = whole(body, 100, &name).await.unwrap();
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

    #[tokio::test]
    async fn a_server_that_closes_a_connection_answers_what_it_has_and_is_asked_no_more() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (tell, told) = tokio::sync::oneshot::channel();
        let serving = tokio::spawn(async move {
            let mut server = h2::server::handshake(theirs).await.unwrap();
            let (_, mut respond) = server.accept().await.unwrap().unwrap();
            server.graceful_shutdown();
            let answering = async {
                told.await.unwrap();
                respond.send_response(Response::new(()), true).unwrap();
            };
            tokio::join!(answering, async {
                while server.accept().await.is_some() {}
            });
        });
        let (lines, name) = (Lines::default(), Arc::from("registry"));
        let mut lent = lines.add(ours, &name).await.unwrap();
        let request = Request::get("https://registry/").body(()).unwrap();
        let answer = lent.send(request, &name).unwrap();
        while lines.lend().is_some() {
            tokio::task::yield_now().await;
        }
        tell.send(()).unwrap();
        assert_eq!(answer.await.unwrap().status(), 200);
        serving.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_lost_without_a_word_is_given_up() {
        let (ours, _theirs) = tokio::io::duplex(1 << 16);
        let (lines, name) = (Lines::default(), Arc::from("registry"));
        let mut lent = lines.add(ours, &name).await.unwrap();
        let request = Request::get("https://registry/").body(()).unwrap();
        let answer = lent.send(request, &name).unwrap();
        let answer = timeout(QUIET * 3, answer).await.unwrap();
        assert!(answer.is_err());
        assert!(lines.lend().is_none());
    }

    #[tokio::test]
    async fn an_answer_is_read_up_to_its_limit() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let _serving = server(theirs);
        let (lines, name) = (Lines::default(), Arc::from("registry"));
        let _first = lines.add(ours, &name).await.unwrap();
        for (limit, is_read) in [(3, false), (4, true)] {
            let mut lent = lines.lend().unwrap();
            let request = Request::get("https://registry/abc").body(()).unwrap();
            let answer = lent.send(request, &name).unwrap().await.unwrap();
            let body = whole(answer.into_body(), limit, &name).await;
            assert_eq!(body.is_ok(), is_read, "{limit}");
        }
    }
}
