//! What a client may make a connection do without getting on with anything.

use crate::frame::Reason;
use crate::state::Fault;

/// Frames that say nothing (settings, pings, priorities, window updates, empty data) between two that do.
const IDLE: u32 = 10_000;
/// Calls that a client gives up, or begins in vain, beyond those that end as they should.
const VAIN: u32 = 200;
/// Frames that a header block may be in.
const BLOCK_FRAMES: u32 = 16;

/// Counts them.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    idle: u32,
    vain: u32,
}

impl Limits {
    /// A frame that says nothing.
    pub(crate) fn idle(&mut self) -> Result<(), Fault> {
        self.idle += 1;
        match self.idle > IDLE {
            true => Err(Fault(
                Reason::EnhanceYourCalm,
                "too many frames that say nothing",
            )),
            false => Ok(()),
        }
    }

    /// A frame that does.
    pub(crate) fn busy(&mut self) {
        self.idle = 0;
    }

    /// A call that was given up or refused.
    pub(crate) fn vain(&mut self) -> Result<(), Fault> {
        self.vain += 1;
        match self.vain > VAIN {
            true => Err(Fault(
                Reason::EnhanceYourCalm,
                "too many calls that are given up",
            )),
            false => Ok(()),
        }
    }

    /// A call that ended as it should.
    pub(crate) fn done(&mut self) {
        self.vain = self.vain.saturating_sub(1);
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
