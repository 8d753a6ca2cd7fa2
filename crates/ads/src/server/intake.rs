//! Requests of one stream out of what the client sent of its body.
//!
//! What is whole is taken as it comes. A request that is not whole is taken when there is a place for all of it
//! ([`Link::claim`]), which is known from its first five bytes; until then it stays where the client's window bounds
//! it. It has to be finished in time, and so does the first of a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use http2::Input;
use tokio::time::Sleep;

use super::frames::{Frames, HEADER};
use super::link::{Link, RequestSlot};
use crate::status::{Code, Status};

/// How often a place is looked for.
const AGAIN: Duration = Duration::from_millis(50);
/// How many times. Requests that wait share their connection's window with the others of it, so it cannot be for long.
const TIMES: u8 = 100;

/// What [`Intake::fill`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filled {
    /// Something that [`Intake::pop`] should look at.
    Some,
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come.
    Over,
}

/// The requests of a stream.
#[derive(Debug)]
pub(super) struct Intake {
    frames: Frames,
    claim: Option<RequestSlot>,
    /// Since when a request is awaited that is due.
    awaited: Option<u32>,
    /// When a place is looked for again, and how many times it was.
    again: Option<(Pin<Box<Sleep>>, u8)>,
}

impl Intake {
    /// Refuses requests of more than `max` bytes. The first is awaited from the tick `now` on.
    pub(super) fn new(max: usize, now: u32) -> Self {
        Self {
            frames: Frames::new(max),
            claim: None,
            awaited: Some(now),
            again: None,
        }
    }

    /// Takes requests of up to `max` bytes, or as large as before.
    pub(super) fn allow(&mut self, max: usize) {
        self.frames.allow(max);
    }

    /// The next whole request.
    ///
    /// # Errors
    /// The client's: a compressed request, or one that is too large.
    pub(super) fn pop(&mut self) -> Result<Option<Bytes>, Status> {
        let popped = self.frames.pop()?;
        if popped.is_some() {
            self.claim = None;
            self.awaited = None;
        }
        Ok(popped)
    }

    /// Takes what came, when [`Intake::pop`] has nothing.
    ///
    /// # Errors
    /// The client's, which took longer than `limit` ticks for a request.
    pub(super) fn fill(
        &mut self,
        input: &mut Input,
        link: &Arc<Link>,
        limit: u32,
        cx: &mut Context<'_>,
    ) -> Result<Filled, Status> {
        let count = match self.frames.lacks() {
            Some(lacks) => lacks,
            None => match self.frames.cut(input.peek()) {
                Cut::Whole(count) => count,
                Cut::Part(bytes) if self.claims(bytes, link, cx)? => bytes,
                Cut::Part(_) | Cut::Beginning => 0,
            },
        };
        if let Some(data) = input.take_up_to(count) {
            self.frames.push(data);
            return Ok(Filled::Some);
        }
        if input.is_over() {
            return Ok(Filled::Over);
        }
        let begun = self.frames.lacks().is_some() || !input.peek().is_empty();
        if begun || self.awaited.is_some() {
            self.awaits(link, limit)?;
        }
        Ok(Filled::Nothing)
    }

    /// Whether there is a place for a request of so many bytes. Looks again later if there is none, some times.
    fn claims(
        &mut self,
        bytes: usize,
        link: &Arc<Link>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Status> {
        loop {
            self.claim = link.claim(bytes);
            if self.claim.is_some() {
                self.again = None;
                return Ok(true);
            }
            let first = || (Box::pin(tokio::time::sleep(AGAIN)), 1);
            let (wait, times) = self.again.get_or_insert_with(first);
            if wait.as_mut().poll(cx).is_pending() {
                return Ok(false);
            }
            if *times == TIMES {
                let message =
                    format!("no room for a request of {bytes} bytes: too many are under way");
                return Err(Status::new(Code::ResourceExhausted, message));
            }
            *times += 1;
            wait.set(tokio::time::sleep(AGAIN));
        }
    }

    fn awaits(&mut self, link: &Arc<Link>, limit: u32) -> Result<(), Status> {
        let now = link.now();
        let since = *self.awaited.get_or_insert(now);
        if now.wrapping_sub(since) > limit {
            return Err(Status::new(
                Code::DeadlineExceeded,
                "the request took too long to come",
            ));
        }
        link.wake_after(since, limit);
        Ok(())
    }
}

/// What pending bytes begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// So many bytes of whole requests, or what is no request at all.
    Whole(usize),
    /// A part of a request that has so many bytes, with its header.
    Part(usize),
    /// Less than a header.
    Beginning,
}

impl Frames {
    /// How these bytes begin, when nothing is kept.
    fn cut(&self, bytes: &[u8]) -> Cut {
        let mut whole = 0;
        loop {
            let rest = bytes.get(whole..).unwrap_or_default();
            let cut = match rest.first_chunk() {
                _ if whole == bytes.len() && whole > 0 => return Cut::Whole(whole),
                None => Cut::Beginning,
                Some(header) => match self.body(header) {
                    // It ends the stream when it is looked at.
                    Err(_) => return Cut::Whole(bytes.len()),
                    Ok(body) if rest.len() < HEADER + body => Cut::Part(HEADER + body),
                    Ok(body) => {
                        whole += HEADER + body;
                        continue;
                    }
                },
            };
            return if whole > 0 { Cut::Whole(whole) } else { cut };
        }
    }
}
