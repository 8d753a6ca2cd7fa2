//! Runs the sources of configuration: starts and stops them at any time, and starts those again that fail.
//!
//! A source that fails or panics ends alone. What it reported stays in force until its next run is in sync, and only a
//! source that is removed takes its objects with it. Events reach the derive thread through here, so that it is known how
//! far each source is, and that each speaks for itself only.

mod health;
mod state;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Change, Diagnostic, Owner, SourceId};
use source_api::backoff::Backoff;
use source_api::{Delivery, Sink, Source, SourceError, SourceEvent};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::derive::{Closed, Derive};
use crate::metrics::Metrics;
pub use health::Stuck;
use health::{Call, Health};
use state::{Progress, Wait};
pub use state::{SourceState, SourceStatus};

/// How long a source may take to stop before it is aborted.
const GRACE: Duration = Duration::from_secs(5);

/// How long a source that failed waits. A run that lasted as long as the longest wait makes a new start of the count.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(60),
};

/// Makes a source for each of its runs. It is told whether this is the first one: a later one must not take what it cannot
/// read for empty.
pub type Make = Box<dyn FnMut(bool) -> Box<dyn Source> + Send>;

/// Takes all findings of a source, which replace its former ones.
pub type OnFindings = Box<dyn Fn(&SourceId, Vec<Diagnostic>) + Send + Sync>;

/// There is a source of this name already.
#[derive(Debug, thiserror::Error)]
#[error("there is a source {0} already")]
pub struct Duplicate(Owner);

/// The way to the sources. Clones share it.
#[derive(Clone)]
pub struct Supervisor(Arc<Shared>);

struct Shared {
    derive: Derive,
    metrics: Arc<Metrics>,
    on_findings: OnFindings,
    queue: mpsc::UnboundedSender<Delivery>,
    entries: Mutex<Entries>,
    /// Tells that some source came further.
    progressed: watch::Sender<()>,
    health: Health,
    stop: CancellationToken,
}

#[derive(Default)]
struct Entries {
    by_owner: BTreeMap<Owner, Entry>,
    runs: u64,
}

struct Entry {
    progress: Progress,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
    /// The run that is under way.
    running: Option<AbortHandle>,
    /// The last run of which something could not be taken in.
    broken: Option<u64>,
}

impl Entry {
    /// Ends the run that is under way, if it is the broken one.
    fn end_broken(&self) {
        let is_broken = self.broken.is_some_and(|run| self.progress.is_run(run));
        if let Some(running) = self.running.as_ref().filter(|_| is_broken) {
            running.abort();
        }
    }
}

