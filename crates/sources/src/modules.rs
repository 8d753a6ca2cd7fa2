//! Wasm modules as a source: fetched for proxies beside which nobody fetches, and kept on disk for the next start.
//!
//! What has come stays in force when it cannot be fetched anew. Of a module that is slow to come it is said so, so that proxies
//! do not wait for it. A server that does not answer holds up only its own modules and, for a short time, further ones of the
//! namespaces that name it. Nothing here runs a module or judges what is in it.
//!
//! Istio: pkg/wasm/cache.go, 1.32, which each agent has.

mod cache;
pub mod credentials;
mod fetch;
pub mod image;
pub mod unbox;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use model::module::{FetchedModule, Module, ModuleDemand, ModuleSource, Pull, PullCredentials};
use model::names::Namespace;
use model::{Change, Contents, Owner};
use tokio::sync::watch;
use tokio::task::Id;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fetching::{Keeping, UnderWay, fetch};
use crate::room::{Limits, host_of};
use ::fetch::web::RootsError;
use cache::Cache;
use fetch::Came;
use source_api::backoff::spread;
use source_api::{Running, Sink, Source, SourceError};

pub use fetch::{ModuleError, ModuleFetcher};

/// The longest that a module may take to come.
pub const LONGEST_FETCH: Duration = Duration::from_secs(60);
/// How long proxies may wait for it before they are told that there is none yet.
pub const LATE: Duration = Duration::from_secs(3);
/// The first wait after a failure; it doubles with each further one.
const RETRY: Duration = Duration::from_secs(2);
/// The longest wait after failures.
const LONGEST_RETRY: Duration = Duration::from_secs(300);
/// After a failure a namespace fetches nothing for so many times as long as that took: what fails takes a share of a processor.
const PAUSE: u32 = 3;
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many fetches are under way: each may hold what came, compressed, and the module.
const AT_ONCE: Limits = Limits {
    in_all: 4,
    at_host: 2,
    for_namespace: 2,
};

/// What is to be fetched, and who wants it.
pub type Wanted = Arc<BTreeSet<ModuleDemand>>;

/// How modules are fetched.
#[derive(Clone)]
pub struct Options {
    /// How often those are fetched anew that may change.
    pub refresh: Duration,
    /// Addresses that are not asked, besides those that never are.
    pub blocked: Vec<IpNet>,
    /// Addresses that are asked although they otherwise never are, as those of this machine.
    pub allowed: Vec<IpNet>,
    /// Registries that are asked without TLS; `*` for all.
    pub plain_registries: Vec<String>,
    /// The longest that a module may take to come; [`LONGEST_FETCH`] unless told otherwise.
    pub longest: Duration,
    /// How long proxies may wait; [`LATE`] unless told otherwise.
    pub late: Duration,
    /// The bytes that a module may have.
    pub largest: usize,
    /// The bytes that all that are in use may have, and those on disk.
    pub total: usize,
    /// A file of further roots that servers may have their certificates from.
    pub extra_roots: Option<PathBuf>,
    /// A folder for them.
    pub dir: Option<PathBuf>,
    /// Told of each attempt, and whether it succeeded.
    pub attempted: Arc<dyn Fn(bool) + Send + Sync>,
}

/// Modules as a source.
pub struct ModulesSource {
    /// The name under which it is shown.
    pub owner: Owner,
    /// What is to be fetched.
    pub wanted: watch::Receiver<Wanted>,
    /// How.
    pub options: Options,
}

impl Source for ModulesSource {
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
    let fetcher = Arc::new(ModuleFetcher::new(&options)?);
    let cache = options.dir.as_ref().and_then(|dir| {
        let opened = Cache::open(dir, options.total);
        opened
            .inspect_err(|error| {
                let dir = dir.display();
                tracing::warn!(%dir, %error, "Wasm modules cannot be kept on disk.");
            })
            .ok()
    });
    let keeping = Known {
        options,
        fetcher,
        cache,
        under_way: UnderWay::new(AT_ONCE),
        entries: BTreeMap::new(),
        paused: BTreeMap::new(),
        jitter: RandomState::new(),
    };
    fetch(keeping, wanted, out, stop).await;
    Ok(())
}

