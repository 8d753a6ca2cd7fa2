//! How far each of the latest revisions has come.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many revisions are remembered.
const REMEMBERED: usize = 512;

/// One revision on its way to the proxies.
#[derive(Debug)]
pub struct Revision {
    /// Its number.
    pub number: u64,
    /// When the oldest of the changes behind it was noticed.
    pub since: Instant,
    responses: AtomicU64,
    /// Nanoseconds from `since` to the last response that was written.
    last_write: AtomicU64,
}

impl Revision {
    /// A response with it was given to a connection. Returns how long that was after the change.
    pub(crate) fn written(&self) -> Duration {
        let after = self.since.elapsed();
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        self.responses.fetch_add(1, Ordering::Relaxed);
        self.last_write.fetch_max(nanos, Ordering::Relaxed);
        after
    }

    /// How many responses it led to so far.
    pub fn responses(&self) -> u64 {
        self.responses.load(Ordering::Relaxed)
    }

    /// From the change to the last of them.
    pub fn last_write(&self) -> Duration {
        Duration::from_nanos(self.last_write.load(Ordering::Relaxed))
    }
}

/// The latest revisions, in order.
#[derive(Default)]
pub struct Revisions(Mutex<VecDeque<Arc<Revision>>>);

impl Revisions {
    /// A revision is about to be published; the oldest change in it was noticed at `since`.
    pub(super) fn note(&self, number: u64, since: Instant) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() == REMEMBERED {
            list.pop_front();
        }
        list.push_back(Arc::new(Revision {
            number,
            since,
            responses: AtomicU64::new(0),
            last_write: AtomicU64::new(0),
        }));
    }

    /// A revision; `None` for one that is long ago.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Revision>> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = list.binary_search_by_key(&number, |r| r.number).ok()?;
        list.get(at).cloned()
    }

    /// All that are remembered.
    pub fn all(&self) -> Vec<Arc<Revision>> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_counts_its_responses_and_knows_the_last_until_it_is_forgotten() {
        let revisions = Revisions::default();
        revisions.note(7, Instant::now() - Duration::from_secs(5));
        let revision = revisions.get(7).expect("it was noted");
        let (first, second) = (revision.written(), revision.written());
        assert!(first >= Duration::from_secs(5));
        assert_eq!((revision.responses(), revision.last_write()), (2, second));
        for number in 8..8 + REMEMBERED as u64 {
            revisions.note(number, Instant::now());
        }
        assert!(revisions.get(7).is_none());
        assert_eq!(revisions.all().len(), REMEMBERED);
    }
}
