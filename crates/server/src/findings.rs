//! What was found wrong with objects, by source, for logs and debug pages.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use model::{Diagnostic, SourceId};

/// The findings in force.
#[derive(Default)]
pub struct Findings(Mutex<BTreeMap<SourceId, Vec<Diagnostic>>>);

impl Findings {
    /// Replaces what a source found; returns what is new among it.
    pub fn replace(&self, source: &SourceId, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all
            .insert(source.clone(), found.clone())
            .unwrap_or_default();
        found.into_iter().filter(|d| !before.contains(d)).collect()
    }

    /// All of them, by source.
    pub fn all(&self) -> Vec<Diagnostic> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .flatten()
            .cloned()
            .collect()
    }
}
