//! A registry as a source: it is read again whenever that fails, and only differences are sent.

use std::sync::Arc;
use std::time::Duration;

use model::outside::Outside;
use model::{Change, Collection, Contents, Kind, Owner};
use source_api::backoff::Backoff;
use source_api::{Running, Sink, Source, SourceEvent};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::keeper::{Keeper, Patience, Told};
use crate::limits::Limits;
use crate::report::{Registry, Report, Reports};
use crate::service::Making;
use crate::state::State;

/// How long a registry that failed waits before it is read again, each by a time of its own.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(250),
    longest: Duration::from_secs(30),
};
/// Reports that wait to be taken in.
const WAITING: usize = 64;
/// Reports that are taken in together.
const TOGETHER: usize = 512;
/// What a registry may take to stop.
const GRACE: Duration = Duration::from_secs(1);

/// What a registry becomes: objects of these kinds.
pub const KINDS: [Kind; 2] = [Kind::ServiceEntry, Kind::DestinationRule];

/// Makes a reader of the registry for each connection.
pub type Open = Arc<dyn Fn() -> Box<dyn Registry> + Send + Sync>;

/// A registry as a source.
pub struct RegistrySource {
    /// How services are made into objects.
    pub making: Making,
    /// How long services stay that the registry does not tell of.
    pub patience: Patience,
    /// How much is taken.
    pub limits: Limits,
    /// Makes readers.
    pub open: Open,
    /// Where it is shown how the registry is.
    pub state: State,
}

impl Source for RegistrySource {
    fn owner(&self) -> &Owner {
        &self.making.owner
    }

    fn collections(&self) -> Vec<Contents> {
        KINDS.map(Contents::Objects).into()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            let (to, reports) = mpsc::channel(WAITING);
            let (owner, state) = (self.making.owner.clone(), self.state.clone());
            let reading = read(owner.clone(), self.open, to, state.clone(), stop.clone());
            let reading = tokio::spawn(reading);
            let keeper = Keeper::new(self.making, self.patience, self.limits);
            let taking = Taking {
                owner,
                keeper,
                state,
                start: Instant::now(),
            };
            let ended = tokio::select! {
                ended = taking.run(reports, &out) => ended,
                () = stop.cancelled() => Ok(()),
            };
            stop.cancel();
            // It has a limit of its own.
            let _ = reading.await;
            Ok(ended?)
        })
    }
}

/// Reads a registry again and again until `stop`.
async fn read(owner: Owner, open: Open, to: Reports, state: State, stop: CancellationToken) {
    let mut failures = 0;
    loop {
        let before = state.get().was_whole;
        let started = Instant::now();
        let token = stop.child_token();
        let mut task = tokio::spawn(open().read(to.clone(), token.clone()));
        let ended = tokio::select! {
            ended = &mut task => ended,
            () = stop.cancelled() => {
                if tokio::time::timeout(GRACE, &mut task).await.is_err() {
                    task.abort();
                }
                return;
            }
        };
        if stop.is_cancelled() {
            return;
        }
        let reason: Arc<str> = match ended {
            Ok(Ok(())) => "the connection ended".into(),
            Ok(Err(error)) => error.to_string().into(),
            Err(_) => "reading it panicked, which is a bug".into(),
        };
        if started.elapsed() >= BACKOFF.longest || !before && state.get().was_whole {
            failures = 0;
        }
        let wait = BACKOFF.wait(&owner, failures);
        failures += 1;
        let retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(registry = %owner, %reason, retry_ms, "A registry cannot be read; what it said stays in force.");
        if to.send(Report::Lost(reason)).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Takes reports in and sends what they change.
struct Taking {
    owner: Owner,
    keeper: Keeper,
    state: State,
    start: Instant,
}

impl Taking {
    async fn run(
        mut self,
        mut reports: mpsc::Receiver<Report>,
        out: &Sink,
    ) -> Result<(), source_api::Closed> {
        loop {
            let due = self.keeper.due().map(|due| self.start + due);
            let expiry = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let mut told = Vec::new();
            let taken;
            tokio::select! {
                report = reports.recv() => {
                    let Some(report) = report else { return Ok(()) };
                    taken = Instant::now();
                    self.take(report, &mut told);
                    for _ in 1..TOGETHER {
                        let Ok(report) = reports.try_recv() else { break };
                        self.take(report, &mut told);
                    }
                }
                () = expiry => {
                    taken = Instant::now();
                    self.keeper.expire(self.start.elapsed(), &mut told);
                }
            }
            if !told.is_empty() {
                let changes = told.into_iter().flat_map(|told| self.changes(told));
                out.send(SourceEvent::Changes(changes.collect())).await?;
            }
            let figures = self.keeper.figures();
            self.state.change(|health| {
                health.figures = figures;
                health.was_whole = self.keeper.was_whole();
                health.lag = taken.elapsed();
            });
        }
    }

    fn take(&mut self, report: Report, told: &mut Vec<Told>) {
        self.state.change(|health| {
            health.reports += 1;
            match &report {
                Report::Lost(reason) => {
                    health.connected = false;
                    health.failures += 1;
                    health.error = Some(reason.clone());
                }
                _ => {
                    health.connected = true;
                    health.answered = Some(std::time::Instant::now());
                }
            }
        });
        self.keeper
            .take(Outside::new(report), self.start.elapsed(), told);
    }

    fn changes(&self, told: Told) -> Vec<Change> {
        let owner = self.owner.clone();
        match told {
            Told::Put(object) => vec![Change::Put(owner, object)],
            Told::Delete(key) => vec![Change::Delete(owner, key)],
            Told::Whole => KINDS
                .map(|kind| {
                    Change::Synced(Collection {
                        owner: owner.clone(),
                        of: Contents::Objects(kind),
                    })
                })
                .into(),
        }
    }
}

#[cfg(test)]
mod tests;