impl Supervisor {
    /// A supervisor without sources, which stops all of them with `stop`.
    pub fn start(
        derive: Derive,
        metrics: Arc<Metrics>,
        on_findings: OnFindings,
        stop: CancellationToken,
    ) -> Self {
        let (queue, deliveries) = mpsc::unbounded_channel();
        let (calls, called) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            derive,
            metrics,
            on_findings,
            queue,
            entries: Mutex::default(),
            progressed: watch::Sender::new(()),
            health: Health::new(calls),
            stop,
        });
        tokio::spawn(feed(shared.clone(), deliveries, called));
        tokio::spawn(health::watch(shared.clone()));
        Self(shared)
    }

    /// Starts a source, and starts it again whenever it fails.
    ///
    /// # Errors
    ///
    /// When there is one of that owner already.
    pub fn add(&self, make: Make) -> Result<(), Duplicate> {
        self.add_patient(make, None)
    }

    /// As [`Supervisor::add`]; the start waits no longer than `patience` for the source.
    ///
    /// # Errors
    ///
    /// When there is one of that owner already.
    pub fn add_patient(&self, mut make: Make, patience: Option<Duration>) -> Result<(), Duplicate> {
        let source = make(true);
        let owner = source.owner().clone();
        let stop = self.0.stop.child_token();
        let mut entries = self.0.entries();
        if entries.by_owner.contains_key(&owner) {
            return Err(Duplicate(owner));
        }
        let entry = Entry {
            progress: Progress::new(source.collections(), patience),
            stop: stop.clone(),
            task: None,
            running: None,
            broken: None,
        };
        let entry = entries.by_owner.entry(owner.clone()).or_insert(entry);
        let supervision = supervise(self.0.clone(), owner, Some(source), make, stop);
        entry.task = Some(tokio::spawn(supervision));
        Ok(())
    }

    /// Puts another source in the place of that of the same owner. What the owner holds stays in force until the new source
    /// is in sync. Returns whether there was one.
    pub fn replace(&self, mut make: Make) -> bool {
        let owner = make(false).owner().clone();
        let stop = self.0.stop.child_token();
        let mut entries = self.0.entries();
        let Some(entry) = entries.by_owner.get_mut(&owner) else {
            return false;
        };
        let former = std::mem::replace(&mut entry.stop, stop.clone());
        former.cancel();
        let (shared, ending) = (self.0.clone(), entry.task.take());
        entry.task = Some(tokio::spawn(async move {
            if let Some(ending) = ending {
                // It has a limit of its own, and does not panic with the source.
                let _ = ending.await;
            }
            supervise(shared, owner, None, make, stop).await;
        }));
        true
    }

    /// Stops a source for good: what it holds goes with it. Returns whether there was one.
    pub async fn remove(&self, owner: &Owner) -> bool {
        // From here on nothing that it reports is taken.
        let entry = self.0.entries().by_owner.remove(owner);
        let Some(entry) = entry else {
            return false;
        };
        entry.stop.cancel();
        let gone = vec![Change::Gone(owner.clone())];
        // The process is going down if this fails.
        let _ = self.0.derive.change(gone, Instant::now()).await;
        if let Some(task) = entry.task {
            // It has a limit of its own, and does not panic with the source.
            let _ = task.await;
        }
        (self.0.on_findings)(&owner.source, Vec::new());
        self.0.metrics.sources.forget(&owner.to_string());
        self.0.progressed.send_replace(());
        true
    }

    /// What keeps changes from coming through, as far as it is known without asking.
    pub fn stuck(&self) -> Option<Stuck> {
        self.0.stuck(Instant::now())
    }

    /// Asks whether changes come through. What stands on their way has this long to answer.
    ///
    /// # Errors
    ///
    /// When they do not.
    pub async fn check(&self, patience: Duration) -> Result<(), Stuck> {
        let answer = self.0.ask(patience).await;
        // At the end of the process nothing is to come through any more.
        answer.or_else(|stuck| match self.0.stop.is_cancelled() {
            true => Ok(()),
            false => Err(stuck),
        })
    }

    /// Every source, by precedence.
    pub fn sources(&self) -> Vec<SourceStatus> {
        let entries = self.0.entries();
        let all = entries.by_owner.iter();
        all.map(|(owner, entry)| entry.progress.status(owner))
            .collect()
    }

    /// One source.
    pub fn source(&self, owner: &Owner) -> Option<SourceStatus> {
        let entries = self.0.entries();
        let entry = entries.by_owner.get(owner)?;
        Some(entry.progress.status(owner))
    }

    /// Resolves when every source that there is has been in sync, or the start waits for it no longer, and what it had
    /// reported is applied.
    ///
    /// # Errors
    ///
    /// When the process is going down.
    pub async fn synced(&self) -> Result<(), Closed> {
        let mut progressed = self.0.progressed.subscribe();
        loop {
            progressed.mark_unchanged();
            let now = Instant::now();
            let waits: Vec<Wait> = {
                let entries = self.0.entries();
                let all = entries.by_owner.values();
                all.filter_map(|e| e.progress.holds_up(now)).collect()
            };
            if waits.is_empty() {
                break;
            }
            let limited = waits.iter().filter_map(|wait| match wait {
                Wait::Until(then) => Some(*then),
                Wait::Forever => None,
            });
            let next = async {
                match limited.min() {
                    Some(then) => tokio::time::sleep_until(then.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The sender is in `self`.
                _ = progressed.changed() => {}
                () = next => {}
            }
        }
        self.0.derive.ask(|_| ()).await
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck(&self, now: Instant) -> Option<Stuck> {
        if self.stop.is_cancelled() {
            return None;
        }
        self.health.known(self.derive.has_ended(), now)
    }

    /// Takes what a source reports. Where that fails because of a bug, the source begins anew: what it said is lost.
    fn take_or_restart(&self, delivery: Delivery) -> Result<(), Closed> {
        let (owner, run) = (delivery.owner.clone(), delivery.run);
        // Nothing is left half done but in progress and findings of the source, which its next run replaces.
        let taken = catch_unwind(AssertUnwindSafe(|| self.take(delivery)));
        taken.unwrap_or_else(|_| {
            self.metrics.internal_errors.inc();
            tracing::error!(source = %owner, "What a source reported could not be taken in; it begins anew.");
            if let Some(entry) = self.entries().by_owner.get_mut(&owner) {
                entry.broken = Some(run);
                entry.end_broken();
            }
            Ok(())
        })
    }

    /// Notes the run of a source that is under way.
    fn note_running(&self, owner: &Owner, running: AbortHandle) {
        if let Some(entry) = self.entries().by_owner.get_mut(owner) {
            entry.running = Some(running);
            entry.end_broken();
        }
    }

    fn sink(&self, owner: &Owner, run: u64) -> Sink {
        Sink::new(owner.clone(), run, self.queue.clone(), self.derive.room())
    }

    /// Changes how far a source is, if there still is one.
    fn progress(&self, owner: &Owner, change: impl FnOnce(&mut Progress)) {
        let mut entries = self.entries();
        if let Some(entry) = entries.by_owner.get_mut(owner) {
            change(&mut entry.progress);
            let in_sync = entry.progress.is_in_sync();
            self.metrics.sources.set(&owner.to_string(), in_sync);
        }
        drop(entries);
        self.progressed.send_replace(());
    }

    /// The number of a new run of a source.
    fn begin(&self, owner: &Owner) -> u64 {
        let mut entries = self.entries();
        entries.runs += 1;
        let run = entries.runs;
        drop(entries);
        self.progress(owner, |progress| progress.begin(run));
        run
    }

    /// Passes on what a source reports; what an earlier run of it reports late is dropped.
    fn take(&self, delivery: Delivery) -> Result<(), Closed> {
        let Delivery {
            owner,
            run,
            event,
            room,
        } = delivery;
        let (changes, since) = match event {
            SourceEvent::Changes(changes) => (changes, Instant::now()),
            SourceEvent::Read {
                changes,
                noticed,
                took,
            } => {
                self.metrics.stages.read.observe(took.as_secs_f64());
                (changes, noticed)
            }
            SourceEvent::Findings(_, found) => {
                if self.entries().has_run(&owner, run) {
                    (self.on_findings)(&owner.source, found);
                }
                return Ok(());
            }
            SourceEvent::Waits(contents) => {
                if self.entries().has_run(&owner, run) {
                    self.progress(&owner, |progress| progress.wait_for(contents));
                }
                return Ok(());
            }
            SourceEvent::Stands(standing) => {
                if self.entries().has_run(&owner, run) {
                    self.progress(&owner, |progress| progress.stand(standing));
                }
                return Ok(());
            }
        };
        let own = |change: &Change| change.owner().is_none_or(|whose| *whose == owner);
        let changes: Vec<Change> = changes.into_iter().filter(own).collect();
        let step = |c: &&Change| matches!(c, Change::Restart(_) | Change::Synced(_));
        let steps: Vec<Change> = changes.iter().filter(step).cloned().collect();
        {
            // Held meanwhile, so that a source that is removed is not heard any more.
            let entries = self.entries();
            if !entries.has_run(&owner, run) {
                return Ok(());
            }
            self.derive.take(changes, since, room)?;
        }
        if !steps.is_empty() {
            self.progress(&owner, |progress| progress.step(&steps));
        }
        Ok(())
    }
}

impl Entries {
    fn has_run(&self, owner: &Owner, run: u64) -> bool {
        let entry = self.by_owner.get(owner);
        entry.is_some_and(|entry| entry.progress.is_run(run))
    }
}

/// Hands what sources report to the derive thread. What waits here has its room in the derive thread's queue. It ends with the
/// process only.
async fn feed(
    shared: Arc<Shared>,
    mut deliveries: mpsc::UnboundedReceiver<Delivery>,
    mut calls: mpsc::UnboundedReceiver<Call>,
) {
    loop {
        tokio::select! {
            delivery = deliveries.recv() => {
                let Some(delivery) = delivery else { return };
                if shared.take_or_restart(delivery).is_err() {
                    return;
                }
            }
            call = calls.recv() => {
                let Some(call) = call else { return };
                // Nobody waits for the answer any more if this fails.
                let _ = call.send(());
            }
            () = shared.stop.cancelled() => return,
        }
    }
}

/// Runs a source again and again until `stop`. Without a first one its owner has reported before.
async fn supervise(
    shared: Arc<Shared>,
    owner: Owner,
    mut next: Option<Box<dyn Source>>,
    mut make: Make,
    stop: CancellationToken,
) {
    let mut failures = 0;
    loop {
        let run = shared.begin(&owner);
        let sink = shared.sink(&owner, run);
        let source = match next.take() {
            Some(source) => source,
            None => {
                let restart = owner.collections().map(Change::Restart).collect();
                tokio::select! {
                    _ = sink.send(SourceEvent::Changes(restart)) => {}
                    () = stop.cancelled() => return,
                }
                make(false)
            }
        };
        let started = Instant::now();
        let Some(ended) = run_once(&shared, &owner, source, sink, &stop).await else {
            return;
        };
        if started.elapsed() >= BACKOFF.longest {
            failures = 0;
        }
        let wait = BACKOFF.wait(&owner, failures);
        failures += 1;
        report_end(&shared, &owner, &ended, wait);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
    }
}

type Ended = Result<Result<(), SourceError>, JoinError>;

/// Runs a source until it ends by itself; `None` when it was stopped.
async fn run_once(
    shared: &Shared,
    owner: &Owner,
    source: Box<dyn Source>,
    sink: Sink,
    stop: &CancellationToken,
) -> Option<Ended> {
    let token = stop.child_token();
    let mut task = tokio::spawn(async move { source.run(sink, token).await });
    shared.note_running(owner, task.abort_handle());
    tokio::select! {
        ended = &mut task => if !stop.is_cancelled() { return Some(ended) },
        () = stop.cancelled() => {
            if tokio::time::timeout(GRACE, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
    None
}

fn report_end(shared: &Shared, owner: &Owner, ended: &Ended, wait: Duration) {
    let (label, reason) = match ended {
        Ok(Ok(())) => ("ended", "it ended by itself".to_owned()),
        Ok(Err(error)) => ("error", chain(error)),
        Err(error) if error.is_cancelled() => {
            let why = "what it reported could not be taken in, which is a bug";
            ("panic", why.to_owned())
        }
        Err(_) => ("panic", "it panicked, which is a bug".to_owned()),
    };
    shared.metrics.sources.failed(&owner.to_string(), label);
    if label == "panic" {
        shared.metrics.internal_errors.inc();
    }
    let retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    tracing::error!(source = %owner, reason, retry_ms, "A source failed; what it reported stays in force.");
    let next = Instant::now() + wait;
    shared.progress(owner, |progress| progress.fail(reason, next));
}

/// An error with what it comes from.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
