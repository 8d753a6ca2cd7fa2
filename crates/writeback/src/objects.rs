//! Keeps objects as they are wanted, while this replica leads.
//!
//! What is wanted are the objects that are known to be otherwise, so an object that is as it should be costs nothing. Each has
//! at most one write under way, replaces the version that was read just before, and keeps what others write into it. An object
//! that others keep changing back is left to them for longer and longer.
//!
//! Grants needed for each kind: `get`, `create` and `update`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lead::{Leading, Led};
use crate::pace::Pace;
use crate::place::{ObjectRef, Part, Place, WriteError};

/// How often an object that changes meanwhile is read again at once.
const REREADS: usize = 3;
/// Objects a second that are read and written, and at once after a quiet time.
const PACE: (f64, u32) = (50.0, 100);
/// Objects that are read and written at the same time.
const WORKERS: usize = 8;
/// How long a write may take to be seen by whoever knows what is wanted.
const ECHO: Duration = Duration::from_secs(10);
/// How long others are let be at most that keep changing an object back, and what an API refuses.
const LONGEST_TRUCE: Duration = Duration::from_secs(3600);
/// The first pause after a failure; each further one is twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often the same is written within the memory before others are let be.
const ROUNDS: u32 = 3;
/// How long an object is let be that was found to be as it is wanted: it is not known from elsewhere.
const RESYNC: Duration = Duration::from_secs(300);
/// How long it is remembered what was written.
const MEMORY: Duration = Duration::from_secs(2 * 3600);

/// What an object is to be.
pub trait Wish: PartialEq + Send + Sync + 'static {
    /// The object as it is to be, given what it is; `None` if that is so already, or it has to be left alone.
    fn over(&self, now: Option<&Value>) -> Option<Value>;
}

/// An object that is not as it is to be.
#[derive(Clone, PartialEq, Debug)]
pub struct Unmet<W> {
    /// What it is to be.
    pub wish: W,
    /// Whether there is such an object.
    pub exists: bool,
}

/// Objects that are not as they are to be. Clones share them.
pub type Wanted<W> = Arc<BTreeMap<ObjectRef, Arc<Unmet<W>>>>;

/// What a writer has to tell.
#[derive(Clone, PartialEq, Debug)]
pub enum Event<'a> {
    /// An object was written.
    Written(&'a ObjectRef),
    /// The API refuses it; it is tried again after this time.
    Refused(&'a ObjectRef, &'a WriteError, Duration),
    /// Others keep changing what is written, and are let be for this long.
    Contended(&'a ObjectRef, Duration),
    /// It could not be written now, and is tried again.
    Failed(&'a ObjectRef, &'a WriteError),
}

/// Hears what a writer has to tell.
pub type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// Writes objects to one place.
pub struct ObjectWriter<W> {
    place: Arc<dyn Place>,
    wanted: watch::Receiver<Wanted<W>>,
    listener: Listener,
}

impl<W: Wish> ObjectWriter<W> {
    /// A writer of what is wanted.
    pub fn new(
        place: &Arc<dyn Place>,
        leading: &Leading,
        wanted: watch::Receiver<Wanted<W>>,
        listener: Listener,
    ) -> Self {
        Self {
            place: leading.guard(place.clone()),
            wanted,
            listener,
        }
    }

    /// Writes while this replica leads, until `stop`, or nobody can want anything any more.
    pub async fn run(self, leading: Leading, stop: CancellationToken) {
        leading.work(self, &stop).await;
    }
}

impl<W: Wish> Led for ObjectWriter<W> {
    async fn lead(&mut self) {
        let mut desk = Desk {
            wanted: self.wanted.borrow_and_update().clone(),
            records: BTreeMap::new(),
            pace: Pace::new(PACE.0, PACE.1),
        };
        let mut under_way: FuturesUnordered<BoxFuture<'_, Done<W>>> = FuturesUnordered::new();
        loop {
            while under_way.len() < WORKERS
                && let Some((object, unmet)) = desk.next_job(Instant::now())
            {
                under_way.push(Box::pin(run(self.place.clone(), object, unmet)));
            }
            let busy = under_way.len() >= WORKERS;
            let wake = desk.wake(Instant::now());
            tokio::select! {
                Some(done) = under_way.next() => desk.finish(done, &self.listener, Instant::now()),
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let wanted = self.wanted.borrow_and_update().clone();
                    desk.want(wanted, Instant::now());
                }
                () = tokio::time::sleep_until(wake), if !busy => {}
            }
        }
    }

    fn lost(&mut self) {}
}

/// What became of an object.
struct Done<W> {
    object: ObjectRef,
    unmet: Arc<Unmet<W>>,
    /// Whether it was written.
    result: Result<bool, WriteError>,
}

async fn run<W: Wish>(place: Arc<dyn Place>, object: ObjectRef, unmet: Arc<Unmet<W>>) -> Done<W> {
    let mut exists = unmet.exists;
    let mut result = Err(WriteError::Conflict);
    for _ in 0..REREADS {
        result = once(&*place, &object, &unmet.wish, exists).await;
        match result {
            Err(WriteError::Exists) => exists = true,
            Err(WriteError::Conflict) => {}
            _ => break,
        }
    }
    Done {
        object,
        unmet,
        result,
    }
}

