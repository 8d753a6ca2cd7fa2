//! What a stream says to its adapter.

use std::sync::Arc;

use xds::TypeUrl;

use crate::content::Content;
use crate::names::Selection;
use crate::request::Request;
use crate::status::Status;

/// One thing for the adapter to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a response.
    Send(Response),
    /// Pass the request to the handlers of types that no view has.
    Extra(Box<Request>),
    /// Tell whoever watches.
    Event(Event),
    /// End the stream; nothing follows.
    End(Status),
}

/// A response: its nonce belongs to one stream, its content is shared by all that send the same.
#[derive(Clone, Debug)]
pub struct Response {
    /// Unique within the stream; 16 hexadecimal digits on the wire.
    pub nonce: u64,
    /// The revision that it was made from.
    pub revision: u64,
    /// Whether it follows from what the client asked for, and not from a change.
    pub asked: bool,
    /// Everything else.
    pub content: Arc<Content>,
}

/// What happened on a stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The client asks for something else than before; an empty selection means that it gave the type up.
    Subscribed {
        /// Of this type.
        ty: TypeUrl,
        /// All that it asks for now.
        selection: Selection,
    },
    /// The client took a response.
    Ack {
        /// Of this type.
        ty: TypeUrl,
        /// Which response.
        nonce: u64,
        /// The version that the response stated.
        version: u64,
    },
    /// The client refused a response.
    Nack {
        /// Of this type.
        ty: TypeUrl,
        /// Which response.
        nonce: u64,
        /// gRPC code of the refusal.
        code: i32,
        /// The client's words.
        message: String,
        /// The resources that the client blames, if that could be told, else all of the response.
        resources: Vec<Arc<str>>,
        /// Whether [`resources`](Event::Nack::resources) are those to blame, which are not sent again until they change.
        blamed: bool,
    },
    /// The client reconnected with current versions of everything it subscribes to: nothing is sent until something changes.
    Holds {
        /// Of this type.
        ty: TypeUrl,
        /// The revision that has these versions.
        revision: u64,
    },
    /// A request answered a response that is not the newest of its type, and was ignored.
    Stale {
        /// Of this type.
        ty: TypeUrl,
    },
    /// The client's agent says how its workload is.
    Health {
        /// Whether it is well.
        healthy: bool,
        /// Why not; empty if it is.
        message: String,
    },
}