/// What became of one attempt.
struct Outcome {
    result: Result<Came, ModuleError>,
    step: Step,
}

/// What was done last for a module.
enum Step {
    /// It was read from disk, and nobody was asked.
    Read,
    /// Its server was asked.
    Fetched,
    /// It was fetched, and then written to disk as far as that went.
    Written,
}

/// What is known of one source.
struct Entry {
    /// Who wants it: the objects with their versions, and what their Secret holds.
    objects: BTreeSet<(Namespace, Arc<str>, Arc<str>)>,
    credentials: Option<PullCredentials>,
    host: Arc<str>,
    /// Since when it is wanted.
    since: Instant,
    due: Instant,
    /// When the last attempt began.
    began: Instant,
    /// The task that fetches it.
    task: Option<Id>,
    failures: u32,
    /// Whether the disk was looked at.
    looked: bool,
    good: Option<Came>,
    current: Option<Arc<FetchedModule>>,
}

impl Entry {
    /// The namespace that its module is counted with: the first of those that want it.
    fn counted_with(&self) -> Option<&Namespace> {
        self.objects.first().map(|(namespace, ..)| namespace)
    }

    fn namespaces(&self) -> BTreeSet<Namespace> {
        self.objects.iter().map(|(n, ..)| n.clone()).collect()
    }
}

/// What is known of all that is wanted.
struct Known {
    options: Options,
    fetcher: Arc<ModuleFetcher>,
    cache: Option<Cache>,
    under_way: UnderWay<(ModuleSource, Outcome)>,
    entries: BTreeMap<ModuleSource, Entry>,
    /// Namespaces that fetch nothing until a time.
    paused: BTreeMap<Namespace, Instant>,
    jitter: RandomState,
}

impl Keeping for Known {
    type Wanted = Wanted;
    type Outcome = (ModuleSource, Outcome);

    fn under_way(&mut self) -> &mut UnderWay<(ModuleSource, Outcome)> {
        &mut self.under_way
    }

    fn want(&mut self, wanted: &Wanted, now: Instant) -> Vec<Change> {
        type Demand = (
            BTreeSet<(Namespace, Arc<str>, Arc<str>)>,
            Option<PullCredentials>,
        );
        let mut demands: BTreeMap<&ModuleSource, Demand> = BTreeMap::new();
        for demand in wanted.iter() {
            let (objects, credentials) = demands.entry(&demand.source).or_default();
            let name = demand.object.name.as_str().into();
            let object = (
                demand.object.namespace.clone(),
                name,
                demand.version.clone(),
            );
            objects.insert(object);
            if credentials.is_none() {
                credentials.clone_from(&demand.credentials);
            }
        }
        let mut gone = Vec::new();
        self.entries.retain(|source, _| {
            let stays = demands.contains_key(source);
            if !stays {
                gone.push(Change::Module(source.clone(), None));
            }
            stays
        });
        for (source, (objects, credentials)) in demands {
            let entry = self.entries.entry(source.clone()).or_insert_with(|| Entry {
                objects: BTreeSet::new(),
                credentials: None,
                host: host_of(&source.url),
                since: now,
                due: now,
                began: now,
                task: None,
                failures: 0,
                looked: false,
                good: None,
                current: None,
            });
            let may_differ = source.pull == Pull::Always || entry.good.is_none();
            let changed = entry.objects != objects && may_differ;
            // Who was refused may have other credentials now.
            let other = entry.credentials != credentials && entry.good.is_none();
            if changed || other {
                entry.due = now;
                entry.failures = 0;
            }
            entry.objects = objects;
            entry.credentials = credentials;
        }
        gone
    }