async fn once<W: Wish>(
    place: &dyn Place,
    object: &ObjectRef,
    wish: &W,
    exists: bool,
) -> Result<bool, WriteError> {
    let now = match exists {
        true => place.get(object).await?,
        false => None,
    };
    let Some(next) = wish.over(now.as_ref()) else {
        return Ok(false);
    };
    match now {
        Some(_) => place.replace(object, Part::Object, next).await?,
        None => place.create(object, next).await?,
    };
    Ok(true)
}

/// What is known of an object.
struct Record<W> {
    /// What was written last, and how often.
    last: Option<(Arc<Unmet<W>>, u32)>,
    failures: u32,
    /// When that was.
    at: Instant,
    /// Not before then; `None` while it is under way.
    hold: Option<Instant>,
}

struct Desk<W> {
    wanted: Wanted<W>,
    records: BTreeMap<ObjectRef, Record<W>>,
    pace: Pace,
}

impl<W: Wish> Desk<W> {
    /// The next object to be written.
    fn next_job(&mut self, now: Instant) -> Option<(ObjectRef, Arc<Unmet<W>>)> {
        // What is wanted anew goes before another look at what was tried.
        let is_new = |object: &ObjectRef, unmet: &Arc<Unmet<W>>| match self.records.get(object) {
            None => true,
            Some(record) => record.hold.is_some() && record.is_news(unmet),
        };
        let due = |object: &ObjectRef| {
            let record = self.records.get(object);
            record.is_some_and(|r| r.hold.is_some_and(|hold| hold <= now))
        };
        let new = self.wanted.iter().find(|(o, u)| is_new(o, u));
        let (object, unmet) = new.or_else(|| self.wanted.iter().find(|(o, _)| due(o)))?;
        let (object, unmet) = (object.clone(), unmet.clone());
        if !self.pace.take(now) {
            return None;
        }
        let record = self.records.entry(object.clone());
        let record = record.or_insert_with(|| Record {
            last: None,
            failures: 0,
            at: now,
            hold: None,
        });
        record.hold = None;
        Some((object, unmet))
    }

    /// When there may be a job.
    fn wake(&self, now: Instant) -> Instant {
        let far = now + LONGEST_TRUCE;
        let next =
            self.wanted
                .iter()
                .filter_map(|(object, unmet)| match self.records.get(object) {
                    None => Some(now),
                    Some(record) if record.hold.is_some() && record.is_news(unmet) => Some(now),
                    Some(record) => record.hold,
                });
        let next = next.min().unwrap_or(far);
        next.max(self.pace.next()).min(far)
    }

    fn finish(&mut self, done: Done<W>, listener: &Listener, now: Instant) {
        let Done {
            object,
            unmet,
            result,
        } = done;
        let Some(record) = self.records.get_mut(&object) else {
            return;
        };
        let before = std::mem::replace(&mut record.at, now);
        let hold = match result {
            Ok(wrote) => {
                record.failures = 0;
                let rounds = match &record.last {
                    Some((last, rounds)) if last.wish == unmet.wish && now - before < MEMORY => {
                        rounds + u32::from(wrote)
                    }
                    _ => 1,
                };
                record.last = Some((unmet, rounds));
                if wrote {
                    listener(Event::Written(&object));
                }
                let truce = ECHO * 2u32.pow(rounds.saturating_sub(ROUNDS).min(16));
                let truce = truce.min(LONGEST_TRUCE);
                if wrote && rounds > ROUNDS {
                    listener(Event::Contended(&object, truce));
                }
                match wrote {
                    true => truce,
                    false => truce.max(RESYNC),
                }
            }
            Err(error @ (WriteError::Refused(_) | WriteError::Missing)) => {
                let rounds = record.last.take().map_or(0, |(_, rounds)| rounds);
                record.last = Some((unmet, rounds));
                let pause = LONGEST_PAUSE * 2u32.pow(record.failures.min(16));
                let pause = pause.min(LONGEST_TRUCE);
                record.failures += 1;
                listener(Event::Refused(&object, &error, pause));
                pause
            }
            Err(error) => {
                if error != WriteError::NotLeading {
                    listener(Event::Failed(&object, &error));
                }
                let pause = SHORTEST_PAUSE * 2u32.pow(record.failures.min(16));
                let pause = pause.min(LONGEST_PAUSE);
                let rounds = record.last.take().map_or(0, |(_, rounds)| rounds);
                record.last = Some((unmet, rounds));
                record.failures += 1;
                pause
            }
        };
        record.hold = Some(now + hold);
    }

    /// Takes up other wants. What was written is known to have arrived once it is wanted no more.
    fn want(&mut self, wanted: Wanted<W>, now: Instant) {
        self.records.retain(|object, record| {
            if record.hold.is_none() || wanted.contains_key(object) {
                return true;
            }
            if record
                .last
                .as_ref()
                .is_none_or(|(_, rounds)| *rounds <= ROUNDS)
            {
                record.hold = Some(now);
            }
            now - record.at < MEMORY
        });
        self.wanted = wanted;
    }
}

impl<W: Wish> Record<W> {
    /// Whether something else is wanted than what was last tried.
    fn is_news(&self, unmet: &Unmet<W>) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|(last, _)| last.wish != unmet.wish)
    }
}

#[cfg(test)]
mod tests;
