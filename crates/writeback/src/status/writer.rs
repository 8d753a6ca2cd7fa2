//! Keeps the statuses of objects as they are wanted, while this replica leads.
//!
//! Each object has at most one write under way and at most one a second, and of several wanted statuses only the newest is
//! written. What a status
//! holds is known from a list when this replica begins to lead and again every few minutes, and from each answer; nothing
//! is written that is known to be there. Each write replaces the version that was read just before, so what others write
//! meanwhile is read again and kept. An object whose field others keep changing is left to them for longer and longer.
//!
//! Grants needed for each kind: `get` and `list` of the kind, `update` of its `/status`.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use model::{Kind, ObjectKey};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Known, Statuses, Step, Wanted};
use crate::lead::{Leading, Led};
use crate::pace::Pace;
use crate::place::{ObjectRef, Part, Place, WriteError};

/// How often an object that changes meanwhile is read again at once.
const REREADS: usize = 3;
/// The first pause after a failure; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the same is written over what others wrote before they are let be.
const ROUNDS: u32 = 3;
/// How long others are let be at first; then twice as long each time.
const TRUCE: Duration = Duration::from_secs(600);
/// How long others are let be at most.
const LONGEST_TRUCE: Duration = Duration::from_secs(6 * 3600);

/// How much is written at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Objects a second that are read and written.
    pub per_second: f64,
    /// Objects that may be written at once after a quiet time.
    pub burst: u32,
    /// Objects that are read and written at the same time.
    pub workers: usize,
    /// How often all statuses are read again, to find what others have changed.
    pub resync: Duration,
    /// How long an object is let be after a write; then the newest status that is wanted is written.
    pub interval: Duration,
}

impl Default for Options {
    /// Istio: the status writer of 1.10 and later: 100 a second, 500 at once, 100 workers.
    fn default() -> Self {
        Self {
            per_second: 100.0,
            burst: 500,
            workers: 100,
            resync: Duration::from_secs(300),
            interval: Duration::from_secs(1),
        }
    }
}

/// What a writer has to tell.
#[derive(Clone, PartialEq, Debug)]
pub enum Event<'a> {
    /// A status was written.
    Written(&'a ObjectKey),
    /// The API refuses a status, or the object is not there under any version that is known.
    Refused(&'a ObjectKey, &'a WriteError),
    /// Others keep changing what is written, and are let be for this long.
    Contended(&'a ObjectKey, Duration),
    /// A status could not be written now, and is tried again.
    Failed(&'a ObjectKey, &'a WriteError),
    /// So many statuses wait to be written.
    Waiting(usize),
}

/// Hears what a writer has to tell.
pub type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// Writes statuses to one place.
pub struct StatusWriter {
    place: Arc<dyn Place>,
    leading: Leading,
    wanted: watch::Receiver<Statuses>,
    options: Options,
    listener: Listener,
}

impl StatusWriter {
    /// A writer of what is wanted, to a place that it leads on.
    pub fn new(
        place: &Arc<dyn Place>,
        leading: &Leading,
        wanted: watch::Receiver<Statuses>,
        options: Options,
        listener: Listener,
    ) -> Self {
        Self {
            place: leading.guard(place.clone()),
            leading: leading.clone(),
            wanted,
            options,
            listener,
        }
    }

    /// Writes until `stop`, or nobody can want anything any more.
    pub async fn run(self, stop: CancellationToken) {
        self.leading.clone().work(self, &stop).await;
    }
}

impl Led for StatusWriter {
    /// Ends when nobody can want anything any more.
    async fn lead(&mut self) {
        let mut desk = Desk::new(self.wanted.borrow_and_update().clone(), self.options);
        desk.read_all(&*self.place).await;
        let mut resync = Instant::now() + self.options.resync;
        let mut under_way: FuturesUnordered<BoxFuture<'_, Done>> = FuturesUnordered::new();
        loop {
            let mut stale = Instant::now() >= resync;
            if stale && under_way.is_empty() {
                desk.read_all(&*self.place).await;
                resync = Instant::now() + self.options.resync;
                stale = false;
            }
            let most = self.options.workers.max(1);
            while !stale
                && under_way.len() < most
                && let Some(job) = desk.next_job()
            {
                under_way.push(Box::pin(job.run(self.place.clone())));
            }
            (self.listener)(Event::Waiting(desk.queue.len() + under_way.len()));
            // Where everybody is busy, or is to come to an end, the next answer wakes us.
            let busy = stale || under_way.len() >= most;
            let wake = desk.wake().unwrap_or(resync).min(resync);
            tokio::select! {
                Some(done) = under_way.next() => desk.finish(done, &self.listener),
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let wanted = self.wanted.borrow_and_update().clone();
                    desk.want(wanted);
                    if desk.has_unread() {
                        // A list tells at once what else would be read one by one.
                        resync = Instant::now();
                    }
                }
                () = tokio::time::sleep_until(wake), if !busy => {}
            }
        }
    }

    fn lost(&mut self) {
        (self.listener)(Event::Waiting(0));
    }
}

