//! A stream as a response body: polled by the connection, it reads requests, runs the state machine and yields bytes.
//!
//! A response is 23 bytes of the stream's own (gRPC header and nonce), then bytes that are shared with every stream that
//! gets the same, in one frame of data. Nothing is copied and nothing is queued beyond one response per type. The body is not
//! polled while the client has no window, so a slow client costs nothing but its own responses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use prost::Message;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use tokio::time::Sleep;
use xlate::Published;

use super::Server;
use super::connection::Place;
use super::frames::Frames;
use super::link::{Link, Order};
use super::response::end;
use super::subscriber::{Incident, Join, Session, Subscription, Token, Work};
use super::workers::Thread;
use crate::bell::Bell;
use crate::content::hex;
use crate::latest::Receiver;
use crate::out::{Event, Out, Response};
use crate::request::Request;
use crate::status::{Code, Status};
use crate::stream::{Protocol, Stream};

/// gRPC header, then the nonce as field 5 with 16 digits.
const HEAD: usize = 23;

/// Requests that one poll takes in before others get their turn.
const REQUESTS_PER_POLL: usize = 64;

/// A piece of a body: what is the stream's own, then what is shared.
#[derive(Debug)]
pub struct Chunk {
    head: [u8; HEAD],
    /// How much of `head` is written.
    at: u8,
    shared: Bytes,
}

impl Chunk {
    /// A response: gRPC header and nonce precede the shared part.
    fn response(nonce: u64, shared: Bytes) -> Self {
        let mut head = [0; HEAD];
        let len = (shared.len() + HEAD - 5) as u32;
        head[1..5].copy_from_slice(&len.to_be_bytes());
        head[5..7].copy_from_slice(&[0x2a, 16]);
        head[7..].copy_from_slice(&hex(nonce));
        Self {
            head,
            at: 0,
            shared,
        }
    }

    /// Bytes as they are.
    fn plain(shared: Bytes) -> Self {
        Self {
            head: [0; HEAD],
            at: HEAD as u8,
            shared,
        }
    }

    fn left(&self) -> &[u8] {
        self.head.get(usize::from(self.at)..).unwrap_or_default()
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.left().len() + self.shared.len()
    }

    fn chunk(&self) -> &[u8] {
        match self.left() {
            [] => &self.shared,
            left => left,
        }
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let pieces = [self.left(), &self.shared];
        let pieces = pieces.into_iter().filter(|p| !p.is_empty());
        let mut count = 0;
        for (slot, piece) in out.iter_mut().zip(pieces) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn advance(&mut self, count: usize) {
        let own = count.min(self.left().len());
        self.at += own as u8;
        self.shared.advance(count - own);
    }
}

/// The body of any response of this server.
pub struct Reply(Kind);

enum Kind {
    Empty,
    Ads(Box<AdsBody>),
    Boxed(UnsyncBoxBody<Bytes, Infallible>),
}

impl Reply {
    /// No body.
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// The body of a mounted service.
    pub fn boxed(body: UnsyncBoxBody<Bytes, Infallible>) -> Self {
        Self(Kind::Boxed(body))
    }

