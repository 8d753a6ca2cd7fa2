//! The loop of sources that fetch what is wanted from many servers: what is wanted may change at any time, what has come is
//! fetched anew before it is old, and fetches run side by side as far as there is room.

use std::future::Future;

use model::Change;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::room::{FetchSlot, Limits, Room};
use source_api::{Sink, SourceEvent};

/// Fetches that are under way. Each comes to a `T`.
pub(crate) struct UnderWay<T> {
    pub(crate) room: Room,
    tasks: JoinSet<T>,
}

impl<T: Send + 'static> UnderWay<T> {
    /// Room for that many.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            room: Room::new(limits),
            tasks: JoinSet::new(),
        }
    }

    /// Begins one at its place.
    pub(crate) fn begin(
        &mut self,
        place: FetchSlot,
        fetch: impl Future<Output = T> + Send + 'static,
    ) -> Id {
        let task = self.tasks.spawn(fetch).id();
        self.room.take(task, place);
        task
    }

    /// Begins what remains to be done after one has ended. It needs no place.
    pub(crate) fn follow(&mut self, rest: impl Future<Output = T> + Send + 'static) -> Id {
        self.tasks.spawn(rest).id()
    }

    /// The next one that ends, and what it came to: nothing where it panicked. Never, if none is under way.
    async fn next(&mut self) -> (Id, Option<T>) {
        let Some(done) = self.tasks.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let (task, came) = match done {
            Ok((task, came)) => (task, Some(came)),
            Err(error) => (error.id(), None),
        };
        self.room.leave(task);
        (task, came)
    }
}

/// What is known of all that is wanted.
pub(crate) trait Keeping {
    /// What is to be fetched, and for whom.
    type Wanted: Clone;
    /// What a fetch comes to.
    type Outcome: Send + 'static;

    fn under_way(&mut self) -> &mut UnderWay<Self::Outcome>;

    /// Takes over what is wanted; returns what to say of what nobody wants any more.
    fn want(&mut self, wanted: &Self::Wanted, now: Instant) -> Vec<Change>;

    /// What is to be said although nothing has come.
    fn late(&mut self, now: Instant) -> Vec<Change>;

    /// Begins what is due, as far as there is room.
    fn start_due(&mut self, now: Instant);

    /// When something is to be done next. What is due already waits for room, which another makes when it ends.
    fn next_due(&self, now: Instant) -> Instant;

    /// Takes an outcome in; returns what to say of it, if that is new.
    fn take(&mut self, task: Id, outcome: Self::Outcome, now: Instant) -> Option<Change>;
}

/// Fetches until `stop`, or until nobody wants or takes anything any more.
pub(crate) async fn fetch<K: Keeping>(
    mut keeping: K,
    mut wanted: watch::Receiver<K::Wanted>,
    out: Sink,
    stop: CancellationToken,
) {
    loop {
        let list = wanted.borrow_and_update().clone();
        let gone = keeping.want(&list, Instant::now());
        if !gone.is_empty() && out.send(SourceEvent::Changes(gone)).await.is_err() {
            return;
        }
        let changes = loop {
            let now = Instant::now();
            let late = keeping.late(now);
            if !late.is_empty() {
                break late;
            }
            keeping.start_due(now);
            let next = keeping.next_due(now);
            tokio::select! {
                changed = wanted.changed() => match changed {
                    Ok(()) => break Vec::new(),
                    Err(_) => return,
                },
                (task, outcome) = keeping.under_way().next() => {
                    // One that panicked leaves its entry as it is, which is asked for again when it is due.
                    if let Some(outcome) = outcome
                        && let Some(change) = keeping.take(task, outcome, Instant::now())
                    {
                        break vec![change];
                    }
                }
                () = tokio::time::sleep_until(next) => {}
                () = stop.cancelled() => return,
            }
        };
        if !changes.is_empty() && out.send(SourceEvent::Changes(changes)).await.is_err() {
            return;
        }
    }
}
