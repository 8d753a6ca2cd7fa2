//! How far a source is.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use model::{Change, Contents, Owner};
use serde_json::{Value, json};
use source_api::{Refusal, Standing};

use crate::debug::time;

/// How many of several are listed in one line.
const LISTED: usize = 3;

/// What a source is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceState {
    /// It has not said of anything that it is in sync.
    Starting,
    /// It is in sync with all but these.
    Syncing(Vec<Contents>),
    /// Everything that it holds has been reported.
    InSync,
    /// What it has is in force as it was kept, and its origin has not answered about these yet.
    Kept(Vec<Contents>),
    /// It refused what its origin sent.
    Refusing {
        /// What it refused.
        refused: Vec<Refusal>,
        /// What it is not in sync with besides.
        pending: Vec<Contents>,
    },
    /// It failed, and is started again.
    Failed {
        /// Why.
        reason: String,
        /// Since when it has failed without being in sync in between.
        since: SystemTime,
        /// When it is tried again.
        retry_in: Duration,
    },
}

/// A source, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceStatus {
    /// Which.
    pub owner: Owner,
    /// What it is doing.
    pub state: SourceState,
    /// How often it was started.
    pub starts: u64,
    /// How often it failed.
    pub failures: u64,
    /// Whether it has ever been in sync. Until then it holds up the start, unless it is late.
    pub was_in_sync: bool,
    /// Whether it was not in sync in the time that the start waits for it.
    pub is_late: bool,
}

impl SourceStatus {
    /// The state in words, for one line.
    pub fn words(&self) -> String {
        match &self.state {
            SourceState::Starting => "starting".to_owned(),
            SourceState::InSync => "in sync".to_owned(),
            SourceState::Syncing(pending) => {
                format!(
                    "waiting for {}",
                    some(pending.iter().map(ToString::to_string))
                )
            }
            SourceState::Kept(pending) => {
                let pending = some(pending.iter().map(ToString::to_string));
                format!("in force as it was kept, waiting for {pending}")
            }
            SourceState::Refusing { refused, .. } => {
                let refused = refused.iter();
                let refused =
                    refused.map(|r| format!("{} since {} ({})", r.of, time(r.since), r.why));
                format!("refused {}", some(refused))
            }
            SourceState::Failed {
                reason, retry_in, ..
            } => {
                format!(
                    "failed: {reason}; next try in {:.1} s",
                    retry_in.as_secs_f64()
                )
            }
        }
    }

    /// As the debug page shows it.
    pub fn json(&self) -> Value {
        let mut shown = json!({
            "source": self.owner.source.to_string(),
            "rank": self.owner.source.rank,
            "starts": self.starts,
            "failures": self.failures,
        });
        if let Some(cluster) = &self.owner.cluster {
            shown["cluster"] = json!(cluster.as_str());
        }
        shown["state"] = match &self.state {
            SourceState::Starting => json!("starting"),
            SourceState::InSync => json!("in sync"),
            SourceState::Syncing(pending) => {
                shown["pending"] = names(pending);
                json!("syncing")
            }
            SourceState::Kept(pending) => {
                shown["pending"] = names(pending);
                json!("kept")
            }
            SourceState::Refusing { refused, pending } => {
                if !pending.is_empty() {
                    shown["pending"] = names(pending);
                }
                let refused = refused.iter();
                let refused =
                    refused.map(|r| json!({"type": r.of, "since": time(r.since), "reason": r.why}));
                shown["refused"] = refused.collect();
                json!("refused")
            }
            SourceState::Failed {
                reason,
                since,
                retry_in,
            } => {
                shown["reason"] = json!(reason);
                shown["since"] = json!(time(*since));
                shown["retryInMs"] = json!(u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX));
                json!("failed")
            }
        };
        shown
    }
}

fn names(contents: &[Contents]) -> Value {
    contents.iter().map(ToString::to_string).collect()
}

/// The first few, for one line.
fn some(all: impl ExactSizeIterator<Item = String>) -> String {
    let count = all.len();
    let mut listed: Vec<String> = all.take(LISTED).collect();
    if count > listed.len() {
        listed.push(format!("{} more", count - listed.len()));
    }
    listed.join(", ")
}

/// How long a source holds up the start.
pub(super) enum Wait {
    Until(Instant),
    Forever,
}

