//! Writing into the API that objects come from: statuses, and addresses of ServiceEntries.
//!
//! Statuses that are derived are wanted as soon as a batch has them ([`crate::statuses`]); the rest is derived after analysis,
//! from the same snapshot ([`wanted`]). For each lock there is an election, where
//! others may write the place as well, and a writer that writes while this replica leads. Written are only objects that
//! the source of the place told of: not those of folders, of other revisions, or of another cluster. What is written into
//! remote clusters has writers of its own ([`remotes`]).

pub mod embedded;
pub mod ingress_events;
mod options;
pub mod remotes;
pub mod wanted;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::names::ClusterId;
use model::{Diagnostic, Kind, ObjectKey, Severity, SourceId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use writeback::Place;
use writeback::addresses::{Allocated, Allocator, Facts};
use writeback::lead::{Lead, Leading};
use writeback::lease::{Candidate, Elector, Lock};
use writeback::status::{Event, Listener, StatusWriter, Statuses};

use crate::analysis::{Analyst, Judged};
use crate::apis::Api;
use crate::derive::Derive;
use crate::metrics::Metrics;
use crate::statuses::Book;

pub use options::WriteOptions;
use remotes::Remotes;

/// An object whose status others keep changing.
const CONTENDED: &str = "PIL0803";
/// A status that the API refuses.
const REFUSED: &str = "PIL0804";

/// How many objects are kept of which there is something to say.
const MOST_FINDINGS: usize = 1000;

/// Where is written.
#[derive(Clone)]
pub struct Target {
    /// The API.
    pub api: Api,
    /// The same for WorkloadEntries, which wait for nothing else.
    pub entries: Arc<dyn Place>,
    /// The same for leases, which wait for nothing else.
    pub leases: Arc<dyn Place>,
    /// The source that tells of the objects in it.
    pub source: SourceId,
    /// Whether other replicas write there as well.
    pub shared: bool,
}

/// Hears what there is to say about what is written: all of it each time.
pub type Told = Arc<dyn Fn(Vec<Diagnostic>) + Send + Sync>;

/// What a replica is, for leases.
pub struct Replica<'a> {
    /// The flags.
    pub options: &'a WriteOptions,
    /// The namespace of the control plane.
    pub namespace: &'a str,
    /// Its revision.
    pub revision: &'a str,
}

/// One lock: who leads, and how the writing goes.
pub struct Line {
    lock: Lock,
    leading: Leading,
    pub(crate) figures: Arc<Mutex<Figures>>,
}

impl Line {
    /// A lock, of which a gauge shows whether it is held.
    pub(crate) fn new(
        lock: Lock,
        leading: &Leading,
        metrics: &Arc<Metrics>,
        (tasks, stop): (&TaskTracker, &CancellationToken),
    ) -> Self {
        tasks.spawn(gauge(lock, leading.clone(), metrics.clone(), stop.clone()));
        Self {
            lock,
            leading: leading.clone(),
            figures: Arc::default(),
        }
    }

    /// As a page shows it, to the replica of that name.
    fn shown(&self, identity: &str) -> Value {
        shown(self.lock, &self.leading, &self.figures, identity)
    }
}

/// What is written under a lock, as a page shows it to the replica of that name.
fn shown(lock: Lock, leading: &Leading, figures: &Mutex<Figures>, identity: &str) -> Value {
    let figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
    let holder = match leading.now() {
        Lead::Ours(_) => identity.into(),
        Lead::Theirs(holder) => holder,
    };
    json!({
        "lock": lock.name(),
        "writes": lock.about(),
        "leads": leading.term().is_some(),
        "holder": *holder,
        "written": figures.written,
        "failed": figures.failed,
        "refused": figures.refused,
        "contended": figures.contended,
        "waiting": figures.waiting,
    })
}

/// How the writing under a lock goes.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) written: u64,
    pub(crate) failed: u64,
    pub(crate) refused: u64,
    pub(crate) contended: u64,
    waiting: usize,
}

/// What is being written, for a page.
pub struct Writing {
    /// None where what is configured is a folder.
    place: Option<Arc<dyn Place>>,
    identity: Arc<str>,
    lines: Vec<Line>,
    remotes: Remotes,
}

/// What wants come out of, and go to.
struct Wants {
    analysis: Option<watch::Sender<Statuses>>,
    facts: watch::Sender<Option<Arc<Facts>>>,
    default_revision: watch::Sender<Arc<str>>,
}

/// What is found about what is written.
struct Reports {
    told: Told,
    addresses: Mutex<Vec<Diagnostic>>,
    statuses: Mutex<BTreeMap<ObjectKey, Diagnostic>>,
}

