//! What a client may make a connection do without getting on with anything.

use std::time::{Duration, Instant};

use crate::frame::Reason;
use crate::state::Fault;

/// Frames in a [`PERIOD`] that say nothing or next to nothing: settings, pings, priorities, window updates, data of fewer
/// than [`LITTLE`] octets. What the client is sent earns some back ([`Limits::sent`]); what it sends earns none, or a
/// flood would only have to be mixed with it.
const IDLE: u32 = 10_000;
/// Data of fewer octets than these, and not the end of its stream, counts as nothing. A gRPC message has five in front.
const LITTLE: usize = 32;
/// Frames that a client may send for each frame of data that it was sent: window updates, and a ping to measure with. Frames
/// that its window has cut short do not count, or it would earn by making room octet by octet.
const FOR_EACH: u32 = 4;
/// Calls in a [`PERIOD`] that a client gives up, or that break off because of what it did. Calls that end as they should
/// earn none back: a client could make as many of both.
const VAIN: u32 = 200;
/// Calls that a client may begin in a [`PERIOD`]. They are long here, and few.
const CALLS: u32 = 2_000;
/// A client that is idle for weeks sends a ping now and then, and one that gives up every call does so now and then.
const PERIOD: Duration = Duration::from_secs(60);
/// Frames that a header block may be in.
const BLOCK_FRAMES: u32 = 16;
/// Settings that one frame may have. There are seven; each may concern every stream.
const SETTINGS: usize = 64;

/// Counts them. The time is asked when there are too many: within a period there may be twice as many.
#[derive(Debug)]
pub(crate) struct Limits {
    idle: u32,
    vain: u32,
    calls: u32,
    since: Instant,
}

impl Limits {
    pub(crate) fn new() -> Self {
        Self {
            idle: 0,
            vain: 0,
            calls: 0,
            since: Instant::now(),
        }
    }

    /// A frame that says nothing.
    pub(crate) fn idle(&mut self) -> Result<(), Fault> {
        self.idle += 1;
        self.unless(self.idle > IDLE, "too many frames that say nothing")
    }

    /// Data of so many octets.
    pub(crate) fn data(&mut self, octets: usize, end: bool) -> Result<(), Fault> {
        match octets < LITTLE && !end {
            true => self.idle(),
            false => Ok(()),
        }
    }

    /// The client was sent a frame of data that is as long as it could be.
    pub(crate) fn sent(&mut self) {
        self.idle = self.idle.saturating_sub(FOR_EACH);
    }

    /// A call begins, or is refused.
    pub(crate) fn call(&mut self) -> Result<(), Fault> {
        self.calls += 1;
        self.unless(self.calls > CALLS, "too many calls")
    }

    /// A call that was given up or refused.
    pub(crate) fn vain(&mut self) -> Result<(), Fault> {
        self.vain += 1;
        self.unless(self.vain > VAIN, "too many calls that are given up")
    }

    /// Fine unless there are too many, and the period is not over; if it is, another begins.
    fn unless(&mut self, many: bool, what: &'static str) -> Result<(), Fault> {
        if !many {
            return Ok(());
        }
        let now = Instant::now();
        if now.duration_since(self.since) < PERIOD {
            return Err(Fault(Reason::EnhanceYourCalm, what));
        }
        (self.idle, self.vain, self.calls, self.since) = (0, 0, 0, now);
        Ok(())
    }

    /// A frame with so many settings.
    pub(crate) fn settings(&mut self, count: usize) -> Result<(), Fault> {
        if count > SETTINGS {
            return Err(Fault(Reason::EnhanceYourCalm, "too many settings"));
        }
        self.idle()
    }

    /// A header block that goes on in another frame, its number being this.
    pub(crate) fn block(frames: u32) -> Result<(), Fault> {
        match frames > BLOCK_FRAMES {
            true => Err(Fault(
                Reason::EnhanceYourCalm,
                "a header block of too many frames",
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_often_at_once_is_not_over_weeks() {
        let mut limits = Limits::new();
        let later = |limits: &mut Limits| {
            limits.since = limits.since.checked_sub(PERIOD).unwrap();
        };
        for _ in 0..3 {
            assert!((0..IDLE).all(|_| limits.idle().is_ok()));
            later(&mut limits);
            assert!((0..VAIN).all(|_| limits.vain().is_ok()));
            later(&mut limits);
            assert!((0..CALLS).all(|_| limits.call().is_ok()));
            later(&mut limits);
        }
        let mut limits = Limits::new();
        assert!((0..VAIN).all(|_| limits.vain().is_ok()));
        assert!((0..CALLS).all(|_| limits.call().is_ok()));
        assert!((0..IDLE).all(|_| limits.idle().is_ok()));
        assert!(limits.vain().is_err());
        assert!(limits.call().is_err());
        assert!(limits.idle().is_err());
    }

    #[test]
    fn only_what_is_sent_to_a_client_earns_frames_back() {
        let mut limits = Limits::new();
        for _ in 0..10 * IDLE {
            assert!((0..FOR_EACH).all(|_| limits.idle().is_ok()));
            limits.sent();
        }
        assert!((0..IDLE).all(|_| limits.idle().is_ok() && limits.data(LITTLE, false).is_ok()));
        assert!(limits.data(0, true).is_ok());
        assert!(limits.data(LITTLE - 1, false).is_err());
    }
}
