//! What is wrong between objects, kept current beside the derive thread.
//!
//! Analysis has its own thread and its own engine over the same snapshots, so it takes no time from what proxies wait
//! for: it starts when changes have ceased for a while, or have gone on for too long, and runs at a lower priority.
//! Between two runs only what changed is analysed again.
//!
//! What analysis knows and generation does not is which proxies are connected: by their namespaces and labels, so that a
//! selector that matches one of them is not said to match nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use analysis::suppress::Wanted;
use analysis::{Analysis, Finding};
use incr::{Engine, InputKey};
use model::{Labels, Namespace, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};
use store::{Input, Snapshot, snapshot};
use tokio::sync::watch;

/// How long there must be no change before analysis starts.
const QUIET: Duration = Duration::from_millis(300);
/// How long analysis waits at most while changes go on.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How far the priority of the thread is lowered.
const NICE: i32 = 10;

/// The latest analysis.
#[derive(Clone, Debug, Default)]
pub struct Analyzed {
    /// The revision it is of.
    pub revision: u64,
    /// What was found, without what objects say is not wanted, the worst first. Some hold from or until some time only.
    pub findings: Arc<Vec<Finding>>,
    /// How long it took.
    pub took: Duration,
    /// Queries evaluated for it.
    pub runs: u64,
}

impl Analyzed {
    /// The findings that hold at this time.
    pub fn current(&self) -> impl Iterator<Item = &Finding> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX));
        let holds = move |f: &&Finding| f.holds_at(Timestamp(now));
        self.findings.iter().filter(holds)
    }
}

/// An analysis with what it is of.
#[derive(Debug)]
pub struct Judged {
    /// The objects.
    pub snapshot: Arc<Snapshot>,
    /// What was found.
    pub analyzed: Analyzed,
}

/// What waits to be analysed.
#[derive(Default)]
struct Waiting {
    /// The revision of the newest snapshot that was handed over.
    newest: u64,
    snapshot: Option<Arc<Snapshot>>,
    changed: FxHashSet<InputKey>,
    /// Proxies that came and went, in turn.
    proxies: Vec<(Namespace, Labels, Seen)>,
    /// When the last change came.
    last: Option<Instant>,
    /// Whether the thread is at work on what it took.
    busy: bool,
    stopping: bool,
}

/// What became of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It has its view.
    Came,
    /// It left.
    Left,
}

/// The connected proxies as analysis sees them.
#[derive(Default)]
struct Connected {
    /// How many proxies have these labels.
    proxies: FxHashMap<(Namespace, Labels), usize>,
    stated: snapshot::Connected,
}

impl Connected {
    /// Takes in what became of proxies, and adds the inputs that changed.
    fn take_in(
        &mut self,
        proxies: Vec<(Namespace, Labels, Seen)>,
        changed: &mut FxHashSet<InputKey>,
    ) {
        for (namespace, labels, seen) in proxies {
            let key = (namespace, labels);
            let count = self.proxies.entry(key.clone()).or_default();
            let before = *count;
            *count = match seen {
                Seen::Came => before + 1,
                Seen::Left => before.saturating_sub(1),
            };
            let after = *count;
            if after == 0 {
                self.proxies.remove(&key);
            }
            if (before == 0) == (after == 0) {
                continue;
            }
            let (namespace, labels) = key;
            let now = self.stated.get(&namespace).cloned();
            let known = now.is_some();
            let mut now = now.unwrap_or_default();
            let of_namespace = Arc::make_mut(&mut now);
            match after {
                0 => of_namespace.remove(&labels),
                _ => of_namespace.insert(labels),
            };
            changed.insert(Input::Connected(&namespace).key());
            if now.is_empty() {
                changed.insert(Input::ConnectedNamespaces.key());
                self.stated.remove_mut(&namespace);
            } else {
                if !known {
                    changed.insert(Input::ConnectedNamespaces.key());
                }
                self.stated.insert_mut(namespace, now);
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    woken: Condvar,
    latest: Mutex<Analyzed>,
    judged: watch::Sender<Option<Arc<Judged>>>,
}

/// The way to the analysis thread. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub struct Analyst {
    shared: Arc<Shared>,
    _stop: Arc<StopOnDrop>,
}

struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        lock(&self.0.waiting).stopping = true;
        self.0.woken.notify_all();
    }
}

