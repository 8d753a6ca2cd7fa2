//! A channel that holds only the newest value: how a stream learns of the newest revision.
//!
//! There is one for each proxy, and a change may go through all of them: whatever a general-purpose channel keeps beside
//! the value is memory to fetch ten thousand times.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use crate::wake::{WakeBatch, WakeList};

/// A task that waits, and the list through which it is woken.
type Waiting = (Waker, Option<Arc<WakeList>>);

#[derive(Debug)]
struct State<T> {
    value: T,
    /// The number of values so far.
    version: u64,
    open: bool,
    /// Tasks that wait; nearly always one.
    waiting: SmallVec<[Waiting; 1]>,
}

#[derive(Debug)]
struct Shared<T>(Mutex<State<T>>);

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing between taking and leaving the lock can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and adds the tasks that wait to the batch.
    fn update(&self, batch: &mut WakeBatch, change: impl FnOnce(&mut State<T>)) {
        let waiting = {
            let mut state = self.state();
            change(&mut state);
            std::mem::take(&mut state.waiting)
        };
        for (task, wake_list) in waiting {
            batch.add(task, wake_list);
        }
    }
}

/// The sending side. Dropping it closes the channel.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving side.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
    wake_list: Option<Arc<WakeList>>,
    /// The round of the list in which this began to wait.
    waits: Option<u64>,
}

impl<T: Clone> Sender<T> {
    /// A channel with a first value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared(Mutex::new(State {
            value,
            version: 1,
            open: true,
            waiting: SmallVec::new(),
        }))))
    }

    /// A receiver that has not seen the newest value yet.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            shared: Arc::clone(&self.0),
            seen: 0,
            wake_list: None,
            waits: None,
        }
    }

    /// Replaces the value.
    pub fn send(&self, value: T) {
        self.send_with(value, &mut WakeBatch::new());
    }

    /// Replaces the value; receivers are woken together with the others of the batch.
    pub fn send_with(&self, value: T, batch: &mut WakeBatch) {
        let mut old = Some(value);
        self.0.update(batch, |state| {
            if let Some(value) = old.take() {
                old = Some(std::mem::replace(&mut state.value, value));
                state.version += 1;
            }
        });
    }

    /// The newest value.
    pub fn newest(&self) -> T {
        self.0.state().value.clone()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0
            .update(&mut WakeBatch::new(), |state| state.open = false);
    }
}

impl<T: Clone> Receiver<T> {
    /// From now on one task waits on this receiver, runs on the thread of this list, and is woken through it.
    pub fn wake_through(&mut self, wake_list: Arc<WakeList>) {
        self.wake_list = Some(wake_list);
    }

    /// The newest value, and marks it as seen.
    pub fn newest(&mut self) -> T {
        let state = self.shared.state();
        self.seen = state.version;
        state.value.clone()
    }

    /// A value not yet seen; `None` once the channel is closed.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let rounds = self.wake_list.as_deref().map(WakeList::rounds);
        if self.waits.is_some() && self.waits == rounds {
            // Nothing new. The state is likely in no cache of this processor, so do not touch it.
            return Poll::Pending;
        }
        self.waits = None;
        let mut state = self.shared.state();
        if state.version != self.seen {
            self.seen = state.version;
            return Poll::Ready(Some(state.value.clone()));
        }
        if !state.open {
            return Poll::Ready(None);
        }
        if !state.waiting.iter().any(|(w, _)| w.will_wake(cx.waker())) {
            state
                .waiting
                .push((cx.waker().clone(), self.wake_list.clone()));
        }
        self.waits = rounds;
        Poll::Pending
    }

    /// Waits for a value not yet seen; `None` once the channel is closed.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_receiver_gets_the_newest_value_once_and_then_the_end() {
        let sender = Sender::new(1);
        let (mut a, mut b) = (sender.subscribe(), sender.subscribe());
        assert_eq!(a.newest(), 1);
        assert_eq!(a.next().now_or_never(), None);
        assert_eq!(b.next().await, Some(1));
        let waits = tokio::spawn(async move { (a.next().await, a.next().await) });
        tokio::task::yield_now().await;
        sender.send(2);
        sender.send(3);
        assert_eq!(sender.newest(), 3);
        assert_eq!(b.next().await, Some(3));
        tokio::task::yield_now().await;
        drop(sender);
        assert_eq!(b.next().await, None);
        assert_eq!(waits.await.unwrap(), (Some(3), None));
    }
}
