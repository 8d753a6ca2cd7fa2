//! What each frame of a client does.

use http::StatusCode;

use super::{Began, Block, Fault, MAX_STREAMS, State, Stream};
use crate::flow::{self, ReceiveWindow, SendWindow};
use crate::frame::{self, Head, Reason};
use crate::limits::Limits;
use crate::request::{Bad, Fields, MAX_LIST};
use crate::write_buffer::WriteBuffer;
use crate::{Call, Input, Service};

fn protocol<T>(what: &'static str) -> Result<T, Fault> {
    Err(Fault(Reason::Protocol, what))
}

fn size<T>(what: &'static str) -> Result<T, Fault> {
    Err(Fault(Reason::FrameSize, what))
}

impl<C: Call> State<C> {
    /// The preface, or a frame.
    pub(super) fn take_in<S: Service<Call = C>>(
        &mut self,
        whole: &[u8],
        out: &mut WriteBuffer,
        service: &mut S,
    ) -> Result<(), Fault> {
        if self.began == Began::No {
            self.began = Began::Preface;
            return Ok(());
        }
        let Some((head, payload)) = whole.split_first_chunk() else {
            return Ok(());
        };
        let head = Head::parse(head);
        let goes_on = |b: &Block| head.kind == frame::CONTINUATION && head.stream == b.head.stream;
        if self.block.as_deref().is_some_and(|b| !goes_on(b)) {
            return protocol("another frame within a header block");
        }
        if self.began == Began::Preface {
            if head.kind != frame::SETTINGS || head.has(frame::ACK) {
                return protocol("no settings at the beginning");
            }
            self.began = Began::Yes;
        }
        match head.kind {
            frame::DATA => self.data(head, payload, out),
            frame::HEADERS => self.headers(head, payload, out, service),
            frame::PRIORITY => self.priority(head, payload, out),
            frame::RST_STREAM => self.reset(head, payload, out),
            frame::SETTINGS => self.settings(head, payload, out),
            frame::PUSH_PROMISE => protocol("a push from a client"),
            frame::PING => self.pinged(head, payload, out),
            frame::GOAWAY => self.gone(head, payload),
            frame::WINDOW_UPDATE => self.window_update(head, payload, out),
            frame::CONTINUATION => self.continuation(payload, head, out, service),
            _ => self.limits.idle(),
        }
    }

    fn data(&mut self, head: Head, payload: &[u8], out: &mut WriteBuffer) -> Result<(), Fault> {
        if head.stream == 0 {
            return protocol("data on no stream");
        }
        if !self.receive.spend(head.len) {
            return Err(Fault(
                Reason::FlowControl,
                "more data than the window allows",
            ));
        }
        let Some(octets) = frame::unpadded(head, payload) else {
            return protocol("more padding than data");
        };
        let Some(at) = self.stream(head.stream) else {
            if head.stream > self.last {
                return protocol("data on a stream that did not begin");
            }
            self.give_back(head.len as u32, out);
            // What was under way when we reset it.
            return match self.reset.contains(&head.stream) {
                true => self.limits.idle(),
                false => self.fail(head.stream, Reason::StreamClosed, out),
            };
        };
        let stream = &mut self.streams[at];
        let padding = (head.len - octets.len()) as u32;
        // Counts as taken: what is given back for the stream is given back for the connection.
        stream.input.taken += padding;
        let end = head.has(frame::END_STREAM);
        let length = match stream.length {
            Some(length) => length.checked_sub(octets.len() as u64).map(Some),
            None => Some(None),
        };
        let bad = if stream.input.ended {
            Some(Reason::StreamClosed)
        } else if !stream.receive.spend(head.len) {
            Some(Reason::FlowControl)
        } else if length.is_none() || end && length.flatten().is_some_and(|left| left > 0) {
            Some(Reason::Protocol)
        } else {
            None
        };
        if let Some(reason) = bad {
            // It is not among what the stream gives back.
            self.give_back(octets.len() as u32, out);
            return self.fail(head.stream, reason, out);
        }
        stream.length = length.flatten();
        stream.input.octets.extend_from_slice(octets);
        stream.input.ended = end;
        self.limits.data(octets.len(), end)
    }

