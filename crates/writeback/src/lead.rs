//! Who may write, and until when: what an election tells, and a place that heeds it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::place::{ObjectRef, Page, Part, Place, WriteError};

/// How many writes may be under way through one election.
const WRITES: u32 = 1024;

/// Who leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lead {
    /// This replica.
    Ours(Term),
    /// Another replica, by its name; empty where nobody is known to lead.
    Theirs(Arc<str>),
}

/// A time during which this replica leads without a break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    /// Which one; each has another number.
    pub number: u64,
    /// When it ends unless it is renewed; `None` where nobody else could lead.
    pub end: Option<Deadline>,
}

/// The end of a term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// No write begins after this.
    pub last_begin: Instant,
    /// No write is waited for after this, as another replica may lead.
    pub end: Instant,
}

/// What is known of an election. Clones share it.
#[derive(Clone, Debug)]
pub struct Leading {
    state: watch::Receiver<Lead>,
    writes: Arc<Semaphore>,
    /// Held where there is no election that would hold it.
    _always: Option<Arc<watch::Sender<Lead>>>,
}

/// Work that only the leader does.
pub(crate) trait Led {
    /// Works while this replica leads, and is dropped when it no longer does; ends when there is nothing to do any more.
    fn lead(&mut self) -> impl Future<Output = ()> + Send;

    /// Another replica leads from here on, or may.
    fn lost(&mut self);
}

/// The end of [`Leading`] that the election has.
#[derive(Debug)]
pub(crate) struct Announcer {
    state: watch::Sender<Lead>,
    writes: Arc<Semaphore>,
}

impl Announcer {
    pub(crate) fn new() -> (Self, Leading) {
        let (state, told) = watch::channel(Lead::Theirs("".into()));
        let writes = Arc::new(Semaphore::new(WRITES as usize));
        let leading = Leading {
            state: told,
            writes: writes.clone(),
            _always: None,
        };
        (Self { state, writes }, leading)
    }

    /// Tells who leads.
    pub(crate) fn tell(&self, lead: Lead) {
        self.state.send_if_modified(|known| {
            let differs = *known != lead;
            *known = lead;
            differs
        });
    }

    /// Waits until no write is under way, after it was told that this replica does not lead.
    pub(crate) async fn quiet(&self) {
        let all = self.writes.acquire_many(WRITES).await;
        drop(all);
    }
}

impl Leading {
    /// Leads for good: for a place that no other process writes.
    pub fn always() -> Self {
        let term = Term {
            number: 1,
            end: None,
        };
        let (keep, state) = watch::channel(Lead::Ours(term));
        Self {
            state,
            writes: Arc::new(Semaphore::new(WRITES as usize)),
            _always: Some(Arc::new(keep)),
        }
    }

    /// Who leads now.
    pub fn now(&self) -> Lead {
        self.state.borrow().clone()
    }

    /// The term in which a write may begin now, if any.
    pub fn term(&self) -> Option<Term> {
        match *self.state.borrow() {
            Lead::Ours(term) => term
                .end
                .is_none_or(|at| Instant::now() < at.last_begin)
                .then_some(term),
            Lead::Theirs(_) => None,
        }
    }

    /// Waits until this replica leads, and returns the number of the term; never returns once the election has ended.
    pub async fn begun(&mut self) -> u64 {
        loop {
            if let Lead::Ours(term) = *self.state.borrow_and_update() {
                return term.number;
            }
            if self.state.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until a term has ended.
    pub async fn ended(&mut self, number: u64) {
        let other = |lead: &Lead| !matches!(lead, Lead::Ours(term) if term.number == number);
        // An election that has ended leads no more.
        let _ = self.state.wait_for(other).await;
    }

    /// Lets a worker work whenever this replica leads, until `stop` or it is done.
    pub(crate) async fn work(mut self, mut worker: impl Led, stop: &CancellationToken) {
        loop {
            let number = tokio::select! {
                number = self.begun() => number,
                () = stop.cancelled() => return,
            };
            tokio::select! {
                () = worker.lead() => return,
                () = self.ended(number) => {}
                () = stop.cancelled() => return,
            }
            worker.lost();
        }
    }

    /// The same place, written only while this replica leads.
    pub fn guard(&self, place: Arc<dyn Place>) -> Arc<dyn Place> {
        Arc::new(Guarded {
            place,
            leading: self.clone(),
        })
    }
}

/// A place that is read at any time, and written by the leader alone.
struct Guarded {
    place: Arc<dyn Place>,
    leading: Leading,
}

impl Guarded {
    async fn write<T>(
        &self,
        doing: impl Future<Output = Result<T, WriteError>> + Send,
    ) -> Result<T, WriteError> {
        let writes = &self.leading.writes;
        let _under_way = writes.acquire().await.map_err(|_| WriteError::NotLeading)?;
        let term = self.leading.term().ok_or(WriteError::NotLeading)?;
        let Some(deadline) = term.end else {
            return doing.await;
        };
        let done = tokio::time::timeout_at(deadline.end, doing).await;
        done.unwrap_or_else(|_| {
            let why = "the lease has run out before the answer came";
            Err(WriteError::Unavailable(why.to_owned()))
        })
    }
}

impl Place for Guarded {
    fn name(&self) -> &str {
        self.place.name()
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, WriteError>> {
        self.place.get(object)
    }

    fn list<'a>(
        &'a self,
        object: &'a ObjectRef,
        next: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page, WriteError>> {
        self.place.list(object, next)
    }

    fn create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(self.write(self.place.create(object, value)))
    }

    fn try_create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        self.place.try_create(object, value)
    }

    fn replace<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(self.write(self.place.replace(object, part, value)))
    }

    fn apply<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
        manager: &'a str,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(self.write(self.place.apply(object, part, value, manager)))
    }

    fn delete<'a>(
        &'a self,
        object: &'a ObjectRef,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(self.write(self.place.delete(object, version)))
    }
}

/// How long a lease that is not renewed keeps others away. Less than its duration, so that even who sees the last renewal
/// late writes within one duration after it.
pub(crate) fn kept(duration: Duration) -> Duration {
    duration * 9 / 10
}

/// The deadline of a lease of some duration that was asked for at `asked`. Others wait for as long as it is kept after they
/// see it, and they cannot see it before it is asked for.
pub(crate) fn deadline(asked: Instant, duration: Duration) -> Deadline {
    Deadline {
        last_begin: asked + duration * 8 / 10,
        end: asked + kept(duration),
    }
}