impl Reports {
    fn new(told: Told) -> Self {
        Self {
            told,
            addresses: Mutex::default(),
            statuses: Mutex::default(),
        }
    }

    /// A remote cluster is written to no more.
    fn forget(&self, cluster: &ClusterId) {
        let mut known = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        known.retain(|key, _| key.name.cluster.as_ref() != Some(cluster));
        let differs = known.len() != before;
        drop(known);
        if differs {
            self.tell();
        }
    }

    fn tell(&self) {
        let lock = |e| PoisonError::into_inner(e);
        let mut all = self.addresses.lock().unwrap_or_else(lock).clone();
        let statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(statuses.values().cloned());
        drop(statuses);
        (self.told)(all);
    }

    fn of_addresses(&self, allocated: &Allocated) {
        let found = wanted::findings(allocated);
        let mut known = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *known != found {
            *known = found;
            drop(known);
            self.tell();
        }
    }

    fn of_status(&self, key: &ObjectKey, found: Option<(&'static str, String)>) {
        let mut known = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.map(|(code, message)| {
            let mut finding = Diagnostic::new(code, Severity::Warning, message);
            finding.object = Some(key.clone());
            finding.at("status")
        });
        match found {
            Some(found) if known.get(key) != Some(&found) => {
                if known.len() >= MOST_FINDINGS && !known.contains_key(key) {
                    return;
                }
                known.insert(key.clone(), found);
            }
            None if known.remove(key).is_some() => {}
            _ => return,
        }
        drop(known);
        self.tell();
    }
}

impl Writing {
    /// Starts to write statuses and addresses to a place, those that are wanted from here on, until `stop`; gives the locks
    /// under which that is done.
    pub fn start(
        target: &Target,
        replica: &Replica<'_>,
        (book, analyst, derive): (&Book, &Analyst, &Derive),
        metrics: &Arc<Metrics>,
        told: Told,
        (tasks, stop): (&TaskTracker, &CancellationToken),
    ) -> Vec<Line> {
        let options = replica.options;
        let identity = options.identity();
        let reports = Arc::new(Reports::new(told));
        let wants = Wants {
            analysis: options.write_analysis.then(watch::Sender::default),
            facts: watch::Sender::default(),
            default_revision: watch::Sender::new("".into()),
        };
        let elect = |lock| {
            if !target.shared || !options.leader_election {
                return Leading::always();
            }
            let candidate = Candidate {
                namespace: replica.namespace.into(),
                identity: identity.clone(),
                revision: match replica.revision {
                    "" => "default".into(),
                    revision => revision.into(),
                },
                duration: options.lease_duration,
                default_revision: wants.default_revision.subscribe(),
            };
            let (elector, leading) = Elector::new(target.leases.clone(), lock, candidate);
            tasks.spawn(elector.run(stop.clone()));
            leading
        };
        let mut lines = Vec::new();
        let mut write = |lock: Lock, leading: Leading, statuses: watch::Receiver<Statuses>| {
            let line = Line::new(lock, &leading, metrics, (tasks, stop));
            let listener = listener(lock, &line.figures, &reports, metrics);
            let pace = options.pace();
            let writer = StatusWriter::new(&target.api.place, &leading, statuses, pace, listener);
            tasks.spawn(writer.run(stop.clone()));
            lines.push(line);
        };
        let derived = book.write_to(&target.source);
        write(Lock::Ingress, elect(Lock::Ingress), derived.ingresses);
        if options.write_gateway_status {
            let leading = elect(Lock::GatewayStatus);
            write(Lock::GatewayStatus, leading, derived.gateways);
        }
        if let Some(analysis) = &wants.analysis {
            write(Lock::Analysis, elect(Lock::Analysis), analysis.subscribe());
        }
        let leading = elect(Lock::Addresses);
        let of_addresses = reports.clone();
        let report = Arc::new(move |allocated: &Allocated| of_addresses.of_addresses(allocated));
        let facts = wants.facts.subscribe();
        let allocator = Allocator::new(&target.api.place, &leading, facts, report);
        write(Lock::Addresses, leading, allocator.wanted());
        tasks.spawn(allocator.run(stop.clone()));
        let source = target.source.clone();
        // What was analysed before all sources had been read is no ground to write on.
        let from = analyst.newest();
        let told = (analyst.judged(), derive.clone());
        tasks.spawn(follow(told, from, source, wants, stop.clone()));
        lines
    }

    /// What is written to a place under these locks, if there is one, and into remote clusters.
    pub fn new(
        target: Option<&Target>,
        options: &WriteOptions,
        lines: Vec<Line>,
        remotes: Remotes,
    ) -> Self {
        Self {
            place: target.map(|target| target.api.place.clone()),
            identity: options.identity(),
            lines,
            remotes,
        }
    }

