//! A connection without a socket: octets in, frames out.

mod answer;
mod take_in;

pub(crate) use answer::BACKLOG;

use http::StatusCode;
use smallvec::SmallVec;

use crate::flow::{self, ReceiveWindow, SendWindow};
use crate::frame::{self, Head, Reason};
use crate::hpack::{self, Decoder};
use crate::limits::Limits;
use crate::request::MAX_LIST;
use crate::write_buffer::WriteBuffer;
use crate::{Call, Data, Input, Service, Waits};

/// Streams that a client may have at one time.
const MAX_STREAMS: usize = 100;
/// Streams that we reset, of which the client may not know yet.
const RESET: usize = 8;

/// Why a connection cannot go on, and what the client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault(pub(crate) Reason, pub(crate) &'static str);

/// How far the beginning of a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Began {
    No,
    /// Settings must come first.
    Preface,
    Yes,
}

/// A header block whose end has not come.
#[derive(Debug)]
struct Block {
    head: Head,
    octets: Vec<u8>,
    frames: u32,
    /// The stream is said to depend on itself.
    selfish: bool,
}

/// A stream. What every response and its answer touch lies together, in front of the call and behind the connection's.
#[repr(C)]
#[derive(Debug)]
struct Stream<C> {
    id: u32,
    window: SendWindow,
    receive: ReceiveWindow,
    input: Input,
    call: C,
    /// What is to come of the body, if that was said.
    length: Option<u64>,
    /// What the window has no room for.
    rest: Option<Box<Rest>>,
}

/// The end of a piece of data.
#[derive(Debug)]
struct Rest {
    data: Data,
    /// When there was no room for the first time. A client that makes room octet by octet is as late as one that makes none.
    since: u32,
}

/// A connection. What is seldom touched comes first, what always is comes last.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct State<C> {
    decoder: Decoder,
    reset: [u32; RESET],
    /// The client's wish for streams.
    stream_window: u32,
    /// The newest stream that the client began.
    last: u32,
    /// The time, as the connection was told.
    now: u32,
    /// Since when what the client began lacks its end, if it does.
    unfinished: u32,
    /// Since when there are no calls, if there are none.
    alone: u32,
    /// The stream that answers first in the next turn.
    turn: u32,
    block: Option<Box<Block>>,
    /// The client's wish for frames.
    max_frame: usize,
    window: SendWindow,
    receive: ReceiveWindow,
    began: Began,
    /// New streams are refused, and the connection ends with those that there are.
    draining: bool,
    /// The client begins no more streams.
    leaving: bool,
    limits: Limits,
    /// The beginning of a frame.
    partial: Vec<u8>,
    streams: SmallVec<[Stream<C>; 1]>,
}

impl<C: Call> State<C> {
    /// A connection, and what we say first.
    pub(crate) fn new(out: &mut WriteBuffer) -> Self {
        out.put(|out| {
            let settings = [(3, MAX_STREAMS as u32), (6, MAX_LIST as u32)];
            frame::put_head(frame::SETTINGS, 0, 0, 6 * settings.len(), out);
            for (name, value) in settings {
                out.extend_from_slice(&u16::to_be_bytes(name));
                out.extend_from_slice(&u32::to_be_bytes(value));
            }
            frame::put_window_update(0, flow::CONNECTION - flow::INITIAL, out);
        });
        Self {
            streams: SmallVec::new(),
            window: SendWindow::new(flow::INITIAL),
            receive: ReceiveWindow::new(flow::CONNECTION),
            max_frame: frame::MAX_PAYLOAD,
            stream_window: flow::INITIAL,
            limits: Limits::new(),
            last: 0,
            now: 0,
            unfinished: 0,
            alone: 0,
            turn: 0,
            began: Began::No,
            draining: false,
            leaving: false,
            partial: Vec::new(),
            block: None,
            reset: [0; RESET],
            decoder: Decoder::default(),
        }
    }

    /// Takes in what the client sent, cut anyhow.
    pub(crate) fn receive<S: Service<Call = C>>(
        &mut self,
        octets: &[u8],
        out: &mut WriteBuffer,
        service: &mut S,
    ) -> Result<(), Fault> {
        let was = self.is_unfinished();
        let finished = self.cut(octets, out, service)?;
        if finished || !was {
            self.unfinished = self.now;
        }
        Ok(())
    }

    /// Whether the client has begun something that it has not finished: the connection, a frame, or a header block.
    fn is_unfinished(&self) -> bool {
        self.began != Began::Yes || !self.partial.is_empty() || self.block.is_some()
    }