/// A panic elsewhere leaves the value as it was: it is replaced whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Analyst {
    /// Starts the thread, with nothing to analyse yet.
    ///
    /// # Errors
    ///
    /// When the system has no room for another thread.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        std::thread::Builder::new()
            .name("analyze".into())
            .stack_size(16 << 20)
            .spawn(move || run(&of_thread))?;
        Ok(Self {
            _stop: Arc::new(StopOnDrop(shared.clone())),
            shared,
        })
    }

    /// Hands over a snapshot with the inputs that differ from the one before. Costs what changed.
    pub fn changed(&self, snapshot: Arc<Snapshot>, keys: &[InputKey]) {
        let mut waiting = lock(&self.shared.waiting);
        waiting.newest = snapshot.revision;
        waiting.snapshot = Some(snapshot);
        waiting.changed.extend(keys);
        waiting.last = Some(Instant::now());
        drop(waiting);
        self.shared.woken.notify_all();
    }

    /// Hands over what became of a proxy. Costs a look at a lock, and wakes the thread for the first of many only.
    pub fn seen(&self, namespace: &Namespace, labels: &Labels, seen: Seen) {
        let mut waiting = lock(&self.shared.waiting);
        let (namespace, labels) = (namespace.clone(), labels.clone());
        waiting.proxies.push((namespace, labels, seen));
        let sleeps = waiting.last.replace(Instant::now()).is_none();
        drop(waiting);
        if sleeps {
            self.shared.woken.notify_all();
        }
    }

    /// The revision of the newest snapshot that was handed over.
    pub fn newest(&self) -> u64 {
        lock(&self.shared.waiting).newest
    }

    /// Each analysis with what it is of, the latest one at any time.
    pub fn judged(&self) -> watch::Receiver<Option<Arc<Judged>>> {
        self.shared.judged.subscribe()
    }

    /// The latest analysis, and whether nothing has changed since.
    pub fn latest(&self) -> (Analyzed, bool) {
        let waiting = lock(&self.shared.waiting);
        let current = waiting.snapshot.is_none() && waiting.proxies.is_empty() && !waiting.busy;
        drop(waiting);
        (lock(&self.shared.latest).clone(), current)
    }
}

fn run(shared: &Shared) {
    // Best effort: without it analysis competes as an equal.
    let _ = rustix::process::nice(NICE);
    let mut engine = Engine::new();
    engine.root(&Analysis);
    let mut connected = Connected::default();
    let mut latest: Option<Arc<Snapshot>> = None;
    while let Some(Next {
        snapshot,
        mut changed,
        proxies,
    }) = next(shared)
    {
        let start = Instant::now();
        connected.take_in(proxies, &mut changed);
        // Proxies that come before there are objects are taken in with these.
        let Some(snapshot) = snapshot.or_else(|| latest.take()) else {
            let mut waiting = lock(&shared.waiting);
            waiting.changed.extend(changed);
            waiting.busy = false;
            continue;
        };
        latest = Some(snapshot.clone());
        let snapshot = Snapshot {
            connected: connected.stated.clone(),
            ..(*snapshot).clone()
        };
        let before = engine.stats().runs;
        engine.commit(changed);
        let found = catch_unwind(AssertUnwindSafe(|| engine.get(&snapshot, &Analysis)));
        engine.collect();
        let Ok(found) = found else {
            tracing::error!("Analysis panicked; the previous result stays on display.");
            finished(shared, &snapshot);
            continue;
        };
        let wanted = Wanted::default();
        let placed = found.iter().map(|finding| finding.placed(&snapshot));
        let findings = placed.filter(|finding| {
            let key = finding.diagnostic.object.as_ref();
            let object = key.and_then(|k| snapshot.tables.get_any(k.kind, &k.name));
            wanted.wants(finding, object.as_ref())
        });
        let analyzed = Analyzed {
            revision: snapshot.revision,
            findings: Arc::new(findings.collect()),
            took: start.elapsed(),
            runs: engine.stats().runs - before,
        };
        tracing::debug!(
            revision = analyzed.revision,
            findings = analyzed.findings.len(),
            ms = u64::try_from(analyzed.took.as_millis()).unwrap_or(u64::MAX),
            "Analysed."
        );
        *lock(&shared.latest) = analyzed.clone();
        shared.judged.send_replace(Some(Arc::new(Judged {
            snapshot: Arc::new(snapshot.clone()),
            analyzed,
        })));
        finished(shared, &snapshot);
    }
}

/// What is to be analysed.
struct Next {
    /// `None` where no object changed.
    snapshot: Option<Arc<Snapshot>>,
    changed: FxHashSet<InputKey>,
    proxies: Vec<(Namespace, Labels, Seen)>,
}

/// Forgets the snapshot that was analysed, if no newer one has come.
fn finished(shared: &Shared, analyzed: &Snapshot) {
    let mut waiting = lock(&shared.waiting);
    waiting.busy = false;
    let newest = waiting.snapshot.as_ref();
    if newest.is_some_and(|s| s.revision == analyzed.revision) && waiting.changed.is_empty() {
        waiting.snapshot = None;
    }
}

