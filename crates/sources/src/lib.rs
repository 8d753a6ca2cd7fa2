//! Config from files, and keys of token issuers that it names.
//!
//! A source reports what it reads as [`model::Change`]s, and what is wrong with it as diagnostics; the store applies
//! them. Nothing here translates.

pub mod files;
pub mod folder;
pub mod jwks;
pub mod open;

use std::time::{Duration, Instant};

use model::{Change, Diagnostic, SourceId};
use tokio::sync::mpsc;

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
}

impl SourceEvent {
    /// The changes that it carries, if any.
    pub fn changes(&self) -> &[Change] {
        match self {
            SourceEvent::Changes(changes) | SourceEvent::Read { changes, .. } => changes,
            SourceEvent::Findings(..) => &[],
        }
    }
}

/// Where sources send their events; full when the derive thread is behind.
pub type Sink = mpsc::Sender<SourceEvent>;