    /// Takes in whole frames, and keeps the rest. Returns whether something came to its end.
    fn cut<S: Service<Call = C>>(
        &mut self,
        mut octets: &[u8],
        out: &mut WriteBuffer,
        service: &mut S,
    ) -> Result<bool, Fault> {
        let mut finished = false;
        while !self.partial.is_empty() {
            let wants = self.next(&self.partial)?;
            let lacks = wants.saturating_sub(self.partial.len());
            if lacks == 0 {
                let whole = std::mem::take(&mut self.partial);
                self.take_in(&whole, out, service)?;
                finished |= self.began == Began::Yes && self.block.is_none();
                continue;
            }
            if octets.is_empty() {
                return Ok(finished);
            }
            let (more, rest) = octets.split_at(lacks.min(octets.len()));
            self.partial.extend_from_slice(more);
            octets = rest;
        }
        while !octets.is_empty() {
            let wants = self.next(octets)?;
            let Some((whole, rest)) = octets.split_at_checked(wants) else {
                self.partial.extend_from_slice(octets);
                break;
            };
            self.take_in(whole, out, service)?;
            finished |= self.began == Began::Yes && self.block.is_none();
            octets = rest;
        }
        Ok(finished)
    }

    /// Tells the time, in any unit that goes up.
    pub(crate) fn tell(&mut self, now: u32) {
        self.now = now;
    }

    /// Since when the client is awaited.
    pub(crate) fn waits(&self) -> Waits {
        let room = self.streams.iter().filter_map(|s| s.rest.as_ref());
        Waits {
            unfinished: self.is_unfinished().then_some(self.unfinished),
            call: self.streams.is_empty().then_some(self.alone),
            room: room.map(|rest| rest.since).min(),
        }
    }

    /// Octets that are kept for this client alone.
    pub(crate) fn kept(&self) -> usize {
        let inputs = self.streams.iter().map(|s| s.input.octets.capacity());
        let block = self.block.as_ref().map_or(0, |b| b.octets.capacity());
        self.partial.capacity() + block + self.decoder.size() + inputs.sum::<usize>()
    }

    /// How many octets the next thing has, as far as these tell.
    fn next(&self, octets: &[u8]) -> Result<usize, Fault> {
        if self.began == Began::No {
            let same = octets.iter().zip(frame::PREFACE).all(|(a, b)| a == b);
            return match same {
                true => Ok(frame::PREFACE.len()),
                false => Err(Fault(Reason::Protocol, "not HTTP/2")),
            };
        }
        let Some(head) = octets.first_chunk() else {
            return Ok(frame::HEAD);
        };
        match Head::parse(head).len {
            len if len <= frame::MAX_PAYLOAD => Ok(frame::HEAD + len),
            _ => Err(Fault(
                Reason::FrameSize,
                "a frame of more than 16,384 octets",
            )),
        }
    }

    /// Refuses new streams from now on.
    pub(crate) fn drain(&mut self, out: &mut WriteBuffer) {
        if !self.draining {
            self.draining = true;
            // No stream is left out yet: some may be on their way.
            out.put(|out| frame::put_go_away(i32::MAX as u32, Reason::NoError, out));
        }
    }

    /// Whether the connection has come to its end.
    pub(crate) fn is_over(&self) -> bool {
        (self.draining || self.leaving) && self.streams.is_empty()
    }

    /// Says that this is the end.
    pub(crate) fn go_away(&self, reason: Reason, out: &mut WriteBuffer) {
        out.put(|out| frame::put_go_away(self.last, reason, out));
    }

    fn stream(&mut self, id: u32) -> Option<usize> {
        self.streams.iter().position(|s| s.id == id)
    }

    /// Removes a stream and tells the client why.
    fn fail(&mut self, id: u32, reason: Reason, out: &mut WriteBuffer) -> Result<(), Fault> {
        if let Some(at) = self.stream(id) {
            self.remove(at, out);
        }
        self.put_reset(id, reason, out);
        self.limits.vain()
    }

    fn put_reset(&mut self, id: u32, reason: Reason, out: &mut WriteBuffer) {
        self.reset.rotate_right(1);
        self.reset[0] = id;
        out.put(|out| frame::put_reset(id, reason, out));
    }

    /// Drops a stream with its call.
    fn remove(&mut self, at: usize, out: &mut WriteBuffer) {
        let stream = self.streams.remove(at);
        self.alone = self.now;
        self.give_back(stream.input.taken + stream.input.octets.len() as u32, out);
    }

    /// Lets the client send so much again on the connection.
    fn give_back(&mut self, count: u32, out: &mut WriteBuffer) {
        if let Some(more) = self.receive.give_back(count) {
            out.put(|out| frame::put_window_update(0, more, out));
        }
    }

    /// A response that is nothing but a status.
    fn put_status(&mut self, id: u32, status: StatusCode, out: &mut WriteBuffer) {
        let mut block = Vec::new();
        hpack::put_status(status, &mut block);
        answer::put_block(id, &block, true, self.max_frame, out);
        self.put_reset(id, Reason::NoError, out);
    }
}