/// How far a source is.
pub(super) struct Progress {
    /// All that it reports.
    collections: Vec<Contents>,
    /// What it is not in sync with.
    pending: BTreeSet<Contents>,
    /// What it must read before it reports anything.
    awaited: Vec<Contents>,
    /// How far what it reported is what its origin has.
    standing: Standing,
    run: u64,
    starts: u64,
    failed: Option<(String, Instant)>,
    /// Since when it has failed without being in sync in between.
    failing_since: Option<SystemTime>,
    failures: u64,
    was_in_sync: bool,
    /// When the start stops to wait for it.
    deadline: Option<Instant>,
}

impl Progress {
    pub(super) fn new(collections: Vec<Contents>, patience: Option<Duration>) -> Self {
        Self {
            pending: collections.iter().copied().collect(),
            collections,
            awaited: Vec::new(),
            standing: Standing::default(),
            run: 0,
            starts: 0,
            failed: None,
            failing_since: None,
            failures: 0,
            was_in_sync: false,
            deadline: patience.map(|patience| Instant::now() + patience),
        }
    }

    /// A run begins: everything is reported again.
    pub(super) fn begin(&mut self, run: u64) {
        self.run = run;
        self.starts += 1;
        self.failed = None;
        self.awaited.clear();
        self.standing = Standing::default();
        self.pending = self.collections.iter().copied().collect();
        self.note_sync();
    }

    /// Notes that everything was reported, if it was.
    fn note_sync(&mut self) {
        if self.pending.is_empty() {
            self.was_in_sync = true;
            self.failing_since = None;
        }
    }

    pub(super) fn fail(&mut self, reason: String, next: Instant) {
        self.failing_since.get_or_insert_with(SystemTime::now);
        self.failed = Some((reason, next));
        self.failures += 1;
    }

    /// Takes in that collections are told anew or in sync.
    pub(super) fn step(&mut self, steps: &[Change]) {
        for step in steps {
            match step {
                Change::Restart(collection) if self.collections.contains(&collection.of) => {
                    self.pending.insert(collection.of);
                }
                Change::Synced(collection) => _ = self.pending.remove(&collection.of),
                _ => {}
            }
        }
        self.note_sync();
    }

    /// Takes in what the source must read before it reports anything.
    pub(super) fn wait_for(&mut self, awaited: Vec<Contents>) {
        self.awaited = awaited;
    }

    /// Takes in how far what the source reported is what its origin has.
    pub(super) fn stand(&mut self, standing: Standing) {
        self.standing = standing;
    }

    pub(super) fn is_run(&self, run: u64) -> bool {
        self.run == run
    }

    pub(super) fn is_in_sync(&self) -> bool {
        let Standing { kept, refused } = &self.standing;
        let stands = kept.is_empty() && refused.is_empty();
        self.run > 0 && self.failed.is_none() && self.pending.is_empty() && stands
    }

    /// What is missing: what the source must read before it reports anything, or else what it has not reported, or only as it
    /// was kept.
    fn missing(&self) -> Vec<Contents> {
        if !self.awaited.is_empty() {
            return self.awaited.clone();
        }
        let pending = self.pending.iter().chain(&self.standing.kept);
        let pending: BTreeSet<Contents> = pending.copied().collect();
        pending.into_iter().collect()
    }

    /// Whether it holds up the start, and how long at most.
    pub(super) fn holds_up(&self, now: Instant) -> Option<Wait> {
        match (self.was_in_sync, self.deadline) {
            (true, _) => None,
            (false, None) => Some(Wait::Forever),
            (false, Some(deadline)) => (now < deadline).then_some(Wait::Until(deadline)),
        }
    }

    pub(super) fn status(&self, owner: &Owner) -> SourceStatus {
        let state = match &self.failed {
            Some((reason, next)) => SourceState::Failed {
                reason: reason.clone(),
                since: self.failing_since.unwrap_or_else(SystemTime::now),
                retry_in: next.saturating_duration_since(Instant::now()),
            },
            None if self.is_in_sync() => SourceState::InSync,
            None if !self.standing.refused.is_empty() => SourceState::Refusing {
                refused: self.standing.refused.clone(),
                pending: self.missing(),
            },
            None if !self.awaited.is_empty() => SourceState::Syncing(self.missing()),
            None if !self.standing.kept.is_empty() => SourceState::Kept(self.missing()),
            None if self.pending.len() == self.collections.len() => SourceState::Starting,
            None => SourceState::Syncing(self.missing()),
        };
        SourceStatus {
            owner: owner.clone(),
            state,
            starts: self.starts,
            failures: self.failures,
            was_in_sync: self.was_in_sync,
            is_late: !self.was_in_sync && self.deadline.is_some_and(|d| d <= Instant::now()),
        }
    }
}