    /// Says of those that have not come in time that they have not.
    fn late(&mut self, now: Instant) -> Vec<Change> {
        let mut late = Vec::new();
        for (source, entry) in &mut self.entries {
            if entry.current.is_none() && entry.since + self.options.late <= now {
                let told = Arc::new(FetchedModule {
                    module: None,
                    trouble: Some("it is still being fetched".into()),
                });
                entry.current = Some(told.clone());
                late.push(Change::Module(source.clone(), Some(told)));
            }
        }
        late
    }

    fn next_due(&self, now: Instant) -> Instant {
        let far = now + Duration::from_secs(3600);
        let due = self.entries.values().map(|e| e.due).filter(|d| *d > now);
        let untold = self.entries.values().filter(|e| e.current.is_none());
        let late = untold.map(|e| e.since + self.options.late);
        let paused = self.paused.values().copied().filter(|end| *end > now);
        due.chain(late)
            .chain(paused)
            .min()
            .map_or(far, |due| due.min(far))
    }

    fn start_due(&mut self, now: Instant) {
        if !self.under_way.room.has_any() {
            return;
        }
        self.paused.retain(|_, end| *end > now);
        let entries = self.entries.iter_mut();
        let is_due = |entry: &Entry| entry.due <= now && entry.task.is_none();
        let mut due: Vec<_> = entries.filter(|(_, entry)| is_due(entry)).collect();
        // What has failed comes after what has not.
        due.sort_by_key(|(_, e)| (e.failures, e.due));
        for (source, entry) in due {
            let mut namespaces = entry.namespaces();
            namespaces.retain(|namespace| !self.paused.contains_key(namespace));
            if namespaces.is_empty() {
                continue;
            }
            let Some(place) = self.under_way.room.find(&entry.host, &namespaces) else {
                continue;
            };
            entry.began = now;
            let attempt = Attempt {
                fetcher: self.fetcher.clone(),
                source: source.clone(),
                credentials: entry.credentials.clone(),
                known: entry.good.clone(),
                cache: self.cache.clone().filter(|_| !entry.looked),
                largest: self.options.largest,
                longest: self.options.longest,
                attempted: self.options.attempted.clone(),
            };
            entry.task = Some(self.under_way.begin(place, attempt.run()));
            // Should the task panic, it is tried again after this.
            entry.due = now + self.options.longest + LONGEST_RETRY;
        }
    }

    fn take(
        &mut self,
        task: Id,
        (source, outcome): (ModuleSource, Outcome),
        now: Instant,
    ) -> Option<Change> {
        let jitter = self.jitter.hash_one((&source, now));
        // Nobody may want it any more.
        if self.entries.get(&source)?.task != Some(task) {
            return None;
        }
        let Outcome { result, step } = outcome;
        let result = result.and_then(|came| self.within_total(&source, came));
        let written = match (&result, &step) {
            (Ok(came), Step::Fetched) => self.keep(&source, came),
            _ => None,
        };
        let entry = self.entries.get_mut(&source)?;
        if let Some(written) = written {
            // Told after it is written: what proxies run is there after a restart.
            entry.task = Some(self.under_way.follow(written));
            return None;
        }
        entry.task = None;
        entry.looked = true;
        let later = |wait: Duration| now + spread(wait, jitter);
        let came = match result {
            Ok(came) => {
                entry.failures = 0;
                entry.due = match source.pull {
                    Pull::Once => far(now),
                    // Another may have come into its place meanwhile.
                    Pull::Always if matches!(step, Step::Read) => now,
                    Pull::Always => later(self.options.refresh),
                };
                came
            }
            Err(error) => {
                let doubled = RETRY * 2_u32.saturating_pow(entry.failures.min(16));
                entry.failures += 1;
                let pause = now + ((now - entry.began) * PAUSE).min(LONGEST_PAUSE);
                self.paused
                    .extend(entry.namespaces().into_iter().map(|n| (n, pause)));
                entry.due = later(doubled.min(LONGEST_RETRY));
                tracing::debug!(%source, %error, failures = entry.failures, "A Wasm module cannot be fetched.");
                let module = entry.good.as_ref().map(|came| came.module.clone());
                return entry.tell(source, module, Some(error.to_string()));
            }
        };
        entry.good = Some(came.clone());
        entry.tell(source, Some(came.module), None)
    }
}

