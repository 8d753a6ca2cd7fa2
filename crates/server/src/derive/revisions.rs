//! When the changes behind each revision were handed over.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How many revisions are remembered for the time of convergence.
const REMEMBERED: usize = 512;

/// When revisions were asked for: what convergence is counted from.
#[derive(Default)]
pub struct Revisions(Mutex<VecDeque<(u64, Instant)>>);

impl Revisions {
    /// A revision is about to be published; the oldest change in it was handed over at `since`.
    pub(super) fn note(&self, revision: u64, since: Instant) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() == REMEMBERED {
            list.pop_front();
        }
        list.push_back((revision, since));
    }

    /// When the oldest change of a revision was handed over; `None` for one that is long ago.
    pub(crate) fn since(&self, revision: u64) -> Option<Instant> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.binary_search_by_key(&revision, |(r, _)| *r)
            .ok()
            .map(|at| list[at].1)
    }
}
