//! What `crates/http2` offers, over `hyper` and `h2`: the same calls, the same bodies that are not copied, the same socket and TLS
//! below. `benches/against-hyper` builds the program with this in its place.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Begins the calls of a connection.
pub trait Service {
    /// How a call is answered.
    type Call: Call;

    /// A request's head has come; its body comes through [`Call::poll`].
    fn call(&mut self, request: Request<()>) -> Self::Call;
}

/// One call.
pub trait Call {
    /// The next part of the response.
    fn poll(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<Part>;
}

/// A part of a response.
#[derive(Debug)]
pub enum Part {
    /// Status and headers.
    Head(Response<()>),
    /// A piece of the body.
    Data(Data),
    /// Status and headers of a response that is nothing else.
    Only(Response<()>),
    /// The end.
    End(HeaderMap),
}

/// A piece of a body.
#[derive(Clone, Default, Debug)]
pub struct Data {
    /// Its own octets.
    pub own: SmallVec<[u8; 24]>,
    /// What it shares with others.
    pub shared: Bytes,
}

/// A piece of a body as `h2` takes it: no octet of it is copied.
#[derive(Debug)]
struct Chunk {
    own: SmallVec<[u8; 24]>,
    taken: usize,
    shared: Bytes,
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.own.len() - self.taken + self.shared.len()
    }

    fn chunk(&self) -> &[u8] {
        match &self.own[self.taken..] {
            [] => &self.shared,
            own => own,
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let parts = [&self.own[self.taken..], &self.shared];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        let own = count.min(self.own.len() - self.taken);
        self.taken += own;
        self.shared.advance(count - own);
    }
}

/// What a client sent of a request's body.
#[derive(Debug, Default)]
pub struct Input {
    octets: Vec<u8>,
    ended: bool,
}

impl Input {
    /// What can be taken.
    pub fn peek(&self) -> &[u8] {
        &self.octets
    }

    /// All that came, if anything did.
    pub fn take(&mut self) -> Option<Bytes> {
        self.take_up_to(usize::MAX)
    }

    /// So many octets of what came.
    pub fn take_up_to(&mut self, count: usize) -> Option<Bytes> {
        let octets = if count < self.octets.len() {
            let rest = self.octets.split_off(count);
            std::mem::replace(&mut self.octets, rest)
        } else {
            std::mem::take(&mut self.octets)
        };
        (!octets.is_empty()).then(|| Bytes::from(octets))
    }

    /// Whether everything was taken and there will be no more.
    pub fn is_over(&self) -> bool {
        self.ended && self.octets.is_empty()
    }
}

/// Why a connection ended before its time.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] hyper::Error);

/// Since when a client is awaited: `hyper` does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waits {
    /// For the end of what it began.
    pub unfinished: Option<u32>,
    /// For a call.
    pub call: Option<u32>,
    /// For room in its windows.
    pub room: Option<u32>,
}

/// A socket whose reads are counted.
struct Counted<I> {
    io: I,
    reads: Arc<AtomicU32>,
}

impl<I: AsyncRead + Unpin> AsyncRead for Counted<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Counted<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A call with what came of its request.
struct Answer<C> {
    call: C,
    input: Input,
    incoming: Incoming,
    over: bool,
}

impl<C: Call + Unpin> Answer<C> {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Part> {
        while !self.input.ended {
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.input.octets.extend_from_slice(&data);
                    }
                }
                Poll::Ready(_) => self.input.ended = true,
                Poll::Pending => break,
            }
        }
        self.call.poll(&mut self.input, cx)
    }
}

impl<C: Call + Unpin> Body for Answer<C> {
    type Data = Chunk;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, Self::Error>>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(this.poll_part(cx)) {
            Part::Data(Data { own, shared }) => Some(Ok(Frame::data(Chunk {
                own,
                taken: 0,
                shared,
            }))),
            Part::End(trailers) => {
                this.over = true;
                Some(Ok(Frame::trailers(trailers)))
            }
            Part::Head(_) | Part::Only(_) => {
                this.over = true;
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

/// Begins calls for `hyper`.
struct Calls<S>(Arc<Mutex<S>>);

impl<S> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service,
    S::Call: Send + Unpin + 'static,
{
    type Response = Response<Answer<S::Call>>;
    type Error = std::convert::Infallible;
    type Future = First<S::Call>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (head, incoming) = request.into_parts();
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let call = service.call(Request::from_parts(head, ()));
        First(Some(Answer {
            call,
            input: Input::default(),
            incoming,
            over: false,
        }))
    }
}

/// Waits for the head of a response.
struct First<C>(Option<Answer<C>>);

impl<C: Call + Unpin> Future for First<C> {
    type Output = Result<Response<Answer<C>>, std::convert::Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.0 else {
            return Poll::Pending;
        };
        let (head, over) = match ready!(answer.poll_part(cx)) {
            Part::Head(head) => (head, false),
            Part::Only(head) => (head, true),
            Part::Data(_) | Part::End(_) => (Response::default(), true),
        };
        answer.over = over;
        let Some(answer) = self.0.take() else {
            return Poll::Pending;
        };
        Poll::Ready(Ok(head.map(|()| answer)))
    }
}

type Served<I, S> = http2::Connection<TokioIo<Counted<I>>, Calls<S>, TokioExecutor>;

/// A client's connection.
pub struct Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service + Send + 'static,
    S::Call: Send + Unpin + 'static,
{
    served: Pin<Box<Served<I, S>>>,
    reads: Arc<AtomicU32>,
}

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service + Send + 'static,
    S::Call: Send + Unpin + 'static,
{
    /// Over a socket on which nothing was said.
    pub fn new(io: I, service: S) -> Self {
        let reads = Arc::<AtomicU32>::default();
        let io = Counted {
            io,
            reads: Arc::clone(&reads),
        };
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(128 << 10)
            .max_concurrent_streams(100);
        let calls = Calls(Arc::new(Mutex::new(service)));
        Self {
            served: Box::pin(builder.serve_connection(TokioIo::new(io), calls)),
            reads,
        }
    }

    /// Takes no new calls, and ends with those that there are.
    pub fn drain(&mut self) {
        self.served.as_mut().graceful_shutdown();
    }

    /// Does nothing: `hyper` pings when it wants to.
    pub fn ping(&mut self) {}

    /// Counts how often something was heard of the client.
    pub fn reads(&self) -> u32 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Does nothing: `hyper` has no deadlines.
    pub fn tell(&mut self, _: u32) {}

    /// Nothing is known.
    pub fn waits(&self) -> Waits {
        Waits::default()
    }
}

impl<I, S> Future for Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service + Send + 'static,
    S::Call: Send + Unpin + 'static,
{
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.served.as_mut().poll(cx).map_err(Error)
    }
}