    pub(super) fn ads(body: AdsBody) -> Self {
        Self(Kind::Ads(Box::new(body)))
    }
}

impl Body for Reply {
    type Data = Chunk;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, Infallible>>> {
        match &mut self.get_mut().0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Ads(body) => body.poll(cx).map(|frame| frame.map(Ok)),
            Kind::Boxed(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                Poll::Ready(frame.map(|f| f.map(|f| f.map_data(Chunk::plain))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Ads(_) => false,
            Kind::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Ads(_) => SizeHint::default(),
            Kind::Boxed(body) => body.size_hint(),
        }
    }
}

/// All that a stream begins with.
pub(super) struct Opening {
    pub(super) server: Arc<Server>,
    pub(super) protocol: Protocol,
    pub(super) peer: SocketAddr,
    pub(super) token: Option<Token>,
    pub(super) link: Arc<Link>,
    pub(super) thread: Thread,
    pub(super) place: Place,
}

enum Phase {
    /// Waits for the first request.
    Opened(Option<Token>),
    /// Waits for the subscriber's decision on the first request.
    Joining(
        BoxFuture<'static, Result<Subscription, Status>>,
        Box<Request>,
    ),
    /// Serves.
    Joined(Receiver<Arc<Published>>, Box<dyn Session>),
    /// The status was given.
    Ended,
}

/// One ADS stream.
pub(super) struct AdsBody {
    server: Arc<Server>,
    stream: Stream,
    phase: Phase,
    protocol: Protocol,
    peer: SocketAddr,
    requests: Incoming,
    frames: Frames,
    due: VecDeque<Response>,
    link: Arc<Link>,
    /// What changes ring.
    bell: Arc<Bell>,
    /// Whom the link wakes.
    known: Option<Waker>,
    patience: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl AdsBody {
    pub(super) fn new(opening: Opening, requests: Incoming) -> Self {
        let Opening {
            server,
            protocol,
            peer,
            token,
            link,
            thread,
            place,
        } = opening;
        Self {
            stream: Stream::new(protocol, thread.fanout),
            phase: Phase::Opened(token),
            protocol,
            peer,
            requests,
            frames: Frames::new(server.options.max_request_bytes),
            due: VecDeque::new(),
            link,
            bell: thread.bell,
            known: None,
            patience: None,
            _place: place,
            server,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Chunk>>> {
        if matches!(self.phase, Phase::Ended) {
            return Poll::Ready(None);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| self.step(cx))).unwrap_or_else(|_| {
            self.server.subscriber.on_incident(Incident::Panicked);
            Poll::Ready(Err(Status::new(Code::Internal, "internal error")))
        });
        match ready!(polled) {
            Ok(chunk) => Poll::Ready(Some(Frame::data(chunk))),
            Err(status) => {
                tracing::debug!(peer = %self.peer, %status, "Stream ended.");
                // Dropping the session tells the upper side at once.
                self.phase = Phase::Ended;
                self.due.clear();
                let trailers = end(&status);
                self.server.subscriber.on_incident(Incident::Ended(status));
                Poll::Ready(Some(Frame::trailers(trailers)))
            }
        }
    }

    /// The next piece of data, or the status that ends the stream.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Chunk, Status>> {
        if self.link.order(&mut self.known, cx) != Order::Serve {
            return Poll::Ready(Err(Status::new(
                Code::Unavailable,
                "server is shutting down",
            )));
        }
        let read = self.read(cx)?;
        self.joining(cx)?;
        self.changes(cx)?;
        self.wait(cx)?;
        if let Some(response) = self.due.pop_front() {
            let start = (!response.content.is_encoded()).then(Instant::now);
            let body = response.content.body();
            if let Phase::Joined(_, session) = &mut self.phase {
                if let Some(start) = start {
                    session.on_work(Work::Encode, start.elapsed());
                }
                session.on_send(&response, body.len() + HEAD - 5);
            }
            return Poll::Ready(Ok(Chunk::response(response.nonce, body)));
        }
        match read {
            // The client is done; what it asked before is answered.
            Poll::Ready(()) if !matches!(self.phase, Phase::Joining(..)) => {
                Poll::Ready(Err(Status::OK))
            }
            _ => Poll::Pending,
        }
    }

    /// Takes in requests; ready when there will be no more.
    fn read(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Status> {
        let mut taken = 0;
        loop {
            while !matches!(self.phase, Phase::Joining(..)) {
                let Some(message) = self.frames.pop()? else {
                    break;
                };
                self.request(decode(self.protocol, &message)?)?;
                taken += 1;
                if taken == REQUESTS_PER_POLL {
                    cx.waker().wake_by_ref();
                    return Ok(Poll::Pending);
                }
            }
            if matches!(self.phase, Phase::Joining(..)) {
                return Ok(Poll::Pending);
            }
            match Pin::new(&mut self.requests).poll_frame(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(None) => return Ok(Poll::Ready(())),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.frames.push(data);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Err(Status::new(Code::Cancelled, error.to_string()));
                }
            }
        }
    }

    fn request(&mut self, request: Request) -> Result<(), Status> {
        match &mut self.phase {
            Phase::Opened(token) => {
                let Some(node) = request.node.clone() else {
                    // The stream knows which requests may come before the first, and ends otherwise.
                    let out = self.stream.on_request(request);
                    return self.act(out);
                };
                let join = Join {
                    node,
                    peer: self.peer,
                    token: token.take(),
                    protocol: self.protocol,
                };
                let decision = self.server.subscriber.subscribe(join);
                self.phase = Phase::Joining(decision, Box::new(request));
                Ok(())
            }
            _ => {
                let out = self.stream.on_request(request);
                self.act(out)
            }
        }
    }

    /// Looks for the subscriber's decision.
    fn joining(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        let Phase::Joining(decision, _) = &mut self.phase else {
            return Ok(());
        };
        let Poll::Ready(decided) = decision.as_mut().poll(cx) else {
            return Ok(());
        };
        let Subscription {
            mut published,
            session,
        } = decided.inspect_err(|status| {
            self.server
                .subscriber
                .on_incident(Incident::Refused(status.clone()));
        })?;
        published.wake_by(Arc::clone(&self.bell));
        let newest = published.newest();
        let joined = Phase::Joined(published, session);
        let Phase::Joining(_, first) = std::mem::replace(&mut self.phase, joined) else {
            return Ok(());
        };
        // Nothing is subscribed yet: this only stores it.
        let mut out = self.stream.on_published(newest);
        out.extend(self.stream.on_request(*first));
        self.act(out)?;
        // Requests may have been read while the decision was awaited.
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Takes in the newest revision.
    fn changes(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        while let Phase::Joined(published, _) = &mut self.phase
            && let Poll::Ready(newest) = published.poll_next(cx)
        {
            let Some(newest) = newest else {
                return Err(Status::new(Code::Unavailable, "subscription ended"));
            };
            let start = Instant::now();
            let out = self.stream.on_published(newest);
            if let Phase::Joined(_, session) = &mut self.phase {
                session.on_work(Work::Merge, start.elapsed());
            }
            self.act(out)?;
        }
        Ok(())
    }

    /// Bounds how long listeners and routes wait for clusters.
    fn wait(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        if self.patience.is_none() && self.stream.waits() {
            self.patience = Some(Box::pin(tokio::time::sleep(self.server.options.patience)));
        }
        if let Some(sleep) = &mut self.patience
            && sleep.as_mut().poll(cx).is_ready()
        {
            self.patience = None;
            if self.stream.waits() {
                tracing::debug!(peer = %self.peer, "Client does not ask for the assignments of new clusters.");
                let out = self.stream.on_patience_lost();
                self.act(out)?;
            }
        } else if self.patience.is_some() && !self.stream.waits() {
            self.patience = None;
        }
        Ok(())
    }

    fn act(&mut self, out: Vec<Out>) -> Result<(), Status> {
        let answered = |o: &Out| matches!(o, Out::Event(Event::Ack { .. } | Event::Nack { .. }));
        self.link
            .note(self.stream.in_flight() > 0, out.iter().any(answered));
        for out in out {
            match out {
                Out::Send(response) => self.due.push_back(response),
                Out::Event(event) => {
                    if let Phase::Joined(_, session) = &mut self.phase {
                        session.on_event(&event);
                    }
                }
                Out::End(status) => return Err(status),
            }
        }
        Ok(())
    }
}

impl Drop for AdsBody {
    fn drop(&mut self) {
        // Nobody is left to answer.
        self.link.note(false, false);
        self.link.forget(&mut self.known);
    }
}

fn decode(protocol: Protocol, message: &[u8]) -> Result<Request, Status> {
    let decoded = match protocol {
        Protocol::Delta => DeltaDiscoveryRequest::decode(message).map(Request::from),
        Protocol::Sotw => DiscoveryRequest::decode(message).map(Request::from),
    };
    decoded.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))
}
