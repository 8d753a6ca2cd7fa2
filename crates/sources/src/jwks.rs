//! Keys of token issuers, and SPIFFE bundles, as a source: fetched where policies and the mesh config say, and fetched anew
//! before they are old.
//!
//! What is fetched stays in force when it cannot be fetched anew, for a week. A server that does not answer holds up
//! only its own keys and, for a short time, further ones of the namespaces that name it. Nothing here judges tokens or
//! keys; an answer that is no JWKS at all is a failure.
//!
//! Istio: pilot/pkg/model/jwks_resolver.go, 1.32.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fetch::jwks::{FetchError, Fetcher};
use fetch::web::RootsError;
use fetch::web::guard::Guard;
use ipnet::IpNet;
use model::jwks::{Demand, FetchedKeys, KeySource};
use model::outside::Outside;
use model::{Change, Contents, Owner};
use tokio::sync::watch;
use tokio::task::Id;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fetching::{Keeping, UnderWay, fetch};
use crate::room::{Limits, host_of};
use source_api::backoff::spread;
use source_api::{Running, Sink, Source, SourceError};

/// The longest that an answer may take, whatever a policy says.
pub const LONGEST_FETCH: Duration = Duration::from_secs(10);
/// The first wait after a failure; it doubles with each further one.
const RETRY: Duration = Duration::from_secs(1);
/// How many fetches are under way.
const AT_ONCE: Limits = Limits {
    in_all: 64,
    at_host: 8,
    for_namespace: 8,
};
/// The longest wait after failures.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// A bundle is not fetched more often than this, whatever it says.
const SHORTEST_HINT: Duration = Duration::from_secs(60);
/// How long keys stay in force that cannot be fetched anew.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What is to be fetched, and who wants it.
pub type Wanted = Arc<BTreeMap<KeySource, Demand>>;

/// How keys are fetched.
#[derive(Clone)]
pub struct Options {
    /// How often keys are fetched anew.
    pub refresh: Duration,
    /// Addresses that are not asked, besides those that never are.
    pub blocked: Vec<IpNet>,
    /// Addresses that are asked although they otherwise never are, as those of this machine.
    pub allowed: Vec<IpNet>,
    /// The longest that an answer may take; [`LONGEST_FETCH`] unless told otherwise.
    pub longest: Duration,
    /// A file of further roots that servers of keys may have their certificates from.
    pub extra_roots: Option<PathBuf>,
    /// Take any certificate of a server.
    pub insecure: bool,
    /// Told of each attempt, and whether it succeeded.
    pub attempted: Arc<dyn Fn(bool) + Send + Sync>,
}

impl Options {
    /// What fetches keys as these say.
    ///
    /// # Errors
    ///
    /// When the file of further roots is there and cannot be used.
    pub fn fetcher(&self) -> Result<Fetcher, RootsError> {
        let guard = Guard::new(&self.blocked, &self.allowed);
        Fetcher::guarded(guard, self.extra_roots.as_deref(), self.insecure)
    }
}

/// The keys of token issuers as a source.
pub struct KeysSource {
    /// The name under which it is shown.
    pub owner: Owner,
    /// What is to be fetched.
    pub wanted: watch::Receiver<Wanted>,
    /// How.
    pub options: Options,
}

impl Source for KeysSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        Vec::new()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            let run = run(self.wanted, self.options, out, stop);
            run.await.map_err(SourceError::new)
        })
    }
}

/// Fetches what is wanted until `stop`.
///
/// # Errors
///
/// When the file of further roots is there and cannot be used. Operators can act.
async fn run(
    wanted: watch::Receiver<Wanted>,
    options: Options,
    out: Sink,
    stop: CancellationToken,
) -> Result<(), RootsError> {
    let fetcher = Arc::new(options.fetcher()?);
    let keeping = Known {
        options,
        fetcher,
        under_way: UnderWay::new(AT_ONCE),
        entries: BTreeMap::new(),
        jitter: RandomState::new(),
    };
    fetch(keeping, wanted, out, stop).await;
    Ok(())
}

type Outcome = (KeySource, Result<Arc<str>, FetchError>);

/// What is known of one source.
struct Entry {
    demand: Demand,
    host: Arc<str>,
    due: Instant,
    /// The task that fetches it.
    task: Option<Id>,
    failures: u32,
    /// When keys last came.
    good: Option<Instant>,
    current: Option<Arc<FetchedKeys>>,
}

