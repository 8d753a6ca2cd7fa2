//! How far a source is.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use model::{Change, Contents, Owner};
use serde_json::{Value, json};

/// What a source is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceState {
    /// It has not said of anything that it is in sync.
    Starting,
    /// It is in sync with all but these.
    Syncing(Vec<Contents>),
    /// Everything that it holds has been reported.
    InSync,
    /// It failed, and is started again.
    Failed {
        /// Why.
        reason: String,
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
                let mut names: Vec<String> =
                    pending.iter().take(3).map(ToString::to_string).collect();
                if pending.len() > names.len() {
                    names.push(format!("{} more", pending.len() - names.len()));
                }
                format!("waiting for {}", names.join(", "))
            }
            SourceState::Failed { reason, retry_in } => {
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
                let pending = pending.iter().map(ToString::to_string);
                shown["pending"] = pending.collect();
                json!("syncing")
            }
            SourceState::Failed { reason, retry_in } => {
                shown["reason"] = json!(reason);
                shown["retryInMs"] = json!(u64::try_from(retry_in.as_millis()).unwrap_or(u64::MAX));
                json!("failed")
            }
        };
        shown
    }
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
    run: u64,
    starts: u64,
    failed: Option<(String, Instant)>,
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
            run: 0,
            starts: 0,
            failed: None,
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
        self.pending = self.collections.iter().copied().collect();
        self.was_in_sync |= self.pending.is_empty();
    }

    pub(super) fn fail(&mut self, reason: String, next: Instant) {
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
        self.was_in_sync |= self.pending.is_empty();
    }

    /// Takes in what the source must read before it reports anything.
    pub(super) fn wait_for(&mut self, awaited: Vec<Contents>) {
        self.awaited = awaited;
    }

    pub(super) fn is_run(&self, run: u64) -> bool {
        self.run == run
    }

    pub(super) fn is_in_sync(&self) -> bool {
        self.run > 0 && self.failed.is_none() && self.pending.is_empty()
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
                retry_in: next.saturating_duration_since(Instant::now()),
            },
            None if self.is_in_sync() => SourceState::InSync,
            None if !self.awaited.is_empty() => SourceState::Syncing(self.awaited.clone()),
            None if self.pending.len() == self.collections.len() => SourceState::Starting,
            None => SourceState::Syncing(self.pending.iter().copied().collect()),
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
