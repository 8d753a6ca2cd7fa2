//! Config from files, and keys of token issuers that it names.
//!
//! A source tells what it knows as [`model::Change`]s, and what it finds wrong as diagnostics; the store applies
//! them. Nothing here translates.

pub mod files;
pub mod folder;
pub mod jwks;

use model::{Change, Diagnostic, SourceId};
use tokio::sync::mpsc;

/// What a source says.
#[derive(Debug)]
pub enum Said {
    /// Changes that belong together.
    Changes(Vec<Change>),
    /// Reading what is told next took that long.
    Read(std::time::Duration),
    /// Everything that is wrong with what the source holds; replaces what it said before.
    Findings(SourceId, Vec<Diagnostic>),
}

/// Where sources speak to; full when the derive thread is behind.
pub type Sink = mpsc::Sender<Said>;