    fn headers<S: Service<Call = C>>(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut WriteBuffer,
        service: &mut S,
    ) -> Result<(), Fault> {
        if head.stream.is_multiple_of(2) {
            return protocol("headers on a stream that clients do not begin");
        }
        let Some(mut octets) = frame::unpadded(head, payload) else {
            return protocol("more padding than headers");
        };
        let mut selfish = false;
        if head.has(frame::WITH_PRIORITY) {
            let Some((priority, rest)) = octets.split_at_checked(5) else {
                return size("headers without their priority");
            };
            selfish = depends(priority) == head.stream;
            octets = rest;
        }
        let known = self.stream(head.stream).is_some() || self.reset.contains(&head.stream);
        if head.stream <= self.last && !known {
            return Err(Fault(
                Reason::StreamClosed,
                "headers on a stream that has ended",
            ));
        }
        if head.has(frame::END_HEADERS) {
            return self.block(head, octets, selfish, out, service);
        }
        self.block = Some(Box::new(Block {
            head,
            octets: octets.to_vec(),
            frames: 1,
            selfish,
        }));
        Ok(())
    }

    fn continuation<S: Service<Call = C>>(
        &mut self,
        payload: &[u8],
        head: Head,
        out: &mut WriteBuffer,
        service: &mut S,
    ) -> Result<(), Fault> {
        let Some(mut block) = self.block.take() else {
            return protocol("a header block that goes on without a beginning");
        };
        block.frames += 1;
        Limits::block(block.frames)?;
        if block.octets.len() + payload.len() > MAX_LIST {
            return Err(Fault(
                Reason::EnhanceYourCalm,
                "a header block that is too large",
            ));
        }
        block.octets.extend_from_slice(payload);
        if head.has(frame::END_HEADERS) {
            return self.block(block.head, &block.octets, block.selfish, out, service);
        }
        self.block = Some(block);
        Ok(())
    }

    /// A whole header block.
    fn block<S: Service<Call = C>>(
        &mut self,
        head: Head,
        octets: &[u8],
        selfish: bool,
        out: &mut WriteBuffer,
        service: &mut S,
    ) -> Result<(), Fault> {
        let mut fields = Fields::default();
        let decoded = self
            .decoder
            .decode(octets, |name, value| fields.push(name, value));
        if decoded.is_err() {
            return Err(Fault(
                Reason::Compression,
                "a header block that cannot be read",
            ));
        }
        let (id, end) = (head.stream, head.has(frame::END_STREAM));
        if id <= self.last {
            return self.trailers(id, end && !selfish, fields, out);
        }
        self.last = id;
        self.limits.call()?;
        if self.draining || self.streams.len() >= MAX_STREAMS {
            return self.fail(id, Reason::RefusedStream, out);
        }
        if selfish {
            return self.fail(id, Reason::Protocol, out);
        }
        let (request, length) = match fields.request() {
            Ok(request) => request,
            Err(Bad::Malformed) => return self.fail(id, Reason::Protocol, out),
            Err(Bad::TooLarge) => {
                self.put_status(id, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, out);
                return self.limits.vain();
            }
        };
        if end && length.is_some_and(|length| length > 0) {
            return self.fail(id, Reason::Protocol, out);
        }
        self.streams.push(Stream {
            id,
            input: Input {
                ended: end,
                ..Input::default()
            },
            call: service.call(request),
            window: SendWindow::new(self.stream_window),
            receive: ReceiveWindow::new(flow::INITIAL),
            length,
            rest: None,
        });
        Ok(())
    }

    fn trailers(
        &mut self,
        id: u32,
        end: bool,
        fields: Fields,
        out: &mut WriteBuffer,
    ) -> Result<(), Fault> {
        let Some(at) = self.stream(id) else {
            // What was under way when we reset it.
            return self.limits.idle();
        };
        let input = &mut self.streams[at].input;
        if input.ended {
            return self.fail(id, Reason::StreamClosed, out);
        }
        if !end || fields.trailers().is_err() {
            return self.fail(id, Reason::Protocol, out);
        }
        input.ended = true;
        Ok(())
    }

