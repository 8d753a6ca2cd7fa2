//! Keys of token issuers as a source: fetched where policies say, and fetched anew before they are old.
//!
//! What is fetched stays in force when it cannot be fetched anew, for a week. Nothing here judges tokens or keys; an
//! answer that is no JWKS at all is a failure.
//!
//! Istio: pilot/pkg/model/jwks_resolver.go, 1.32.

mod fetch;
mod guard;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use model::Change;
use model::jwks::{FetchedKeys, KeySource};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Said, Sink};
pub use fetch::{FetchError, Fetcher, RootsError};

/// Fetches under way at once.
const AT_ONCE: usize = 16;
/// The first wait after a failure; it doubles with each further one.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait after failures.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How long keys stay in force that cannot be fetched anew.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What is to be fetched, and how long an answer may take.
pub type Wanted = Arc<BTreeMap<KeySource, Duration>>;

/// How keys are fetched.
#[derive(Clone)]
pub struct Options {
    /// How often keys are fetched anew.
    pub refresh: Duration,
    /// Addresses that are not asked, besides those that never are.
    pub blocked: Vec<IpNet>,
    /// A file of further roots that servers of keys may have their certificates from.
    pub extra_roots: Option<PathBuf>,
    /// Take any certificate of a server.
    pub insecure: bool,
    /// Told of each attempt, and whether it succeeded.
    pub attempted: Arc<dyn Fn(bool) + Send + Sync>,
}

/// Fetches what is wanted until `stop`.
///
/// # Errors
///
/// When the file of further roots is there and cannot be used. Operators can act.
pub async fn run(
    mut wanted: watch::Receiver<Wanted>,
    options: Options,
    out: Sink,
    stop: CancellationToken,
) -> Result<(), RootsError> {
    let fetcher = Arc::new(Fetcher::new(&options)?);
    let mut keeping = Keeping {
        options,
        fetcher,
        room: Arc::new(Semaphore::new(AT_ONCE)),
        under_way: JoinSet::new(),
        entries: BTreeMap::new(),
        jitter: RandomState::new(),
    };
    loop {
        let list = wanted.borrow_and_update().clone();
        let gone = keeping.want(&list);
        if !gone.is_empty() && out.send(Said::Changes(gone)).await.is_err() {
            return Ok(());
        }
        let changes = loop {
            keeping.start_due(Instant::now());
            let next = keeping.next_due();
            tokio::select! {
                changed = wanted.changed() => match changed {
                    Ok(()) => break Vec::new(),
                    Err(_) => return Ok(()),
                },
                Some(done) = keeping.under_way.join_next() => {
                    // A task that panicked leaves its entry as it is; it is asked again when it is due.
                    if let Ok((source, result)) = done
                        && let Some(change) = keeping.take(source, result, Instant::now())
                    {
                        break vec![change];
                    }
                }
                () = tokio::time::sleep_until(next) => {}
                () = stop.cancelled() => return Ok(()),
            }
        };
        if !changes.is_empty() && out.send(Said::Changes(changes)).await.is_err() {
            return Ok(());
        }
    }
}

type Outcome = (KeySource, Result<Arc<str>, FetchError>);

/// What is known of one source.
struct Entry {
    limit: Duration,
    due: Instant,
    failures: u32,
    /// When keys last came.
    good: Option<Instant>,
    current: Option<Arc<FetchedKeys>>,
}

struct Keeping {
    options: Options,
    fetcher: Arc<Fetcher>,
    room: Arc<Semaphore>,
    under_way: JoinSet<Outcome>,
    entries: BTreeMap<KeySource, Entry>,
    jitter: RandomState,
}

impl Keeping {
    /// Takes over what is wanted; returns what to say of sources that nobody wants any more.
    fn want(&mut self, wanted: &Wanted) -> Vec<Change> {
        let mut gone = Vec::new();
        self.entries.retain(|source, _| {
            let stays = wanted.contains_key(source);
            if !stays {
                gone.push(Change::Keys(source.clone(), None));
            }
            stays
        });
        for (source, limit) in wanted.iter() {
            let entry = self.entries.entry(source.clone());
            let entry = entry.or_insert_with(|| Entry {
                limit: *limit,
                due: Instant::now(),
                failures: 0,
                good: None,
                current: None,
            });
            entry.limit = *limit;
        }
        gone
    }

    fn next_due(&self) -> Instant {
        let far = Instant::now() + self.options.refresh;
        let due = self.entries.values().map(|e| e.due).min();
        due.map_or(far, |due| due.min(far))
    }

    fn start_due(&mut self, now: Instant) {
        // Until it has ended it is not due again, whatever its limit.
        let later = now + self.options.refresh.max(LONGEST_RETRY);
        for (source, entry) in &mut self.entries {
            if entry.due > now {
                continue;
            }
            entry.due = later + entry.limit;
            let (fetcher, room) = (self.fetcher.clone(), self.room.clone());
            let (source, limit) = (source.clone(), entry.limit);
            let attempted = self.options.attempted.clone();
            self.under_way.spawn(async move {
                let permit = room.acquire_owned().await;
                let result = fetcher.fetch(&source, limit).await;
                drop(permit);
                attempted(result.is_ok());
                (source, result)
            });
        }
    }

    /// Takes an outcome in; returns what to say of it, if that is new.
    fn take(
        &mut self,
        source: KeySource,
        result: Result<Arc<str>, FetchError>,
        now: Instant,
    ) -> Option<Change> {
        let jitter = self.jitter.hash_one((&source, now));
        // Nobody may want it any more.
        let entry = self.entries.get_mut(&source)?;
        let fetched = match result {
            Ok(keys) => {
                entry.failures = 0;
                entry.good = Some(now);
                entry.due = now + spread(self.options.refresh, jitter);
                FetchedKeys {
                    keys: Some(keys),
                    trouble: None,
                }
            }
            Err(error) => {
                let doubled = RETRY * 2_u32.saturating_pow(entry.failures.min(16));
                let wait = doubled.min(LONGEST_RETRY).min(self.options.refresh);
                entry.failures += 1;
                entry.due = now + spread(wait, jitter);
                tracing::debug!(%source, %error, failures = entry.failures, "Keys cannot be fetched.");
                let kept = entry.good.is_some_and(|good| now - good < KEPT);
                let before = entry.current.as_ref().filter(|_| kept);
                FetchedKeys {
                    keys: before.and_then(|b| b.keys.clone()),
                    trouble: Some(error.to_string().into()),
                }
            }
        };
        if entry.current.as_deref() == Some(&fetched) {
            return None;
        }
        let fetched = Arc::new(fetched);
        entry.current = Some(fetched.clone());
        Some(Change::Keys(source, Some(fetched)))
    }
}

/// A wait of 90 to 110 percent, so that what began together does not stay together.
fn spread(wait: Duration, random: u64) -> Duration {
    wait.mul_f64(0.9 + 0.2 * (random % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests;
