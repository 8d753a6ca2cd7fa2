//! A stream as a call: polled by the connection, it reads requests, runs the state machine and yields bytes.
//!
//! A response is 23 bytes of the stream's own (gRPC header and nonce), then bytes that are shared with every stream that
//! gets the same. Nothing is queued beyond one response per type. The call is not asked while the client has no room for
//! the last response, so a slow client costs nothing but its own responses.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use http2::{Data, Input, Part};
use model::peer::network_of;
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use smallvec::SmallVec;
use tokio::time::Sleep;
use xds::Published;

use super::Server;
use super::calls::status_only;
use super::client::Proven;
use super::extra::{Asker, Extra, needs_no_view};
use super::intake::{Filled, Intake};
use super::link::{Link, Order};
use super::response::{end, grpc};
use super::subscriber::{Incident, Join, Session, Subscription, Work};
use super::workers::Thread;
use crate::action::{Action, Event, Response};
use crate::content::hex;
use crate::latest::Receiver;
use crate::limits::request_about;
use crate::request::Request;
use crate::status::{Code, Status};
use crate::stream::{Protocol, Stream};
use crate::wake::WakeList;

/// gRPC header, then the nonce as field 5 with 16 digits.
const HEAD: usize = 23;

/// What one poll takes in before others get their turn: requests, their bytes, and names that they make the stream look at.
/// A single request may pass it.
const REQUESTS_PER_POLL: usize = 64;
const BYTES_PER_POLL: usize = 64 << 10;
const WORK_PER_POLL: u64 = 4096;

/// A response: gRPC header and nonce precede the shared part.
fn data(nonce: u64, shared: Bytes) -> Data {
    let mut head = [0; HEAD];
    let len = (shared.len() + HEAD - 5) as u32;
    head[1..5].copy_from_slice(&len.to_be_bytes());
    head[5..7].copy_from_slice(&[0x2a, 16]);
    head[7..].copy_from_slice(&hex(nonce));
    Data {
        own: head.as_slice().into(),
        shared,
    }
}

/// A place among the streams of a server.
struct StreamSlot(Arc<Server>);

