//! The server's side of HTTP/2, made for many connections with a few long streams each.
//!
//! A control plane keeps tens of thousands of connections that do nothing for minutes, and then sends all of them the
//! same bytes at once. What counts is what a connection costs meanwhile, and how often memory is touched for a response:
//! - a connection is one future with its streams, and has no buffers of its own while nothing is under way;
//! - a response is one system call (up to half a megabyte), and large shared bytes are not copied ([`Data`]);
//! - a call is asked for the next part of its response when there was room for the last, so nothing is queued
//!   ([`Call::poll`]).
//!
//! What is left out on purpose: the client's side, push, priorities (deprecated, read and ignored), upgrades from
//! HTTP/1.1, dynamic tables and Huffman code in what is sent.
//!
//! Frames and streams are RFC 9113's, header compression is RFC 7541's. Limits on what a client can make a connection
//! do are in `flow` and `limits`.

mod connection;
mod flow;
mod frame;
mod hpack;
mod input;
mod limits;
mod request;
mod state;
mod write_buffer;

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use smallvec::SmallVec;

pub use connection::{Connection, Error, Waits};
pub use frame::Reason;
pub use input::Input;

/// Begins the calls of a connection.
pub trait Service {
    /// How a call is answered.
    type Call: Call;

    /// A request's head has come; its body comes through [`Call::poll`].
    fn call(&mut self, request: Request<()>) -> Self::Call;
}

/// One call: takes what the client sends, gives what it is sent. It is dropped when the client gives it up.
pub trait Call {
    /// The next part of the response. Asked whenever something moves on the connection, unless the client has no room
    /// for a part that was given before; everything that can be taken of `input` should be taken before it is pending, and what stays there counts
    /// against the client's window.
    fn poll(&mut self, input: &mut Input, cx: &mut Context<'_>) -> Poll<Part>;
}

/// A part of a response: a head, then data, then the end; or all of it.
#[derive(Debug)]
pub enum Part {
    /// Status and headers.
    Head(Response<()>),
    /// A piece of the body.
    Data(Data),
    /// Status and headers of a response that is nothing else.
    Only(Response<()>),
    /// The end, with trailers unless there are none.
    End(HeaderMap),
}

/// A piece of a body: a few octets that are its own, then what it shares with others.
#[derive(Clone, Default, Debug)]
pub struct Data {
    /// Copied.
    pub own: SmallVec<[u8; 24]>,
    /// Not copied, unless that is cheaper.
    pub shared: Bytes,
}

impl Data {
    fn len(&self) -> usize {
        self.own.len() + self.shared.len()
    }
}
