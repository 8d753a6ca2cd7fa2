//! What a client may make a connection do without getting on with anything.

use std::time::{Duration, Instant};

use crate::frame::Reason;
use crate::state::Fault;

/// Frames in a [`PERIOD`] that say nothing (settings, pings, priorities, window updates, empty data), unless there are some
/// between them that do.
const IDLE: u32 = 10_000;
/// Calls in a [`PERIOD`] that a client gives up, or begins in vain, beyond those that end as they should.
const VAIN: u32 = 200;
/// A client that is idle for weeks sends a ping now and then, and one that gives up every call does so now and then.
const PERIOD: Duration = Duration::from_secs(60);
/// Frames that a header block may be in.
const BLOCK_FRAMES: u32 = 16;

/// Counts them. The time is asked when there are too many: within a period there may be twice as many.
#[derive(Debug)]
pub(crate) struct Limits {
    idle: u32,
    vain: u32,
    since: Instant,
}

impl Limits {
    pub(crate) fn new() -> Self {
        Self {
            idle: 0,
            vain: 0,
            since: Instant::now(),
        }
    }

    /// A frame that says nothing.
    pub(crate) fn idle(&mut self) -> Result<(), Fault> {
        self.idle += 1;
        self.unless(self.idle > IDLE, "too many frames that say nothing")
    }

    /// A frame that does.
    pub(crate) fn busy(&mut self) {
        self.idle = 0;
    }

    /// A call that was given up or refused.
    pub(crate) fn vain(&mut self) -> Result<(), Fault> {
        self.vain += 1;
        self.unless(self.vain > VAIN, "too many calls that are given up")
    }

    /// A call that ended as it should.
    pub(crate) fn done(&mut self) {
        self.vain = self.vain.saturating_sub(1);
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
        (self.idle, self.vain, self.since) = (0, 0, now);
        Ok(())
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
        assert!((0..IDLE).all(|_| limits.idle().is_ok()));
        assert!((0..VAIN).all(|_| limits.vain().is_ok()));
        limits.since = limits.since.checked_sub(PERIOD).unwrap();
        assert!((0..IDLE).all(|_| limits.idle().is_ok()));
        limits.busy();
        assert!((0..VAIN).all(|_| limits.vain().is_ok()));
        assert!(limits.vain().is_err());
        assert!((0..IDLE).all(|_| limits.idle().is_ok()));
        assert!(limits.idle().is_err());
    }
}