/// An object to be looked after.
struct Job {
    key: ObjectKey,
    wanted: Arc<Wanted>,
    object: ObjectRef,
}

/// What became of it.
struct Done {
    key: ObjectKey,
    wanted: Arc<Wanted>,
    result: Result<Outcome, WriteError>,
}

enum Outcome {
    /// The status holds what was wanted.
    Kept(Known),
    /// It does now.
    Written(Known),
    /// It is newer than what the wanted status was derived from.
    Wait,
}

impl Job {
    async fn run(self, place: Arc<dyn Place>) -> Done {
        let mut result = Err(WriteError::Conflict);
        for _ in 0..REREADS {
            result = self.once(&*place).await;
            if !matches!(result, Err(WriteError::Conflict)) {
                break;
            }
        }
        Done {
            key: self.key,
            wanted: self.wanted,
            result,
        }
    }

    async fn once(&self, place: &dyn Place) -> Result<Outcome, WriteError> {
        let now = place.get(&self.object).await?.ok_or(WriteError::Missing)?;
        Ok(match self.wanted.step(&now, &time()) {
            Step::Keep => Outcome::Kept(Known::of(&now, &self.wanted)),
            Step::Wait => Outcome::Wait,
            Step::Write(next) => {
                let stored = place.replace(&self.object, Part::Status, next).await?;
                Outcome::Written(Known::of(&stored, &self.wanted))
            }
        })
    }
}

/// The time, as conditions tell it.
fn time() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    model::civil::timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// What is known of an object besides its status.
#[derive(Default)]
struct Record {
    failures: u32,
    /// What was written last, and how often.
    last: Option<(Arc<Wanted>, u32)>,
    /// Not before then, unless something else is wanted.
    hold: Option<Instant>,
    /// Not before then: something was written just before.
    rest: Option<Instant>,
}

/// What waits, what is under way, and what is known.
struct Desk {
    wanted: Statuses,
    known: BTreeMap<ObjectKey, Known>,
    records: BTreeMap<ObjectKey, Record>,
    /// Since when each object may be looked after.
    queue: BTreeMap<ObjectKey, Instant>,
    due: BTreeSet<(Instant, ObjectKey)>,
    under_way: BTreeSet<ObjectKey>,
    /// The version that each kind is written in.
    versions: BTreeMap<Kind, &'static str>,
    /// The kinds of which all statuses were read, as far as that is possible.
    read: BTreeSet<Kind>,
    pace: Pace,
    interval: Duration,
}

impl Desk {
    fn new(wanted: Statuses, options: Options) -> Self {
        Self {
            wanted,
            known: BTreeMap::new(),
            records: BTreeMap::new(),
            queue: BTreeMap::new(),
            due: BTreeSet::new(),
            under_way: BTreeSet::new(),
            versions: BTreeMap::new(),
            read: BTreeSet::new(),
            pace: Pace::new(options.per_second, options.burst),
            interval: options.interval,
        }
    }

    /// Takes up other wants: costs a look at each, and work for those that differ.
    fn want(&mut self, wanted: Statuses) {
        let before = std::mem::replace(&mut self.wanted, wanted);
        for key in differing(&before, &self.wanted) {
            self.dequeue(&key);
            if !self.wanted.contains_key(&key) {
                self.known.remove(&key);
                self.records.remove(&key);
                continue;
            }
            if let Some(record) = self.records.get_mut(&key) {
                record.hold = None;
                record.failures = 0;
            }
            self.consider(&key);
        }
    }

    /// Reads every status, and looks after those that are not as wanted. What cannot be listed is read one by one.
    async fn read_all(&mut self, place: &dyn Place) {
        let kinds: BTreeSet<Kind> = self.wanted.keys().map(|key| key.kind).collect();
        for kind in kinds {
            self.read.insert(kind);
            if let Err(error) = self.read_kind(place, kind).await {
                tracing::info!(kind = kind.name(), %error, "Statuses cannot be listed; each is read before it is written.");
            }
        }
        let all = self.wanted.clone();
        for key in all.keys() {
            self.consider(key);
        }
    }

    /// Whether an object waits of whose kind not all statuses were read.
    fn has_unread(&self) -> bool {
        self.queue.keys().any(|key| !self.read.contains(&key.kind))
    }

    async fn read_kind(&mut self, place: &dyn Place, kind: Kind) -> Result<(), WriteError> {
        let mut result = Err(WriteError::Missing);
        for version in kind.versions() {
            self.versions.insert(kind, version);
            result = self.read_version(place, kind).await;
            if result != Err(WriteError::Missing) {
                return result;
            }
        }
        self.versions.remove(&kind);
        result
    }