    fn priority(&mut self, head: Head, payload: &[u8], out: &mut WriteBuffer) -> Result<(), Fault> {
        if head.stream == 0 {
            return protocol("a priority of no stream");
        }
        self.limits.idle()?;
        if payload.len() != 5 {
            return self.fail(head.stream, Reason::FrameSize, out);
        }
        match depends(payload) == head.stream {
            true => self.fail(head.stream, Reason::Protocol, out),
            false => Ok(()),
        }
    }

    fn reset(&mut self, head: Head, payload: &[u8], out: &mut WriteBuffer) -> Result<(), Fault> {
        if payload.len() != 4 {
            return size("a reset that is not of 4 octets");
        }
        if head.stream == 0 || head.stream > self.last {
            return protocol("a reset of a stream that did not begin");
        }
        match self.stream(head.stream) {
            Some(at) => {
                self.remove(at, out);
                self.limits.vain()
            }
            None => self.limits.idle(),
        }
    }

    fn settings(&mut self, head: Head, payload: &[u8], out: &mut WriteBuffer) -> Result<(), Fault> {
        if head.stream != 0 {
            return protocol("settings of a stream");
        }
        self.limits.settings(payload.len() / 6)?;
        if head.has(frame::ACK) {
            return match payload.is_empty() {
                true => Ok(()),
                false => size("settings in the confirmation of settings"),
            };
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return size("half a setting");
        }
        for [n1, n2, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*n1, *n2]) {
                2 if value > 1 => return protocol("a push setting that is neither on nor off"),
                4 => self.initial_window(value)?,
                5 => match value as usize {
                    max @ frame::MAX_PAYLOAD..=0xff_ffff => self.max_frame = max,
                    _ => return protocol("a frame size that is not allowed"),
                },
                _ => {}
            }
        }
        out.put(|out| frame::put_head(frame::SETTINGS, frame::ACK, 0, 0, out));
        Ok(())
    }

    fn initial_window(&mut self, window: u32) -> Result<(), Fault> {
        let fault = Fault(Reason::FlowControl, "a window that is too large");
        if window > i32::MAX as u32 {
            return Err(fault);
        }
        let more = i64::from(window) - i64::from(self.stream_window);
        self.stream_window = window;
        let mut windows = self.streams.iter_mut().map(|s| &mut s.window);
        match windows.all(|w| w.add(more)) {
            true => Ok(()),
            false => Err(fault),
        }
    }

    fn pinged(&mut self, head: Head, payload: &[u8], out: &mut WriteBuffer) -> Result<(), Fault> {
        if head.stream != 0 {
            return protocol("a ping of a stream");
        }
        if payload.len() != 8 {
            return size("a ping that is not of 8 octets");
        }
        if !head.has(frame::ACK) {
            out.put(|out| frame::put_ping(frame::ACK, payload, out));
        }
        self.limits.idle()
    }

    fn gone(&mut self, head: Head, payload: &[u8]) -> Result<(), Fault> {
        if head.stream != 0 {
            return protocol("the end of a connection on a stream");
        }
        if payload.len() < 8 {
            return size("the end of a connection in less than 8 octets");
        }
        self.leaving = true;
        self.limits.idle()
    }

    fn window_update(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut WriteBuffer,
    ) -> Result<(), Fault> {
        if payload.len() != 4 {
            return size("a window update that is not of 4 octets");
        }
        self.limits.idle()?;
        let more = frame::number(payload) & 0x7fff_ffff;
        if head.stream == 0 {
            if more == 0 {
                return protocol("a window update by nothing");
            }
            return match self.window.add(i64::from(more)) {
                true => Ok(()),
                false => Err(Fault(Reason::FlowControl, "a window that is too large")),
            };
        }
        let Some(at) = self.stream(head.stream) else {
            return match head.stream > self.last {
                true => protocol("a window update of a stream that did not begin"),
                // It has ended, and the client may not know.
                false => Ok(()),
            };
        };
        if more == 0 {
            return self.fail(head.stream, Reason::Protocol, out);
        }
        match self.streams[at].window.add(i64::from(more)) {
            true => Ok(()),
            false => self.fail(head.stream, Reason::FlowControl, out),
        }
    }
}

/// The stream that a priority names.
fn depends(priority: &[u8]) -> u32 {
    frame::number(priority) & 0x7fff_ffff
}
