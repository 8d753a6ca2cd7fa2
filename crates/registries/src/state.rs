//! How a registry is, for pages and metrics.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::keeper::Figures;

/// How a registry is. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct State(Arc<Mutex<Health>>);

/// How a registry is.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Whether it answers.
    pub connected: bool,
    /// Whether all that it has was told once.
    pub was_whole: bool,
    /// What is held of it.
    pub figures: Figures,
    /// When it answered last, where it ever did.
    pub answered: Option<Instant>,
    /// How long it took until the latest reports were handed on.
    pub lag: Duration,
    /// Reports so far.
    pub reports: u64,
    /// How often it was lost.
    pub failures: u64,
    /// Why it was lost last.
    pub error: Option<Arc<str>>,
}

impl State {
    /// As it is now.
    pub fn get(&self) -> Health {
        self.lock().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
