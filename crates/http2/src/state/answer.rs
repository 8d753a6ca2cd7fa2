//! What calls say, as frames.

use std::task::{Context, Poll};

use http::{HeaderMap, Response};

use super::{Rest, State, Stream};
use crate::frame::{self, Reason};
use crate::hpack;
use crate::write_buffer::WriteBuffer;
use crate::{Call, Data, Part};

/// Parts that a call gives before others get their turn.
const PARTS: usize = 16;

/// With so many octets of our own not written, nobody is asked for more. A client that does not read is not to make us
/// copy the small responses of all its calls.
pub(crate) const BACKLOG: usize = 16 << 10;

/// What became of a stream.
enum Step {
    /// It has nothing to say, or no room to say it.
    Waits,
    /// It progress something.
    Progress,
    /// It progress everything.
    Ended,
}

impl<C: Call> State<C> {
    /// Asks calls for what they have to say, until it is much. Returns whether they progress anything.
    pub(crate) fn answer(&mut self, out: &mut WriteBuffer, cx: &mut Context<'_>) -> bool {
        let (mut progress, count) = (false, self.streams.len());
        let mut at = self.turn as usize;
        for _ in 0..count {
            if out.own() >= BACKLOG {
                break;
            }
            if at >= self.streams.len() {
                at = 0;
            }
            let step = self.step(at, out, cx);
            self.take_back(at, out);
            progress |= !matches!(step, Step::Waits);
            match step {
                Step::Ended => self.end(at, out),
                _ => at += 1,
            }
        }
        // The next is the first when there is room again.
        self.turn = at as u32;
        progress
    }

    fn step(&mut self, at: usize, out: &mut WriteBuffer, cx: &mut Context<'_>) -> Step {
        let mut step = Step::Waits;
        if let Some(rest) = self.streams[at].rest.take() {
            let Rest { data, since } = *rest;
            let before = data.len();
            if !self.put_data(at, data, since, out) {
                let rest = self.streams[at].rest.as_ref();
                let same = rest.is_some_and(|rest| rest.data.len() == before);
                return if same { Step::Waits } else { Step::Progress };
            }
            step = Step::Progress;
        }
        for _ in 0..PARTS {
            let stream = &mut self.streams[at];
            let Poll::Ready(part) = stream.call.poll(&mut stream.input, cx) else {
                return step;
            };
            step = Step::Progress;
            match part {
                Part::Head(head) => stream.put_head(&head, false, self.max_frame, out),
                Part::Only(head) => {
                    stream.put_head(&head, true, self.max_frame, out);
                    return Step::Ended;
                }
                Part::Data(data) => {
                    if !self.put_data(at, data, self.now, out) {
                        return Step::Progress;
                    }
                }
                Part::End(trailers) => {
                    stream.put_end(&trailers, self.max_frame, out);
                    return Step::Ended;
                }
            }
        }
        step
    }

    /// Appends as much of the data as the client has room for, and keeps the rest, which waits since then. Returns whether
    /// that is all.
    fn put_data(&mut self, at: usize, mut data: Data, since: u32, out: &mut WriteBuffer) -> bool {
        let stream = &mut self.streams[at];
        while data.len() > 0 {
            let room = stream.window.left().min(self.window.left());
            let len = data.len().min(room).min(self.max_frame);
            if len == 0 {
                stream.rest = Some(Box::new(Rest { data, since }));
                return false;
            }
            stream.window.spend(len);
            self.window.spend(len);
            if len == data.len() || len >= frame::MAX_PAYLOAD {
                self.limits.sent();
            }
            let own = len.min(data.own.len());
            out.put(|out| {
                frame::put_head(frame::DATA, 0, stream.id, len, out);
                out.extend_from_slice(&data.own[..own]);
            });
            data.own.drain(..own);
            out.share(data.shared.split_to(len - own));
        }
        true
    }

    /// Lets the client send again what the call took.
    fn take_back(&mut self, at: usize, out: &mut WriteBuffer) {
        let stream = &mut self.streams[at];
        let taken = std::mem::take(&mut stream.input.taken);
        if taken == 0 {
            return;
        }
        if let Some(more) = stream.receive.give_back(taken)
            && !stream.input.ended
        {
            let id = stream.id;
            out.put(|out| frame::put_window_update(id, more, out));
        }
        self.give_back(taken, out);
    }

    fn end(&mut self, at: usize, out: &mut WriteBuffer) {
        let stream = &self.streams[at];
        if !stream.input.ended {
            // The answer does not depend on the rest of the request.
            self.put_reset(stream.id, Reason::NoError, out);
        }
        self.remove(at, out);
    }
}

impl<C> Stream<C> {
    fn put_head(&self, head: &Response<()>, end: bool, max_frame: usize, out: &mut WriteBuffer) {
        let mut block = Vec::with_capacity(64);
        hpack::put_status(head.status(), &mut block);
        put_fields(head.headers(), &mut block);
        put_block(self.id, &block, end, max_frame, out);
    }

    fn put_end(&self, trailers: &HeaderMap, max_frame: usize, out: &mut WriteBuffer) {
        if trailers.is_empty() {
            let id = self.id;
            out.put(|out| frame::put_head(frame::DATA, frame::END_STREAM, id, 0, out));
            return;
        }
        let mut block = Vec::with_capacity(64);
        put_fields(trailers, &mut block);
        put_block(self.id, &block, true, max_frame, out);
    }
}

fn put_fields(fields: &HeaderMap, block: &mut Vec<u8>) {
    for (name, value) in fields {
        hpack::put_field(name.as_str().as_bytes(), value.as_bytes(), block);
    }
}

/// Appends a header block in as many frames as it needs.
pub(super) fn put_block(id: u32, block: &[u8], end: bool, max_frame: usize, out: &mut WriteBuffer) {
    let mut kind = frame::HEADERS;
    let mut flags = if end { frame::END_STREAM } else { 0 };
    let mut chunks = block.chunks(max_frame).peekable();
    while let Some(chunk) = chunks.next() {
        if chunks.peek().is_none() {
            flags |= frame::END_HEADERS;
        }
        out.put(|out| {
            frame::put_head(kind, flags, id, chunk.len(), out);
            out.extend_from_slice(chunk);
        });
        (kind, flags) = (frame::CONTINUATION, 0);
    }
}