/// Waits for changes to come and to cease; `None` when the process ends.
fn next(shared: &Shared) -> Option<Next> {
    let mut waiting = lock(&shared.waiting);
    let mut first = None;
    loop {
        if waiting.stopping {
            return None;
        }
        let wait = match waiting.last {
            None => None,
            Some(last) => {
                let first = *first.get_or_insert_with(Instant::now);
                let quiet = QUIET.saturating_sub(last.elapsed());
                Some(quiet.min(LONGEST_WAIT.saturating_sub(first.elapsed())))
            }
        };
        match wait {
            Some(Duration::ZERO) => {
                waiting.last = None;
                waiting.busy = true;
                return Some(Next {
                    snapshot: waiting.snapshot.clone(),
                    changed: std::mem::take(&mut waiting.changed),
                    proxies: std::mem::take(&mut waiting.proxies),
                });
            }
            Some(wait) => {
                let woken = shared.woken.wait_timeout(waiting, wait);
                waiting = woken.map_or_else(|e| e.into_inner().0, |(guard, _)| guard);
            }
            None => {
                let woken = shared.woken.wait(waiting);
                waiting = woken.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use model::{Change, Owner};
    use store::Store;
    use testkit::{World, settings};

    use model::labels::Labels;

    use super::{Analyst, Seen};

    /// Waits, much longer than it takes, until the analysis is of that revision.
    fn codes_at(analyst: &Analyst, revision: u64) -> Vec<&'static str> {
        let start = Instant::now();
        loop {
            let (analyzed, current) = analyst.latest();
            if current && analyzed.revision == revision {
                return analyzed.current().map(|f| f.diagnostic.code).collect();
            }
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "nothing is analysed"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn what_is_handed_over_is_analysed_and_analysed_again_when_it_changes() {
        let source = Owner::new(0, "test");
        let mut store = Store::new(settings("").into());
        let analyst = Analyst::start().unwrap();
        let mut put = |yaml: &str| {
            let objects = World::objects(yaml).into_iter();
            let changed = store.apply(objects.map(|o| Change::Put(source.clone(), o)));
            analyst.changed(store.snapshot(), &changed.keys);
            codes_at(&analyst, store.snapshot().revision)
        };
        let route = "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: v}, spec: {hosts: [h.com], http: [{route: [{destination: {host: a}}]}]}}";
        assert_eq!(put(route), ["IST0101"]);
        let service = "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{name: http, port: 80}]}}";
        assert_eq!(put(service), [""; 0]);
    }

    #[test]
    fn what_an_object_says_is_not_wanted_is_left_out() {
        let mut store = Store::new(settings("").into());
        let analyst = Analyst::start().unwrap();
        let route = "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: v, annotations: {galley.istio.io/analyze-suppress: IST0101}}, spec: {hosts: [h.com], gateways: [g], http: [{route: [{destination: {host: a}}]}]}}";
        let source = Owner::new(0, "test");
        let objects = World::objects(route).into_iter();
        let changed = store.apply(objects.map(|o| Change::Put(source.clone(), o)));
        analyst.changed(store.snapshot(), &changed.keys);
        assert_eq!(codes_at(&analyst, store.snapshot().revision), ["IST0132"]);
    }

    #[test]
    fn connected_proxies_are_workloads_until_the_last_of_them_leaves() {
        let labels: Labels = [("app", "cart")].into_iter().collect();
        let seen = |analyst: &Analyst, namespace: &str, seen| {
            analyst.seen(&namespace.into(), &labels, seen);
        };
        let source = Owner::new(0, "test");
        let mut store = Store::new(settings("").into());
        let analyst = Analyst::start().unwrap();
        // Proxies may be there before any object is.
        seen(&analyst, "elsewhere", Seen::Came);
        let sidecar = "{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: s, namespace: shop}, spec: {workloadSelector: {labels: {app: cart}}}}";
        let objects = World::objects(sidecar).into_iter();
        let changed = store.apply(objects.map(|o| Change::Put(source.clone(), o)));
        analyst.changed(store.snapshot(), &changed.keys);
        let revision = store.snapshot().revision;
        assert_eq!(codes_at(&analyst, revision), ["IST0101"]);
        // Two proxies with the same labels.
        seen(&analyst, "shop", Seen::Came);
        assert_eq!(codes_at(&analyst, revision), [""; 0]);
        seen(&analyst, "shop", Seen::Came);
        seen(&analyst, "shop", Seen::Left);
        assert_eq!(codes_at(&analyst, revision), [""; 0]);
        seen(&analyst, "shop", Seen::Left);
        assert_eq!(codes_at(&analyst, revision), ["IST0101"]);
    }
}