impl Known {
    /// A module, if those in use have no more bytes with it than they may: all of them, and half of that those of a namespace.
    fn within_total(&self, source: &ModuleSource, came: Came) -> Result<Came, ModuleError> {
        let mine = self.entries.get(source).and_then(Entry::counted_with);
        let (mut all, mut own) = (BTreeMap::new(), BTreeMap::new());
        for (other, entry) in &self.entries {
            let module = match other == source {
                true => Some(&came.module),
                false => entry.good.as_ref().map(|good| &good.module),
            };
            let Some(module) = module else { continue };
            let size = module.bytes().len();
            all.insert(module.sha256(), size);
            if entry.counted_with() == mine {
                own.insert(module.sha256(), size);
            }
        }
        let total = self.options.total;
        for (sizes, limit) in [(all, total), (own, total / 2)] {
            if sizes.values().sum::<usize>() > limit {
                return Err(ModuleError::NoRoom(limit >> 20));
            }
        }
        Ok(came)
    }

    /// Writes a module to disk, while others are fetched. None where nothing is kept there.
    fn keep(
        &self,
        source: &ModuleSource,
        came: &Came,
    ) -> Option<impl Future<Output = (ModuleSource, Outcome)> + Send + use<>> {
        let cache = self.cache.clone()?;
        let (source, came) = (source.clone(), came.clone());
        let in_use = self.entries.values().filter_map(|e| e.good.as_ref());
        let in_use: BTreeSet<String> = in_use.map(|good| good.module.sha256()).collect();
        Some(async move {
            let (named, module) = (source.clone(), came.clone());
            let write = move || cache.write(&named, &module, &in_use);
            let written = tokio::task::spawn_blocking(write).await;
            if let Ok(Err(error)) = written {
                tracing::warn!(%source, %error, "A Wasm module cannot be kept on disk.");
            }
            let (result, step) = (Ok(came), Step::Written);
            (source, Outcome { result, step })
        })
    }
}

impl Entry {
    fn tell(
        &mut self,
        source: ModuleSource,
        module: Option<Module>,
        trouble: Option<String>,
    ) -> Option<Change> {
        let told = FetchedModule {
            module,
            trouble: trouble.map(Arc::from),
        };
        if self.current.as_deref() == Some(&told) {
            return None;
        }
        let told = Arc::new(told);
        self.current = Some(told.clone());
        Some(Change::Module(source, Some(told)))
    }
}

/// One attempt: the disk is looked at first.
struct Attempt {
    fetcher: Arc<ModuleFetcher>,
    source: ModuleSource,
    credentials: Option<PullCredentials>,
    known: Option<Came>,
    cache: Option<Cache>,
    largest: usize,
    longest: Duration,
    attempted: Arc<dyn Fn(bool) + Send + Sync>,
}

impl Attempt {
    async fn run(self) -> (ModuleSource, Outcome) {
        if let Some(cache) = self.cache {
            let (source, largest) = (self.source.clone(), self.largest);
            let read = tokio::task::spawn_blocking(move || cache.read(&source, largest));
            if let Ok(Some(came)) = read.await {
                let (result, step) = (Ok(came), Step::Read);
                return (self.source, Outcome { result, step });
            }
        }
        let credentials = self.credentials.as_ref();
        let fetch = self
            .fetcher
            .fetch(&self.source, credentials, self.known.as_ref());
        let fetched = tokio::time::timeout(self.longest, fetch).await;
        let result = fetched.unwrap_or(Err(ModuleError::TimedOut(self.longest)));
        (self.attempted)(result.is_ok());
        let step = Step::Fetched;
        (self.source, Outcome { result, step })
    }
}

/// A time that does not come while a server runs.
fn far(now: Instant) -> Instant {
    now + Duration::from_secs(30 * 365 * 24 * 3600)
}

#[cfg(test)]
mod tests;
