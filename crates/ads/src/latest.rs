//! How a stream learns of the newest revision: one place that is overwritten, and whom to wake.
//!
//! There is one for each proxy, and each change goes through all of them: what a general channel would keep beside the
//! value is memory that has to be fetched ten thousand times.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

use crate::bell::{Bell, Peal};

/// Who waits, and the bell by which it is woken.
type Waiting = (Waker, Option<Arc<Bell>>);

#[derive(Debug)]
struct State<T> {
    value: T,
    /// Counts the values.
    version: u64,
    open: bool,
    /// Receivers that wait; nearly always one.
    waiting: SmallVec<[Waiting; 1]>,
}

#[derive(Debug)]
struct Place<T>(Mutex<State<T>>);

impl<T> Place<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing between taking and leaving the lock can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something; who waits is to be woken.
    fn tell(&self, peal: &mut Peal, change: impl FnOnce(&mut State<T>)) {
        let waiting = {
            let mut state = self.state();
            change(&mut state);
            std::mem::take(&mut state.waiting)
        };
        for (task, bell) in waiting {
            peal.add(task, bell);
        }
    }
}

/// The side that knows the newest value. When it is dropped, receivers are told.
#[derive(Debug)]
pub struct Sender<T>(Arc<Place<T>>);

/// The side that wants to know.
#[derive(Debug)]
pub struct Receiver<T> {
    place: Arc<Place<T>>,
    seen: u64,
    bell: Option<Arc<Bell>>,
    /// How often the bell had rung when this began to wait by it.
    waits: Option<u64>,
}

impl<T: Clone> Sender<T> {
    /// With a first value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Place(Mutex::new(State {
            value,
            version: 1,
            open: true,
            waiting: SmallVec::new(),
        }))))
    }

    /// Somebody who wants to know; has not seen the newest value yet.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            place: Arc::clone(&self.0),
            seen: 0,
            bell: None,
            waits: None,
        }
    }

    /// Replaces the value.
    pub fn send(&self, value: T) {
        self.send_with(value, &mut Peal::new());
    }

    /// Replaces the value; who waits is woken with the others of the peal.
    pub fn send_with(&self, value: T, peal: &mut Peal) {
        let mut old = Some(value);
        self.0.tell(peal, |state| {
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
        self.0.tell(&mut Peal::new(), |state| state.open = false);
    }
}

impl<T: Clone> Receiver<T> {
    /// From now on the one task that waits is woken by this bell, and asks on the thread of this bell.
    pub fn wake_by(&mut self, bell: Arc<Bell>) {
        self.bell = Some(bell);
    }

    /// The newest value, which counts as seen.
    pub fn newest(&mut self) -> T {
        let state = self.place.state();
        self.seen = state.version;
        state.value.clone()
    }

    /// A value that was not seen; `None` when there will be none.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let rung = self.bell.as_deref().map(Bell::rung);
        if self.waits.is_some() && self.waits == rung {
            // The place is in another processor's caches, or in none: nobody looks there for nothing.
            return Poll::Pending;
        }
        self.waits = None;
        let mut state = self.place.state();
        if state.version != self.seen {
            self.seen = state.version;
            return Poll::Ready(Some(state.value.clone()));
        }
        if !state.open {
            return Poll::Ready(None);
        }
        if !state.waiting.iter().any(|(w, _)| w.will_wake(cx.waker())) {
            state.waiting.push((cx.waker().clone(), self.bell.clone()));
        }
        self.waits = rung;
        Poll::Pending
    }

    /// Waits for a value that was not seen; `None` when there will be none.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn each_receiver_gets_the_newest_value_once_and_learns_of_the_end() {
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
