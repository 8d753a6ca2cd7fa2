//! One connection: when it is given up, and what its answers hold.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::api::Body;
use crate::limits::{Limits, Share};

/// How long streams may go on when a connection is to end.
const GRACE: Duration = Duration::from_secs(5);
/// What a client may send before it is read, per connection and per stream.
const WINDOW: u32 = 256 << 10;
/// The largest head of a request of HTTP/1.
const HEAD: usize = 64 << 10;
/// How many bytes of an unwanted body are discarded after the response.
const DISCARDED: usize = 16 << 20;
/// How long they are discarded.
const DISCARDING: Duration = Duration::from_secs(5);
/// What is kept of an answer that is on its way, per stream.
const SENDING: usize = 64 << 10;
/// An answer that waits for nothing from its client.
const NOT_WAITING: u64 = u64::MAX;

/// What is under way on a connection.
pub(super) struct Traffic {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: bool,
    next: u64,
    /// Since when the client has taken nothing of each answer, in milliseconds from the start.
    answers: HashMap<u64, Arc<AtomicU64>>,
    idle_since: Duration,
}

/// An answer with what it holds until it is taken.
pub(super) struct Answer {
    body: Body,
    waiting: Arc<AtomicU64>,
    number: u64,
    traffic: Arc<Traffic>,
    _request: Option<Share<Arc<str>>>,
    /// The rest of a request body that was not read. The stream stays open until the client has the response.
    unread: Option<Incoming>,
}

/// A request that is being answered.
pub(super) struct Begun {
    waiting: Arc<AtomicU64>,
    number: u64,
    traffic: Arc<Traffic>,
    taken: bool,
}

/// Why a connection ends.
enum End {
    /// Nothing is asked any more.
    Idle,
    /// No request came, or no answer is taken.
    Stalled,
}

impl Traffic {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            state: Mutex::default(),
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(NOT_WAITING - 1)
    }

    /// Notes that a request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Begun {
        let waiting = Arc::new(AtomicU64::new(NOT_WAITING));
        let number = self.with(|state| {
            state.asked = true;
            state.next += 1;
            state.answers.insert(state.next, waiting.clone());
            state.next
        });
        Begun {
            waiting,
            number,
            traffic: self.clone(),
            taken: false,
        }
    }

    fn end(&self, number: u64) {
        let now = self.start.elapsed();
        self.with(|state| {
            state.answers.remove(&number);
            state.idle_since = now;
        });
    }

    fn verdict(&self, limits: &Limits) -> Option<End> {
        let (passed, now) = (self.start.elapsed(), self.now_ms());
        let stall = u64::try_from(limits.stall.as_millis()).unwrap_or(NOT_WAITING);
        self.with(|state| {
            let late = !state.asked && passed >= limits.first_request;
            let untaken = |since: &Arc<AtomicU64>| match since.load(Ordering::Relaxed) {
                NOT_WAITING => false,
                since => now.saturating_sub(since) >= stall,
            };
            if late || state.answers.values().any(untaken) {
                return Some(End::Stalled);
            }
            let idle = state.asked
                && state.answers.is_empty()
                && passed.saturating_sub(state.idle_since) >= limits.idle;
            idle.then_some(End::Idle)
        })
    }
}

impl Begun {
    /// The answer, which holds `request` and `unread` until all of it is taken.
    pub(super) fn answer(
        mut self,
        body: Body,
        request: Option<Share<Arc<str>>>,
        unread: Option<Incoming>,
    ) -> Answer {
        self.taken = true;
        Answer {
            body,
            waiting: self.waiting.clone(),
            number: self.number,
            traffic: self.traffic.clone(),
            _request: request,
            unread,
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.taken {
            self.traffic.end(self.number);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.traffic.end(self.number);
        let unread = self.unread.take().filter(|body| !body.is_end_stream());
        if let (Some(unread), Ok(runtime)) = (unread, Handle::try_current()) {
            runtime.spawn(discard(unread));
        }
    }
}

/// Discards the rest of a body for a while: a client that reads the response only after it has sent everything would otherwise find a
/// broken connection.
async fn discard(mut body: Incoming) {
    let reading = async {
        let mut room = DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match room.checked_sub(length) {
                Some(left) => room = left,
                None => return,
            }
        }
    };
    // A client that sends more, or more slowly, is disconnected.
    let _ = tokio::time::timeout(DISCARDING, reading).await;
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        // What was handed on has to be taken before more is asked for.
        let waiting = match &polled {
            Poll::Ready(Some(_)) => this.traffic.now_ms(),
            _ => NOT_WAITING,
        };
        this.waiting.store(waiting, Ordering::Relaxed);
        polled
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Serves a connection until the client leaves, `stop` resolves, or it is given up by `limits`.
pub(super) async fn serve<S, F>(
    stream: S,
    limits: &Limits,
    stop: impl Future<Output = Ending>,
    answer: impl Fn(http::Request<Incoming>, Arc<Traffic>) -> F + Clone,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Result<http::Response<Answer>, Infallible>> + Send + 'static,
{
    let traffic = Traffic::new();
    let known = traffic.clone();
    let service = hyper::service::service_fn(move |request| answer(request, known.clone()));
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(HEAD)
        .header_read_timeout(limits.headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SENDING)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .max_concurrent_streams(250);
    let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut stop = pin!(stop);
    let often = limits.first_request.min(limits.stall).min(limits.idle) / 4;
    let mut look = tokio::time::interval(often.max(Duration::from_millis(5)));
    loop {
        tokio::select! {
            // A client that breaks off is its own business.
            _ = serving.as_mut() => return,
            ending = stop.as_mut() => match ending {
                Ending::Now => return,
                Ending::Gently => break,
            },
            _ = look.tick() => match traffic.verdict(limits) {
                Some(End::Stalled) => return,
                Some(End::Idle) => break,
                None => {}
            },
        }
    }
    serving.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(GRACE, serving).await;
}

/// How a connection is told to end.
pub(super) enum Ending {
    /// At once.
    Now,
    /// When what is under way is done, or soon after.
    Gently,
}
