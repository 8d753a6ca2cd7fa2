//! Applies sets of objects that belong to an owner, while this replica leads: server-side, each set as a whole and in turn.
//!
//! A set is applied when it is wanted anew, when this replica begins to lead, and when somebody says that one of its objects
//! differs from what was applied ([`Touched`]). An object that is there and somebody else's is left alone. Objects that
//! others keep changing back are left to them for longer and longer.
//!
//! Grants needed: `get` and `patch` for each kind, `create` for those that may be missing, `delete` for those that go; `get` of
//! the owner and `patch` of its status.

mod desk;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lead::{Leading, Led};
use crate::place::{ObjectRef, Part, Place, WriteError};
use desk::Desk;

/// How often an object that changes meanwhile is read again at once.
const REREADS: usize = 3;
/// Sets that are applied at the same time.
const WORKERS: usize = 8;
/// The objects of an owner.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Set {
    /// The identity of the owner. Nothing is applied for another object of its name.
    pub uid: Arc<str>,
    /// What is applied, in turn.
    pub objects: Vec<(ObjectRef, Value)>,
    /// What is not wanted, and goes if it is left over from what was applied before.
    pub unwanted: Vec<ObjectRef>,
}

/// All sets by their owner. Clones share them.
pub type Sets = Arc<BTreeMap<ObjectRef, Arc<Set>>>;

/// Whose an owner is.
#[derive(Clone, PartialEq, Debug)]
pub enum Claim {
    /// Ours.
    Held,
    /// Nobody's so far: this is applied to its status, then it is ours.
    Taken(Value),
    /// Somebody else's: nothing is applied for it.
    Theirs,
}

/// What is particular to the objects.
pub trait Manner: Send + Sync + 'static {
    /// The name under which managed fields record what is applied.
    fn manager(&self) -> &str;

    /// Whose an owner is.
    fn claim(&self, owner: &Value) -> Claim;

    /// An object as it is applied over the one that is there; `None` where that is somebody else's.
    fn over(&self, wanted: &Value, now: &Value) -> Option<Value>;

    /// Whether an object that is not wanted is left over from what was applied for an owner.
    fn is_left_over(&self, owner: &Value, now: &Value) -> bool;
}

