//! Which set is to be applied next, and for how long one is let be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Done, Event, Listener, Set, Sets, Touched};
use crate::pace::Pace;
use crate::place::{ObjectRef, WriteError};

/// Sets a second, and at once after a quiet time.
const PACE: (f64, u32) = (20.0, 50);
/// How often others may change the same back within the memory before they are let be.
pub(super) const ROUNDS: u32 = 5;
/// How long it is remembered that they did.
const MEMORY: Duration = Duration::from_secs(600);
/// How long they are let be first; each time twice as long.
const TRUCE: Duration = Duration::from_secs(20);
/// How long others are let be at most, and what an API refuses.
pub(super) const LONGEST_TRUCE: Duration = Duration::from_secs(3600);
/// The first pause after a failure; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after failures.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is known of a set.
struct Record {
    /// What was last tried.
    set: Arc<Set>,
    failures: u32,
    /// How often it was changed back, since when.
    rounds: (u32, Instant),
    /// Whether somebody changed it since.
    touched: bool,
    /// Whether it has to be tried again in any case.
    again: bool,
    /// Not before then.
    hold: Instant,
    under_way: bool,
}

impl Record {
    fn is_due(&self, wanted: &Arc<Set>) -> bool {
        self.again || self.touched || !Self::same(&self.set, wanted)
    }

    fn same(one: &Arc<Set>, other: &Arc<Set>) -> bool {
        Arc::ptr_eq(one, other) || one == other
    }
}

/// Which set is next, and when.
pub(super) struct Desk {
    wanted: Sets,
    records: BTreeMap<ObjectRef, Record>,
    pace: Pace,
}

impl Desk {
    /// One that knows of nothing that was applied.
    pub(super) fn new(wanted: Sets) -> Self {
        Self {
            wanted,
            records: BTreeMap::new(),
            pace: Pace::new(PACE.0, PACE.1),
        }
    }

    /// The next set to be applied.
    pub(super) fn next_job(&mut self, now: Instant) -> Option<(ObjectRef, Arc<Set>)> {
        let is_due = |owner: &ObjectRef, set: &Arc<Set>| match self.records.get(owner) {
            None => true,
            Some(record) if record.under_way => false,
            // What is wanted anew does not wait for what was refused.
            Some(record) => {
                record.is_due(set) && (record.hold <= now || !Record::same(&record.set, set))
            }
        };
        let (owner, set) = self.wanted.iter().find(|(o, s)| is_due(o, s))?;
        let (owner, set) = (owner.clone(), set.clone());
        if !self.pace.take(now) {
            return None;
        }
        let record = self.records.entry(owner.clone()).or_insert_with(|| Record {
            set: set.clone(),
            failures: 0,
            rounds: (0, now),
            touched: false,
            again: false,
            hold: now,
            under_way: false,
        });
        if !Record::same(&record.set, &set) {
            record.rounds = (0, now);
        }
        record.set = set.clone();
        (record.under_way, record.touched, record.again) = (true, false, false);
        Some((owner, set))
    }

    /// When there may be a job.
    pub(super) fn wake(&self, now: Instant) -> Instant {
        let far = now + LONGEST_TRUCE;
        let due = self
            .wanted
            .iter()
            .filter_map(|(owner, set)| match self.records.get(owner) {
                None => Some(now),
                Some(record) if record.under_way || !record.is_due(set) => None,
                Some(record) if !Record::same(&record.set, set) => Some(now),
                Some(record) => Some(record.hold),
            });
        due.min().unwrap_or(far).max(self.pace.next()).min(far)
    }

    /// Hears that objects of these owners differ from what was applied.
    pub(super) fn touch(&mut self, owners: &BTreeSet<ObjectRef>, now: Instant) {
        for owner in owners {
            if let Some(record) = self.records.get_mut(owner) {
                record.touched = true;
                if now - record.rounds.1 > MEMORY {
                    record.rounds = (0, now);
                }
            }
        }
    }

    pub(super) fn finish(
        &mut self,
        done: Done,
        touched: &Touched,
        listener: &Listener,
        now: Instant,
    ) {
        let Done { owner, set, result } = done;
        let Some(record) = self.records.get_mut(&owner) else {
            return;
        };
        record.under_way = false;
        match result {
            Ok(None) => {
                touched.remember(&owner, Vec::new());
                let pause = (LONGEST_PAUSE * 2u32.pow(record.failures.min(16))).min(LONGEST_TRUCE);
                record.failures += 1;
                record.again = true;
                record.hold = now + pause;
            }
            Ok(Some(outcome)) => {
                record.failures = 0;
                touched.remember(&owner, outcome.applied);
                if outcome.differed {
                    record.rounds.0 += 1;
                }
                match outcome.foreign.as_slice() {
                    [] => listener(Event::Applied(&owner)),
                    foreign => listener(Event::Foreign(&owner, foreign)),
                }
                let over = record.rounds.0.saturating_sub(ROUNDS);
                if over > 0 && outcome.differed {
                    let truce = (TRUCE * 2u32.pow(over.min(16))).min(LONGEST_TRUCE);
                    listener(Event::Contended(&owner, truce));
                    record.hold = now + truce;
                } else {
                    record.hold = now;
                }
            }
            Err((_, WriteError::NotLeading)) => {
                record.again = true;
                record.hold = now + SHORTEST_PAUSE;
            }
            Err((object, error @ (WriteError::Refused(_) | WriteError::Missing))) => {
                let pause = (LONGEST_PAUSE * 2u32.pow(record.failures.min(16))).min(LONGEST_TRUCE);
                listener(Event::Refused(&owner, &object, &error, pause));
                record.failures += 1;
                record.again = true;
                record.hold = now + pause;
            }
            Err((object, error)) => {
                let pause = (SHORTEST_PAUSE * 2u32.pow(record.failures.min(16))).min(LONGEST_PAUSE);
                listener(Event::Failed(&owner, &object, &error));
                record.failures += 1;
                record.again = true;
                record.hold = now + pause;
            }
        }
        record.set = set;
    }

    /// Takes up other wants.
    pub(super) fn want(&mut self, wanted: Sets, touched: &Touched) {
        self.records.retain(|owner, _| {
            let stays = wanted.contains_key(owner);
            if !stays {
                touched.remember(owner, Vec::new());
            }
            stays
        });
        self.wanted = wanted;
    }
}
