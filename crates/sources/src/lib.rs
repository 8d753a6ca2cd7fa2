//! Config from files, and keys of token issuers that it names.
//!
//! A source tells what it knows as [`model::Change`]s, and what it finds wrong as diagnostics; the store applies
//! them. Nothing here translates.

pub mod files;
pub mod folder;
pub mod jwks;
pub mod open;

use std::time::{Duration, Instant};

use model::{Change, Diagnostic, SourceId};
use tokio::sync::mpsc;

/// What a source says.
#[derive(Debug)]
pub enum Said {
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
    /// Everything that is wrong with what the source holds; replaces what it said before.
    Findings(SourceId, Vec<Diagnostic>),
}

impl Said {
    /// The changes, if it is some.
    pub fn changes(&self) -> &[Change] {
        match self {
            Said::Changes(changes) | Said::Read { changes, .. } => changes,
            Said::Findings(..) => &[],
        }
    }
}

/// Where sources speak to; full when the derive thread is behind.
pub type Sink = mpsc::Sender<Said>;