impl StreamSlot {
    fn take(server: &Arc<Server>) -> Result<Self, Status> {
        let free = |n: usize| (n < server.options.max_streams).then_some(n + 1);
        server
            .streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
            .map(|_| Self(Arc::clone(server)))
            .map_err(|_| Status::new(Code::ResourceExhausted, "too many streams"))
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All that a stream begins with.
pub(super) struct Opening {
    pub(super) server: Arc<Server>,
    pub(super) protocol: Protocol,
    pub(super) peer: SocketAddr,
    /// Who the client is.
    pub(super) proving: Proving,
    pub(super) link: Arc<Link>,
    pub(super) thread: Thread,
    /// Until it is admitted.
    pub(super) wait: Duration,
}

type Proving = BoxFuture<'static, Result<Proven, Status>>;

enum Phase {
    /// Waits to be admitted, if it has to.
    Arrived(Option<Pin<Box<Sleep>>>),
    /// Waits to know who the client is; nothing of it is read before.
    Proving(Proving),
    /// Waits for the first request that makes the client a proxy.
    Opened(Proven),
    /// Waits for the subscriber's decision on the first request.
    Joining(
        BoxFuture<'static, Result<Subscription, Status>>,
        Box<Request>,
    ),
    /// Serves.
    Joined(Receiver<Arc<Published>>, Box<dyn Session>),
}

/// One ADS stream. What every response touches comes first.
#[repr(C)]
pub(super) struct Discovery {
    link: Arc<Link>,
    phase: Phase,
    patience: Option<Pin<Box<Sleep>>>,
    stream: Stream,
    /// In the order of sending; seldom more than one.
    due: SmallVec<[Response; 1]>,
    protocol: Protocol,
    intake: Intake,
    server: Arc<Server>,
    /// What changes ring.
    wake_list: Arc<WakeList>,
    peer: SocketAddr,
    /// Until it is admitted.
    proving: Option<Proving>,
    /// Once it is admitted.
    place: Option<StreamSlot>,
    /// The client, once it has said who it is.
    asker: Option<Box<Asker>>,
    /// Once it has asked for a type that no view has.
    extra: Option<Box<Extra>>,
}

impl Discovery {
    pub(super) fn new(opening: Opening) -> Self {
        let Opening {
            server,
            protocol,
            peer,
            proving,
            link,
            thread,
            wait,
        } = opening;
        let waits = !wait.is_zero();
        Self {
            stream: Stream::with_limits(protocol, thread.fanout, server.options.limits)
                .charged_to(server.budget.account(network_of(peer.ip()))),
            phase: Phase::Arrived(waits.then(|| Box::pin(tokio::time::sleep(wait)))),
            protocol,
            peer,
            proving: Some(proving),
            intake: Intake::new(server.options.max_request_bytes, link.now()),
            due: SmallVec::new(),
            link,
            wake_list: thread.wake_list,
            patience: None,
            place: None,
            asker: None,
            extra: None,
            server,
        }
    }

    pub(super) fn poll(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<Part> {
        if let Phase::Arrived(wait) = &mut self.phase {
            if let Some(wait) = wait {
                ready!(wait.as_mut().poll(cx));
            }
            return Poll::Ready(self.admit());
        }
        let polled = catch_unwind(AssertUnwindSafe(|| self.step(input, cx))).unwrap_or_else(|_| {
            self.server.subscriber.on_incident(Incident::Panicked);
            Poll::Ready(Err(Status::new(Code::Internal, "internal error")))
        });
        Poll::Ready(match ready!(polled) {
            Ok(data) => Part::Data(data),
            Err(status) => {
                tracing::debug!(peer = %self.peer, %status, "Stream ended.");
                let trailers = end(&status);
                self.server.subscriber.on_incident(Incident::Ended(status));
                // The connection lets go of the call now, and the upper side is told.
                Part::End(trailers)
            }
        })
    }

    /// Takes a place among the streams.
    fn admit(&mut self) -> Part {
        match StreamSlot::take(&self.server) {
            Ok(place) => {
                self.place = Some(place);
                if let Some(proving) = self.proving.take() {
                    self.phase = Phase::Proving(proving);
                }
                Part::Head(grpc(()))
            }
            Err(status) => {
                let refused = Incident::Refused(status.clone());
                self.server.subscriber.on_incident(refused);
                status_only(&status)
            }
        }
    }

    /// The next piece of data, or the status that ends the stream.
    fn step(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<Result<Data, Status>> {
        let over = match self.link.order() {
            Order::Serve => None,
            Order::Retire => Some("the connection is as old as connections get; connect again"),
            Order::Expire => Some("the client's identity has expired; connect again"),
            Order::Drain | Order::Close => Some("server is shutting down"),
        };
        if let Some(over) = over {
            return Poll::Ready(Err(Status::new(Code::Unavailable, over)));
        }
        ready!(self.proven(cx))?;
        let read = self.read(input, cx)?;
        self.joining(cx)?;
        self.changes(cx)?;
        self.wait(cx)?;
        if !self.due.is_empty() {
            let response = self.due.remove(0);
            let start = (!response.content.is_encoded()).then(Instant::now);
            let body = response.content.body();
            if let Phase::Joined(_, session) = &mut self.phase {
                if let Some(start) = start {
                    session.on_work(Work::Encode, start.elapsed());
                }
                session.on_send(&response, body.len() + HEAD - 5);
            }
            return Poll::Ready(Ok(data(response.nonce, body)));
        }
        if let Some(extra) = &mut self.extra
            && let Poll::Ready(next) = extra.poll_next(cx)
        {
            return Poll::Ready(next);
        }
        let owes = matches!(self.phase, Phase::Joining(..))
            || self.extra.as_ref().is_some_and(|extra| extra.owes());
        match read {
            // The client is done; what it asked before is answered.
            Poll::Ready(()) if !owes => Poll::Ready(Err(Status::OK)),
            _ => Poll::Pending,
        }
    }

    /// Ready when it is known who the client is.
    fn proven(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let Phase::Proving(proving) = &mut self.phase else {
            return Poll::Ready(Ok(()));
        };
        let proven = ready!(proving.as_mut().poll(cx)).inspect_err(|status| {
            let refused = Incident::Refused(status.clone());
            self.server.subscriber.on_incident(refused);
        })?;
        if let Some(until) = proven.until {
            self.link.hold_until(until);
        }
        self.phase = Phase::Opened(proven);
        Poll::Ready(Ok(()))
    }

    /// Takes in requests; ready when there will be no more.
    fn read(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Result<Poll<()>, Status> {
        let (mut taken, mut bytes, work) = (0, 0, self.stream.work());
        loop {
            while !matches!(self.phase, Phase::Joining(..)) {
                let Some(message) = self.intake.pop()? else {
                    break;
                };
                self.stream.limits().look(self.protocol, &message)?;
                self.request(decode(self.protocol, &message)?)?;
                taken += 1;
                bytes += message.len();
                if taken == REQUESTS_PER_POLL
                    || bytes >= BYTES_PER_POLL
                    || self.stream.work() - work >= WORK_PER_POLL
                {
                    cx.waker().wake_by_ref();
                    return Ok(Poll::Pending);
                }
            }
            if matches!(self.phase, Phase::Joining(..)) {
                return Ok(Poll::Pending);
            }
            let limit = self.server.deadlines.request;
            match self.intake.fill(input, &self.link, limit, cx)? {
                Filled::Some => {}
                Filled::Over => return Ok(Poll::Ready(())),
                Filled::Nothing => return Ok(Poll::Pending),
            }
        }
    }

    fn request(&mut self, mut request: Request) -> Result<(), Status> {
        if let Phase::Opened(proven) = &mut self.phase {
            if self.asker.is_none()
                && let Some(node) = request.node.take()
            {
                self.asker = Some(Box::new(Asker {
                    id: node.id.as_str().into(),
                    node: Some(node),
                    peer: self.peer,
                    proven: std::mem::take(proven),
                    protocol: self.protocol,
                }));
            }
            if let Some(asker) = &mut self.asker {
                if needs_no_view(&self.server.extra, &request.type_url) {
                    return self.ask_extra(request);
                }
                if let Some(node) = asker.node.take() {
                    self.join(node, request);
                    return Ok(());
                }
            }
            // The stream knows which requests may come before the first, and ends otherwise.
        }
        let out = self.stream.on_request(request);
        self.act(out)
    }

    /// Asks the subscriber whether to serve a proxy.
    fn join(&mut self, node: Box<Node>, mut request: Request) {
        // All that the stream looks at.
        request.node = Some(Box::new(Node {
            id: node.id.clone(),
            ..Node::default()
        }));
        let asker = self.asker.as_deref();
        let join = Join {
            node,
            peer: self.peer,
            proven: asker.map(|a| a.proven.clone()).unwrap_or_default(),
            protocol: self.protocol,
            returns: request.holds,
        };
        let decision = self.server.subscriber.subscribe(join);
        self.phase = Phase::Joining(decision, Box::new(request));
    }

    /// Has a request answered that is for a type that no view has.
    fn ask_extra(&mut self, request: Request) -> Result<(), Status> {
        let Some(asker) = &self.asker else {
            return Ok(());
        };
        let types = &self.server.extra;
        let extra = self
            .extra
            .get_or_insert_with(|| Box::new(Extra::new(Arc::clone(types))));
        let (limits, subscriber) = (&self.server.options.limits, &*self.server.subscriber);
        extra.on_request(asker, request, limits, subscriber)
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
        published.wake_through(Arc::clone(&self.wake_list));
        let newest = published.newest();
        let joined = Phase::Joined(published, session);
        let Phase::Joining(_, first) = std::mem::replace(&mut self.phase, joined) else {
            return Ok(());
        };
        // Nothing is subscribed yet: this only stores it.
        let mut out = self.published(newest);
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
            let (start, prepared) = (Instant::now(), self.stream.prepared());
            let out = self.published(newest);
            if self.stream.prepared() > prepared
                && let Phase::Joined(_, session) = &mut self.phase
            {
                session.on_work(Work::Merge, start.elapsed());
            }
            self.act(out)?;
        }
        Ok(())
    }

    /// Hands the newest revision to the stream. What is in it the client may name, however much that is.
    fn published(&mut self, newest: Arc<Published>) -> Vec<Action> {
        self.intake.allow(request_about(newest.bytes()));
        self.stream.on_published(newest)
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
                tracing::debug!(peer = %self.peer, "Client does not request the endpoints of new clusters.");
                let out = self.stream.on_patience_lost();
                self.act(out)?;
            }
        } else if self.patience.is_some() && !self.stream.waits() {
            self.patience = None;
        }
        Ok(())
    }

    fn act(&mut self, out: Vec<Action>) -> Result<(), Status> {
        let answered =
            |o: &Action| matches!(o, Action::Event(Event::Ack { .. } | Event::Nack { .. }));
        self.link
            .note(self.stream.in_flight() > 0, out.iter().any(answered));
        for out in out {
            match out {
                Action::Send(response) => self.due.push(response),
                Action::Extra(request) => self.ask_extra(*request)?,
                Action::Event(event) => {
                    if let Phase::Joined(_, session) = &mut self.phase {
                        session.on_event(&event);
                    }
                }
                Action::End(status) => return Err(status),
            }
        }
        Ok(())
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        // Nobody is left to answer.
        self.link.note(false, false);
    }
}

fn decode(protocol: Protocol, message: &[u8]) -> Result<Request, Status> {
    let decoded = match protocol {
        Protocol::Delta => DeltaDiscoveryRequest::decode(message).map(Request::from),
        Protocol::Sotw => DiscoveryRequest::decode(message).map(Request::from),
    };
    decoded.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))
}
