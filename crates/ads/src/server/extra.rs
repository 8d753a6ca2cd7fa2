//! Types that no view has, and their handlers, for proxies and for other clients.
//!
//! A request for such a type does not make its client a proxy: nothing is generated for it. A type without a handler gets an empty
//! response ([`Unserved`]). Clients that are not proxies request only types of the form `group/version/Kind`; for any other type
//! without a handler, the client must be admitted as a proxy first.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http2::Data;
use proto_envoy::envoy::config::core::v3::Node;

use super::client::Proven;
use super::frames::HEADER;
use super::subscriber::{Incident, Subscriber};
use crate::limits::Limits;
use crate::request::Request;
use crate::status::{Code, Status};
use crate::stream::Protocol;
use crate::unserved::{Unserved, is_kind};

/// The client of a stream, as handlers see it.
#[derive(Debug)]
pub struct Asker {
    /// The node id that it states.
    pub id: Box<str>,
    /// The node that it states. `None` once it was admitted as a proxy.
    pub node: Option<Box<Node>>,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Its authenticated identity.
    pub proven: Proven,
    /// Which variant of the protocol it speaks.
    pub protocol: Protocol,
}

/// A handler of types that no view has.
pub trait ExtraTypes: Send + Sync + 'static {
    /// Whether it handles a type.
    fn serves(&self, type_url: &str) -> bool;

    /// Called at a stream's first request for one of its types. Each request is authorized by itself.
    fn open(&self, asker: &Asker) -> Box<dyn ExtraStream>;
}

/// The handler's side of one stream.
pub trait ExtraStream: Send {
    /// Handles a request for one of its types, acknowledgements included.
    ///
    /// # Errors
    /// The status with which the whole stream ends.
    fn on_request(&mut self, request: Request) -> Result<(), Status>;

    /// The next response as [`Answer::encode`](crate::Answer::encode) makes it. Polled again after each response, and only
    /// while the client has room for it. It runs on a thread that serves proxies, so it must not block or compute for long.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Status>>;

    /// Whether a response is outstanding. The stream of a client that has closed its side ends when none is.
    fn owes(&self) -> bool;
}

/// The handlers of one stream.
pub(super) struct Extra {
    types: Arc<[Arc<dyn ExtraTypes>]>,
    /// By place among the types.
    open: Vec<(usize, Box<dyn ExtraStream>)>,
    unserved: Unserved,
    due: VecDeque<Bytes>,
}

/// Whether a client may request a type without being admitted as a proxy.
pub(super) fn needs_no_view(types: &[Arc<dyn ExtraTypes>], type_url: &str) -> bool {
    is_kind(type_url) || types.iter().any(|extra| extra.serves(type_url))
}

impl Extra {
    pub(super) fn new(types: Arc<[Arc<dyn ExtraTypes>]>) -> Self {
        Self {
            types,
            open: Vec::new(),
            unserved: Unserved::default(),
            due: VecDeque::new(),
        }
    }

    /// Takes in a request.
    pub(super) fn on_request(
        &mut self,
        asker: &Asker,
        request: Request,
        limits: &Limits,
        subscriber: &dyn Subscriber,
    ) -> Result<(), Status> {
        if asker.id.is_empty() {
            let message = "missing node information";
            return Err(Status::new(Code::InvalidArgument, message));
        }
        let mut types = self.types.iter().enumerate();
        if let Some((at, extra)) = types.find(|(_, extra)| extra.serves(&request.type_url)) {
            let known = self.open.iter().position(|(place, _)| *place == at);
            let known = known.unwrap_or_else(|| {
                self.open.push((at, extra.open(asker)));
                self.open.len() - 1
            });
            return self.open[known].1.on_request(request);
        }
        let outcome = self.unserved.on_request(&request, limits)?;
        if outcome.first {
            subscriber.on_incident(Incident::UnknownType {
                client: asker.id.clone(),
                type_url: request.type_url,
            });
        }
        let answer = outcome.answer.map(|answer| answer.encode(asker.protocol));
        self.due.extend(answer);
        Ok(())
    }

    /// The next response.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Data, Status>> {
        if let Some(message) = self.due.pop_front() {
            return Poll::Ready(Ok(framed(message)));
        }
        for (_, extra) in &mut self.open {
            if let Poll::Ready(next) = extra.poll_next(cx) {
                return Poll::Ready(next.map(framed));
            }
        }
        Poll::Pending
    }

    /// Whether a response is outstanding.
    pub(super) fn owes(&self) -> bool {
        !self.due.is_empty() || self.open.iter().any(|(_, extra)| extra.owes())
    }
}

/// A message that is shared, with its header.
fn framed(message: Bytes) -> Data {
    let mut head = [0; HEADER];
    head[1..].copy_from_slice(&(message.len() as u32).to_be_bytes());
    Data {
        own: head.as_slice().into(),
        shared: message,
    }
}
