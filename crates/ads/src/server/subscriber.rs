//! The interface upward: who may subscribe, to what, and who is told of what happens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use http::Request;
use proto_envoy::envoy::config::core::v3::Node;
use xds::Published;

use super::client::{Client, Proven};
use super::secure::HandshakeError;
use crate::action::{Event, Response};
use crate::latest::Receiver;
use crate::status::Status;
use crate::stream::Protocol;

/// A stream's first request.
#[derive(Debug)]
pub struct Join {
    /// Who it says that it is.
    pub node: Box<Node>,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Who it is.
    pub proven: Proven,
    /// Which variant it speaks.
    pub protocol: Protocol,
    /// Whether it says that it has resources from an earlier stream.
    pub returns: bool,
}

/// What a stream gets.
pub struct Subscription {
    /// The newest revision for this proxy. Types that nobody asked for may be missing until [`Session::on_event`] told
    /// of a subscription. When the sender is dropped the stream ends with `UNAVAILABLE`.
    pub published: Receiver<Arc<Published>>,
    /// Is told what happens.
    pub session: Box<dyn Session>,
}

/// The upper side of one stream; dropped when the stream is gone.
pub trait Session: Send {
    /// Something happened; subscriptions are told here before they are answered.
    fn on_event(&mut self, event: &Event);

    /// A part of the work for the stream took that long.
    fn on_work(&mut self, work: Work, took: Duration) {
        let _ = (work, took);
    }

    /// A response goes out, with its size on the wire.
    fn on_send(&mut self, response: &Response, bytes: usize) {
        let _ = (response, bytes);
    }
}

/// Work for one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Working out what the client lacks of a new revision, if no other stream has worked out the same.
    Merge,
    /// Encoding a response that no other stream has encoded.
    Encode,
}

/// What happens to the server and not within one session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incident {
    /// A connection was accepted.
    ConnectionOpened,
    /// A connection ended.
    ConnectionClosed,
    /// A stream was refused before it had a session.
    Refused(Status),
    /// A stream ended, with what the client was told.
    Ended(Status),
    /// A defect ended a stream; others are not touched.
    Panicked,
    /// A connection was closed because the client did not answer a response.
    SendTimedOut,
    /// A connection was closed because the client did not finish in time what it began: the connection, or a frame.
    ReceiveTimedOut,
    /// A connection was refused: there are too many, in all or from its address.
    ConnectionRefused,
    /// The system refused to accept a connection.
    AcceptFailed,
    /// A client may begin a handshake.
    HandshakeBegan,
    /// It was done, or came to nothing.
    HandshakeEnded(Result<(), HandshakeError>),
    /// A handshake was not begun: there are too many.
    HandshakeRefused,
    /// The first request of a stream for a type that is not served. The answer has no resources.
    UnknownType {
        /// The id that it says it has.
        client: Box<str>,
        /// The type as it was written.
        type_url: String,
    },
}

/// Decides what proxies get.
pub trait Subscriber: Send + Sync + 'static {
    /// Finds out who opens a stream, from its connection and the head of its request, before anything of it is read. A status refuses it.
    fn authenticate(
        &self,
        client: &Client,
        request: &Request<()>,
    ) -> BoxFuture<'static, Result<Proven, Status>> {
        let _ = (client, request);
        Box::pin(ready(Ok(Proven::default())))
    }

    /// Admits a proxy. A status refuses it: the stream ends with it.
    fn subscribe(&self, join: Join) -> BoxFuture<'static, Result<Subscription, Status>>;

    /// Something happened outside of any session.
    fn on_incident(&self, incident: Incident) {
        let _ = incident;
    }
}
