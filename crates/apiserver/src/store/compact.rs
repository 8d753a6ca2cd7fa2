//! Dropping what the ledger need not keep.

use std::sync::PoisonError;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::disk::{Entries, Entry, KEY_OLDEST, META, failed};
use super::writer::{Tables, Writer};
use super::{Keep, StoreError};

/// The most revisions that are dropped in one transaction.
const DROP: usize = 2_000;
/// The ledger may be longer than wanted by this share, so that dropping is not done for each write.
const SLACK: usize = 50;
/// How long a clock must have run evenly before revisions are dropped for their age. A clock that jumps ahead, or is wrong at
/// the start, can be set right in this time, and nothing is lost.
const EVEN: Duration = Duration::from_secs(24 * 3600);
/// How far a clock may be from running evenly.
const TOLERANCE: Duration = Duration::from_secs(300);

/// What the time is, by two clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// Milliseconds since the epoch; may be set by anybody at any time.
    pub(super) wall_ms: u64,
    /// Since some moment; never set.
    pub(super) steady: Duration,
}

/// Tells the time.
pub(super) struct Clock(pub(super) Box<dyn Fn() -> Now + Send>);

impl Clock {
    /// The clocks of the system.
    pub(super) fn system() -> Self {
        let start = Instant::now();
        Self(Box::new(move || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            Now {
                wall_ms: since.map_or(0, millis),
                steady: start.elapsed(),
            }
        }))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The revisions of the ledger, and how much of it is kept.
pub(super) struct Ledger {
    entries: Entries,
    bytes: u64,
    keep: Keep,
    clock: Clock,
    /// Since when the clock runs evenly.
    even: Now,
}

impl Ledger {
    pub(super) fn new(entries: Entries, keep: Keep, clock: Clock) -> Self {
        let even = (clock.0)();
        let mut ledger = Self {
            entries: Entries::new(),
            bytes: 0,
            keep,
            clock,
            even,
        };
        ledger.replace(entries);
        ledger
    }

    /// Takes what the file holds for what is known.
    pub(super) fn replace(&mut self, entries: Entries) {
        self.entries = Entries::new();
        self.bytes = 0;
        self.extend(entries);
    }

    pub(super) fn extend(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.bytes += u64::from(entry.bytes);
            self.entries.push_back(entry);
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        (self.clock.0)().wall_ms
    }

    /// The time before which revisions are dropped for their age; none while the clock is not to be trusted.
    fn oldest_ms(&mut self) -> Option<u64> {
        let now = (self.clock.0)();
        let steady = now.steady.saturating_sub(self.even.steady);
        let expected = self.even.wall_ms.saturating_add(millis(steady));
        if now.wall_ms.abs_diff(expected) > millis(TOLERANCE) {
            self.even = now;
            return None;
        }
        (steady >= EVEN).then(|| now.wall_ms.saturating_sub(millis(self.keep.age)))
    }
}

impl Writer {
    /// Drops the oldest revisions while there are more than wanted.
    pub(super) fn compact(&mut self) -> Result<(), StoreError> {
        let keep = self.ledger.keep;
        let most = keep.revisions;
        // A clock that cannot be trusted makes nothing old.
        let before = self.ledger.oldest_ms().unwrap_or(0);
        let slack = (most / SLACK).min(DROP);
        let old = |e: &Entry| e.time_ms.saturating_add(60_000) < before;
        let wanted = self.ledger.entries.len() > most + slack
            || self.ledger.bytes > keep.bytes + keep.bytes / SLACK as u64
            || self.ledger.entries.front().is_some_and(old);
        if !wanted {
            return Ok(());
        }
        let transaction = self.disk.write()?;
        let mut oldest = 0;
        let mut dropped = 0;
        let mut left = self.ledger.bytes;
        {
            let mut tables = Tables::open(&transaction)?;
            for entry in self.ledger.entries.iter().take(DROP) {
                let more = self.ledger.entries.len() - dropped > most;
                if !(more || left > keep.bytes || entry.time_ms < before) {
                    break;
                }
                self.drop_revision(entry.revision, &mut tables)?;
                oldest = entry.revision;
                left -= u64::from(entry.bytes);
                dropped += 1;
            }
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert(KEY_OLDEST, oldest).map_err(failed)?;
        }
        if dropped == 0 {
            return transaction.abort().map_err(failed);
        }
        transaction.commit().map_err(failed)?;
        self.ledger.entries.drain(..dropped);
        self.ledger.bytes = left;
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.oldest = oldest;
        Ok(())
    }

    /// Drops a revision, unless a later one of the same object needs it; and what only this one needed.
    fn drop_revision(&self, revision: u64, tables: &mut Tables<'_>) -> Result<(), StoreError> {
        let Some(head) = tables.head(revision)? else {
            return Ok(());
        };
        let key = head.key();
        if head.before != 0 {
            tables.remove(&key, head.before)?;
        }
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let now = memory.get(&head.resource.as_str().into(), &head.id());
        let is_newest = now.is_some_and(|now| now.revision == revision);
        drop(memory);
        if head.deleted || is_newest {
            tables.remove(&key, revision)?;
        }
        Ok(())
    }
}