/// What is known of all that is wanted.
struct Known {
    options: Options,
    fetcher: Arc<Fetcher>,
    under_way: UnderWay<Outcome>,
    entries: BTreeMap<KeySource, Entry>,
    jitter: RandomState,
}

impl Keeping for Known {
    type Wanted = Wanted;
    type Outcome = Outcome;

    fn under_way(&mut self) -> &mut UnderWay<Outcome> {
        &mut self.under_way
    }

    fn want(&mut self, wanted: &Wanted, now: Instant) -> Vec<Change> {
        let mut gone = Vec::new();
        self.entries.retain(|source, _| {
            let stays = wanted.contains_key(source);
            if !stays {
                gone.push(Change::Keys(source.clone(), None));
            }
            stays
        });
        for (source, demand) in wanted.iter() {
            let entry = self.entries.entry(source.clone());
            let entry = entry.or_insert_with(|| Entry {
                demand: Demand::default(),
                host: host(source),
                due: now,
                task: None,
                failures: 0,
                good: None,
                current: None,
            });
            entry.demand.clone_from(demand);
        }
        gone
    }

    fn late(&mut self, _now: Instant) -> Vec<Change> {
        Vec::new()
    }

    fn next_due(&self, now: Instant) -> Instant {
        let far = now + self.options.refresh;
        let due = self.entries.values().map(|e| e.due).filter(|d| *d > now);
        due.min().map_or(far, |due| due.min(far))
    }

    fn start_due(&mut self, now: Instant) {
        if !self.under_way.room.has_any() {
            return;
        }
        let entries = self.entries.iter_mut();
        let is_due = |entry: &Entry| entry.due <= now && entry.task.is_none();
        let mut due: Vec<_> = entries.filter(|(_, entry)| is_due(entry)).collect();
        // What has failed comes after what has not.
        due.sort_by_key(|(_, e)| (e.failures, e.due));
        for (source, entry) in due {
            let Some(place) = self
                .under_way
                .room
                .find(&entry.host, &entry.demand.namespaces)
            else {
                continue;
            };
            let (fetcher, source) = (self.fetcher.clone(), source.clone());
            let limit = entry.demand.limit.min(self.options.longest);
            let attempted = self.options.attempted.clone();
            let fetch = async move {
                let result = fetcher.fetch(&source, limit).await;
                attempted(result.is_ok());
                (source, result)
            };
            entry.task = Some(self.under_way.begin(place, fetch));
            // Should the task panic, it is tried again after this.
            entry.due = now + limit + self.options.refresh.max(LONGEST_RETRY);
        }
    }

    fn take(&mut self, task: Id, (source, result): Outcome, now: Instant) -> Option<Change> {
        let jitter = self.jitter.hash_one((&source, now));
        // Nobody may want it any more.
        let entry = self.entries.get_mut(&source)?;
        if entry.task != Some(task) {
            return None;
        }
        entry.task = None;
        let fetched = match result {
            Ok(keys) => {
                entry.failures = 0;
                entry.good = Some(now);
                entry.due = now + spread(refresh(&source, &keys, self.options.refresh), jitter);
                FetchedKeys {
                    keys: Some(Outside::new(keys)),
                    trouble: None,
                }
            }
            Err(error) => {
                let doubled = RETRY * 2_u32.saturating_pow(entry.failures.min(16));
                let wait = doubled.min(LONGEST_RETRY).min(self.options.refresh);
                entry.failures += 1;
                entry.due = now + spread(wait, jitter);
                // Of keys it is a finding of whoever names them; of bundles there is nobody else to tell.
                if matches!(source, KeySource::Bundle(_)) && entry.failures == 1 {
                    tracing::warn!(%source, %error, "Roots cannot be fetched; it is tried again.");
                } else {
                    tracing::debug!(%source, %error, failures = entry.failures, "Keys cannot be fetched.");
                }
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

/// The host that is asked first for the keys of a source; the whole text where it has none.
fn host(source: &KeySource) -> Arc<str> {
    let (KeySource::Uri(text) | KeySource::Issuer(text) | KeySource::Bundle(text)) = source;
    host_of(text)
}

/// How soon an answer is old: bundles may say so.
fn refresh(source: &KeySource, answer: &str, longest: Duration) -> Duration {
    let hint = match source {
        KeySource::Bundle(_) => model::trust::refresh_hint(answer),
        KeySource::Uri(_) | KeySource::Issuer(_) => None,
    };
    let hint = hint.map(|hint| hint.max(SHORTEST_HINT));
    hint.map_or(longest, |hint| hint.min(longest))
}

#[cfg(test)]
mod tests;