/// What a writer has to tell, of the owner of a set.
#[derive(Clone, PartialEq, Debug)]
pub enum Event<'a> {
    /// All is as it is wanted.
    Applied(&'a ObjectRef),
    /// So it is but for these, which are somebody else's.
    Foreign(&'a ObjectRef, &'a [ObjectRef]),
    /// The API refuses an object; it is tried again after this time.
    Refused(&'a ObjectRef, &'a ObjectRef, &'a WriteError, Duration),
    /// Others keep changing what is applied, and are let be for this long.
    Contended(&'a ObjectRef, Duration),
    /// It could not be applied now, and is tried again.
    Failed(&'a ObjectRef, &'a ObjectRef, &'a WriteError),
}

/// Hears what a writer has to tell.
pub type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// Objects that were applied, for whoever hears of their changes. Clones share it.
#[derive(Clone, Default)]
pub struct Touched(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: Mutex<Known>,
    news: Notify,
}

#[derive(Default)]
struct Known {
    /// The owner of each object that was applied, and the object's fingerprint.
    applied: BTreeMap<ObjectRef, (ObjectRef, u64)>,
    /// Owners of objects that differ from what was applied.
    touched: BTreeSet<ObjectRef>,
}

impl Touched {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears that an object is this now; null if it is gone.
    pub fn tell(&self, object: &ObjectRef, now: &Value) {
        let mut known = self.known();
        let Some((owner, applied)) = known.applied.get(object).cloned() else {
            return;
        };
        if applied != fingerprint(now) && known.touched.insert(owner) {
            drop(known);
            self.0.news.notify_one();
        }
    }

    /// Objects that were applied.
    pub fn applied(&self) -> Vec<ObjectRef> {
        self.known().applied.keys().cloned().collect()
    }

    fn take(&self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut self.known().touched)
    }

    fn remember(&self, owner: &ObjectRef, applied: Vec<(ObjectRef, u64)>) {
        let mut known = self.known();
        known.applied.retain(|_, (of, _)| of != owner);
        let applied = applied.into_iter();
        let applied = applied.map(|(object, print)| (object, (owner.clone(), print)));
        known.applied.extend(applied);
        known.touched.remove(owner);
    }
}

/// What of an object people and controllers decide, in one number: not its status or version.
fn fingerprint(object: &Value) -> u64 {
    let Some(fields) = object.as_object() else {
        return 0;
    };
    let meta = &object["metadata"];
    let meta = ["uid", "labels", "annotations", "ownerReferences"].map(|field| &meta[field]);
    let rest = fields.iter().filter(|(name, _)| {
        !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status")
    });
    let rest: Vec<String> = rest.map(|(name, value)| format!("{name}{value}")).collect();
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    hasher.hash_one((meta.map(Value::to_string), rest))
}

/// Applies sets to one place.
pub struct SetWriter<M> {
    place: Arc<dyn Place>,
    manner: Arc<M>,
    wanted: watch::Receiver<Sets>,
    touched: Touched,
    listener: Listener,
}

impl<M: Manner> SetWriter<M> {
    /// A writer of what is wanted.
    pub fn new(
        place: &Arc<dyn Place>,
        leading: &Leading,
        manner: M,
        wanted: watch::Receiver<Sets>,
        touched: Touched,
        listener: Listener,
    ) -> Self {
        Self {
            place: leading.guard(place.clone()),
            manner: Arc::new(manner),
            wanted,
            touched,
            listener,
        }
    }

    /// Applies while this replica leads, until `stop`, or nobody can want anything any more.
    pub async fn run(self, leading: Leading, stop: CancellationToken) {
        leading.work(self, &stop).await;
    }
}

impl<M: Manner> Led for SetWriter<M> {
    async fn lead(&mut self) {
        let mut desk = Desk::new(self.wanted.borrow_and_update().clone());
        let mut under_way: FuturesUnordered<BoxFuture<'_, Done>> = FuturesUnordered::new();
        loop {
            while under_way.len() < WORKERS
                && let Some((owner, set)) = desk.next_job(Instant::now())
            {
                let work = Work {
                    place: self.place.clone(),
                    manner: self.manner.clone(),
                    owner,
                    set,
                };
                under_way.push(Box::pin(work.run()));
            }
            let busy = under_way.len() >= WORKERS;
            let wake = desk.wake(Instant::now());
            tokio::select! {
                Some(done) = under_way.next() => {
                    desk.finish(done, &self.touched, &self.listener, Instant::now());
                }
                changed = self.wanted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let wanted = self.wanted.borrow_and_update().clone();
                    desk.want(wanted, &self.touched);
                }
                () = self.touched.0.news.notified() => desk.touch(&self.touched.take(), Instant::now()),
                () = tokio::time::sleep_until(wake), if !busy => {}
            }
        }
    }

    fn lost(&mut self) {}
}

/// What became of a set.
struct Done {
    owner: ObjectRef,
    set: Arc<Set>,
    /// Nothing where the owner is gone, another one or somebody else's.
    result: Result<Option<Outcome>, (ObjectRef, WriteError)>,
}

#[derive(Default)]
struct Outcome {
    /// What was applied, with fingerprints.
    applied: Vec<(ObjectRef, u64)>,
    /// Whether something was otherwise before.
    differed: bool,
    foreign: Vec<ObjectRef>,
}

/// The application of one set.
struct Work<M> {
    place: Arc<dyn Place>,
    manner: Arc<M>,
    owner: ObjectRef,
    set: Arc<Set>,
}

impl<M: Manner> Work<M> {
    async fn run(self) -> Done {
        let result = self.all().await;
        Done {
            owner: self.owner,
            set: self.set,
            result,
        }
    }

    async fn all(&self) -> Result<Option<Outcome>, (ObjectRef, WriteError)> {
        let mut outcome = Outcome::default();
        let at = |object: &ObjectRef| {
            let object = object.clone();
            move |error| (object, error)
        };
        let owner = self.place.get(&self.owner).await.map_err(at(&self.owner))?;
        let is_it = |owner: &Value| {
            let meta = &owner["metadata"];
            meta["uid"] == *self.set.uid && meta["deletionTimestamp"].is_null()
        };
        // What is wanted for another one is about to be told, and of one that is gone nothing is left to do.
        let Some(owner) = owner.filter(is_it) else {
            return Ok(None);
        };
        match self.manner.claim(&owner) {
            Claim::Held => {}
            Claim::Theirs => return Ok(None),
            Claim::Taken(claim) => {
                let place = &self.place;
                let applied = place.apply(&self.owner, Part::Status, claim, self.manner.manager());
                applied.await.map_err(at(&self.owner))?;
            }
        }
        for (object, wanted) in &self.set.objects {
            match self.apply(object, wanted).await.map_err(at(object))? {
                Some((print, differed)) => {
                    outcome.applied.push((object.clone(), print));
                    outcome.differed |= differed;
                }
                None => outcome.foreign.push(object.clone()),
            }
        }
        for object in &self.set.unwanted {
            self.remove(object, &owner).await.map_err(at(object))?;
        }
        Ok(Some(outcome))
    }

    /// Applies an object. Its fingerprint, and whether it was otherwise before; `None` where it is somebody else's.
    async fn apply(
        &self,
        object: &ObjectRef,
        wanted: &Value,
    ) -> Result<Option<(u64, bool)>, WriteError> {
        let mut result = Err(WriteError::Conflict);
        for _ in 0..REREADS {
            let now = self.place.get(object).await?.unwrap_or_default();
            let next = match now.is_null() {
                true => Some(wanted.clone()),
                false => self.manner.over(wanted, &now),
            };
            let Some(mut next) = next else {
                return Ok(None);
            };
            let version = &now["metadata"]["resourceVersion"];
            if version.is_string() {
                next["metadata"]["resourceVersion"] = version.clone();
            }
            let manager = self.manner.manager();
            let applied = self.place.apply(object, Part::Object, next, manager).await;
            result = applied.map(|applied| {
                let differed = applied["metadata"]["resourceVersion"] != *version;
                Some((fingerprint(&applied), differed))
            });
            if result != Err(WriteError::Conflict) {
                break;
            }
        }
        result
    }

    async fn remove(&self, object: &ObjectRef, owner: &Value) -> Result<(), WriteError> {
        let Some(now) = self.place.get(object).await? else {
            return Ok(());
        };
        if !self.manner.is_left_over(owner, &now) {
            return Ok(());
        }
        let version = now["metadata"]["resourceVersion"].as_str();
        match self.place.delete(object, version).await {
            Err(WriteError::Missing) => Ok(()),
            other => other,
        }
    }
}

/// The metadata of an object that is annotated, and nothing else.
pub fn annotated(name: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {name: value}}})
}

#[cfg(test)]
mod tests;