    async fn read_version(&mut self, place: &dyn Place, kind: Kind) -> Result<(), WriteError> {
        let object = self.object(&ObjectKey {
            kind,
            name: model::ObjectName::default(),
        });
        let mut next = None;
        loop {
            let page = place.list(&object, next.as_deref()).await?;
            for item in &page.items {
                let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
                let name = model::ObjectName::new(text("namespace"), text("name"));
                let key = ObjectKey { kind, name };
                let Some(wanted) = self.wanted.get(&key) else {
                    continue;
                };
                if !self.under_way.contains(&key) {
                    self.known.insert(key, Known::of(item, wanted));
                }
            }
            match page.next {
                Some(token) => next = Some(token),
                None => return Ok(()),
            }
        }
    }

    fn object(&self, key: &ObjectKey) -> ObjectRef {
        let mut object = ObjectRef::of(key.kind, &key.name);
        if let Some(version) = self.versions.get(&key.kind) {
            object.version = (*version).into();
        }
        object
    }

    /// Sees to it that an object is looked after if it is not known to hold what is wanted.
    fn consider(&mut self, key: &ObjectKey) {
        let Some(wanted) = self.wanted.get(key) else {
            return;
        };
        if self.under_way.contains(key) {
            return;
        }
        let namespace = &key.name.namespace;
        let known = self.known.get(key);
        if known.is_some_and(|known| known.holds(wanted, namespace)) {
            self.dequeue(key);
            return;
        }
        let record = self.records.get(key);
        let holds = record.map(|record| [record.hold, record.rest]);
        let holds = holds.into_iter().flatten().flatten();
        let at = holds.fold(Instant::now(), Instant::max);
        if !self.queue.contains_key(key) {
            self.queue.insert(key.clone(), at);
            self.due.insert((at, key.clone()));
        }
    }

    fn dequeue(&mut self, key: &ObjectKey) {
        if let Some(at) = self.queue.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }

    /// When there may be a job.
    fn wake(&self) -> Option<Instant> {
        let (at, _) = self.due.first()?;
        Some(self.pace.next().max(*at))
    }

    fn next_job(&mut self) -> Option<Job> {
        let now = Instant::now();
        let (at, key) = self.due.first()?.clone();
        if at > now || !self.pace.take(now) {
            return None;
        }
        self.dequeue(&key);
        let wanted = self.wanted.get(&key)?.clone();
        self.under_way.insert(key.clone());
        Some(Job {
            object: self.object(&key),
            wanted,
            key,
        })
    }

    fn finish(&mut self, done: Done, listener: &Listener) {
        let Done {
            key,
            wanted,
            result,
        } = done;
        self.under_way.remove(&key);
        if !self.wanted.contains_key(&key) {
            return;
        }
        let record = self.records.entry(key.clone()).or_default();
        let now = Instant::now();
        match result {
            Ok(Outcome::Kept(known)) => {
                record.failures = 0;
                record.hold = None;
                self.known.insert(key.clone(), known);
            }
            Ok(Outcome::Written(known)) => {
                listener(Event::Written(&key));
                let truce = record.written(wanted, now);
                record.rest = Some(now + self.interval);
                if let Some(truce) = truce {
                    listener(Event::Contended(&key, truce));
                }
                self.known.insert(key.clone(), known);
            }
            Ok(Outcome::Wait) => record.fail(now),
            Err(error @ (WriteError::Refused(_) | WriteError::Missing)) => {
                // A missing object soon ceases to be wanted.
                listener(Event::Refused(&key, &error));
                record.hold = Some(now + TRUCE);
            }
            Err(error) => {
                if error != WriteError::NotLeading {
                    listener(Event::Failed(&key, &error));
                }
                record.fail(now);
            }
        }
        self.consider(&key);
    }
}

/// The objects of which two have different wants.
fn differing(before: &Statuses, now: &Statuses) -> Vec<ObjectKey> {
    let mut found = Vec::new();
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (before.peek(), now.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return found,
        };
        let then = before.next_if(|_| order.is_le());
        let next = now.next_if(|_| order.is_ge());
        let key = match (then, next) {
            (Some((_, a)), Some((_, b))) if Arc::ptr_eq(a, b) || a == b => continue,
            (Some((key, _)), _) | (None, Some((key, _))) => key,
            (None, None) => return found,
        };
        found.push(key.clone());
    }
}

impl Record {
    fn fail(&mut self, now: Instant) {
        let pause = SHORTEST_PAUSE * 2u32.pow(self.failures.min(10));
        self.failures += 1;
        self.hold = Some(now + pause.min(LONGEST_PAUSE));
    }

    /// Notes what was written; tells how long others are to be let be from now on, if they changed it too often.
    fn written(&mut self, wanted: Arc<Wanted>, now: Instant) -> Option<Duration> {
        self.failures = 0;
        self.hold = None;
        let rounds = match &self.last {
            Some((last, rounds)) if *last == wanted => rounds + 1,
            _ => 1,
        };
        self.last = Some((wanted, rounds));
        if rounds <= ROUNDS {
            return None;
        }
        let truce = TRUCE * 2u32.pow((rounds - ROUNDS - 1).min(10));
        let truce = truce.min(LONGEST_TRUCE);
        self.hold = Some(now + truce);
        Some(truce)
    }
}
