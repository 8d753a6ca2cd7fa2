//! The contract between sources of configuration and whoever runs them.
//!
//! A source reports what it reads as [`model::Change`]s, and what is wrong with it as diagnostics; the store applies
//! them.

pub mod backoff;
pub mod object;
mod sink;

use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

use model::{Change, Contents, Diagnostic, Owner, SourceId};
use tokio_util::sync::CancellationToken;

pub use sink::{Closed, Delivery, Part, Room, Sink};

/// What a source reports.
#[derive(Debug)]
pub enum SourceEvent {
    /// Changes that belong together.
    Changes(Vec<Change>),
    /// Changes that belong together, and had to be read.
    Read {
        /// The changes.
        changes: Vec<Change>,
        /// When it was known that there is something to read.
        noticed: Instant,
        /// How long reading took.
        took: Duration,
    },
    /// Everything that is wrong with what the source holds; replaces its earlier findings.
    Findings(SourceId, Vec<Diagnostic>),
    /// What it must read before it reports anything that it has; replaces what it said of that before. Nothing when it reports.
    Waits(Vec<Contents>),
    /// How far what it reported is what its origin has; replaces what it said of that before.
    Stands(Standing),
}

/// How far what a source reported is what its origin has. What was reported is in force either way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// What was kept from an earlier connection or process, and not answered since.
    pub kept: Vec<Contents>,
    /// What its origin sent and the source refused.
    pub refused: Vec<Refusal>,
}

/// Something that a source was sent and refused: what it had before stays in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The type that it was about.
    pub of: String,
    /// Why the newest of it was refused.
    pub why: String,
    /// Since when everything of the type has been refused.
    pub since: SystemTime,
}

impl SourceEvent {
    /// The changes that it carries, if any.
    pub fn changes(&self) -> &[Change] {
        match self {
            SourceEvent::Changes(changes) | SourceEvent::Read { changes, .. } => changes,
            SourceEvent::Findings(..) | SourceEvent::Waits(_) | SourceEvent::Stands(_) => &[],
        }
    }
}

/// A source that is being run.
pub type Running = Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>>;

/// Something that configuration comes from. Whoever runs it starts it again when it fails.
pub trait Source: Send {
    /// Whose objects it reports. It speaks for nobody else.
    fn owner(&self) -> &Owner;

    /// What it reports whole: it is in sync when it has said so of each of these.
    fn collections(&self) -> Vec<Contents> {
        Contents::all().collect()
    }

    /// Reports everything and says of each collection when that is done, then reports each change, until `stop`.
    ///
    /// What was reported stays in force when this ends with an error or panics. The next run reports everything again.
    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running;
}

/// Why a source cannot go on.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SourceError(Box<dyn std::error::Error + Send + Sync>);

impl SourceError {
    /// For a reason.
    pub fn new(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }
}

impl From<Closed> for SourceError {
    fn from(closed: Closed) -> Self {
        Self::new(closed)
    }
}