    /// The page `/debug/writing`.
    pub fn page(&self) -> Value {
        let lines = self.lines.iter();
        let lines = lines.map(|line| line.shown(&self.identity));
        json!({
            "place": self.place.as_ref().map(|place| place.name()),
            "identity": *self.identity,
            "locks": lines.collect::<Vec<_>>(),
            "remotes": self.remotes.shown(&self.identity),
        })
    }
}

/// Counts what a writer tells, and says what people have to know.
fn listener(
    lock: Lock,
    figures: &Arc<Mutex<Figures>>,
    reports: &Arc<Reports>,
    metrics: &Arc<Metrics>,
) -> Listener {
    let (figures, reports, metrics) = (figures.clone(), reports.clone(), metrics.clone());
    Arc::new(move |event: Event<'_>| {
        let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match event {
            Event::Waiting(count) => {
                figures.waiting = count;
                // The lock of remote clusters is one of several.
                if lock != Lock::RemoteIngress {
                    let waiting = metrics.writing.waiting.with_label_values(&[lock.name()]);
                    waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
                }
                return;
            }
            Event::Written(key) => {
                figures.written += 1;
                reports.of_status(key, None);
                "written"
            }
            Event::Failed(key, error) => {
                figures.failed += 1;
                tracing::debug!(object = %key, %error, "A status could not be written; it is tried again.");
                "failed"
            }
            Event::Refused(key, error) => {
                figures.refused += 1;
                let message = format!("its status cannot be written: {error}");
                reports.of_status(key, Some((REFUSED, message)));
                "refused"
            }
            Event::Contended(key, truce) => {
                figures.contended += 1;
                let minutes = truce.as_secs() / 60;
                let message = format!(
                    "another controller keeps changing its status, which is left alone for {minutes} minutes"
                );
                reports.of_status(key, Some((CONTENDED, message)));
                "contended"
            }
        };
        metrics
            .writing
            .statuses
            .with_label_values(&[lock.name(), result])
            .inc();
    })
}

/// Shows on a gauge whether this replica leads.
async fn gauge(lock: Lock, mut leading: Leading, metrics: Arc<Metrics>, stop: CancellationToken) {
    let gauge = metrics.writing.leader.with_label_values(&[lock.name()]);
    gauge.set(0);
    while let Some(number) = stop.run_until_cancelled(leading.begun()).await {
        gauge.set(1);
        stop.run_until_cancelled(leading.ended(number)).await;
        gauge.set(0);
    }
}

/// Derives what is wanted after each analysis. What generation finds for the proxies that are connected, as a host that is
/// another's, is said with what analysis finds.
async fn follow(
    (mut judged, derive): (watch::Receiver<Option<Arc<Judged>>>, Derive),
    from: u64,
    source: SourceId,
    wants: Wants,
    stop: CancellationToken,
) {
    /// Some findings begin or cease to hold with time.
    const AGAIN: Duration = Duration::from_secs(60);
    let wants = Arc::new(wants);
    loop {
        let now = judged.borrow_and_update().clone();
        if let Some(now) = now.filter(|now| now.analyzed.revision >= from) {
            let (wants, source) = (wants.clone(), source.clone());
            let mut derived = Vec::new();
            if wants.analysis.is_some() {
                let ask = derive.ask(|state| state.findings_about(Kind::has_analysis_status));
                let Ok(found) = ask.await else { return };
                derived = found;
            }
            let work = move || {
                let snapshot = &now.snapshot;
                wants.default_revision.send_if_modified(|known| {
                    let revision = wanted::default_revision(snapshot);
                    let differs = *known != revision;
                    *known = revision;
                    differs
                });
                if let Some(of_analysis) = &wants.analysis {
                    let analysed = now.analyzed.current().map(|f| &f.diagnostic);
                    let wanted = wanted::of_analysis(snapshot, analysed, &derived, &source);
                    replace(of_analysis, wanted);
                }
                let facts = wanted::facts(snapshot, Some(&source));
                replace(&wants.facts, facts.map(Arc::new));
            };
            // Thousands of objects take milliseconds, for which connections must not wait.
            if tokio::task::spawn_blocking(work).await.is_err() {
                tracing::error!("What is to be written cannot be derived.");
            }
        }
        tokio::select! {
            changed = judged.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(AGAIN), if wants.analysis.is_some() => {}
            () = stop.cancelled() => return,
        }
    }
}

fn replace<T: PartialEq>(to: &watch::Sender<T>, value: T) {
    to.send_if_modified(|known| {
        let differs = *known != value;
        *known = value;
        differs
    });
}
