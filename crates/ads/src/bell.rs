//! Wakes many tasks of one thread by one signal.
//!
//! Waking a task from another thread goes through a queue that all threads share, and often through the system. A change
//! concerns a thousand tasks at once: they are put on one list, and the thread that runs them is woken once and wakes
//! them itself, which costs nearly nothing.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use smallvec::SmallVec;

#[derive(Debug, Default)]
struct State {
    /// To be woken.
    tasks: Vec<Waker>,
    /// Who answers, while it waits.
    ringer: Option<Waker>,
    closed: bool,
}

/// One thread's list of tasks to wake.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<State>,
    rung: AtomicU64,
}

impl Bell {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing between taking and leaving the lock can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often tasks were woken. While this stays the same, a task of the thread that is to be woken by this bell was
    /// not, and need not look why.
    pub(crate) fn rung(&self) -> u64 {
        self.rung.load(Ordering::Relaxed)
    }

    /// Has tasks woken.
    fn ring(&self, tasks: &mut Vec<Waker>) {
        let ringer = {
            let mut state = self.state();
            match state.tasks.is_empty() {
                true => std::mem::swap(&mut state.tasks, tasks),
                false => state.tasks.append(tasks),
            }
            state.ringer.take()
        };
        if let Some(ringer) = ringer {
            ringer.wake();
        }
    }

    /// Nobody is woken any more: [`answer`](Bell::answer) returns.
    pub fn close(&self) {
        let ringer = {
            let mut state = self.state();
            state.closed = true;
            state.ringer.take()
        };
        if let Some(ringer) = ringer {
            ringer.wake();
        }
    }

    /// Wakes what is on the list, until the bell is closed. To be run by one task of the thread.
    pub async fn answer(&self) {
        let mut tasks = Vec::new();
        let mut next = |cx: &std::task::Context<'_>| {
            let mut state = self.state();
            if state.closed {
                return Poll::Ready(false);
            }
            if state.tasks.is_empty() {
                state.ringer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            std::mem::swap(&mut state.tasks, &mut tasks);
            drop(state);
            self.rung.fetch_add(1, Ordering::Relaxed);
            tasks.drain(..).for_each(Waker::wake);
            Poll::Ready(true)
        };
        while poll_fn(|cx| next(cx)).await {}
    }
}

/// Tasks that are to be woken by and by. Dropping it wakes them.
#[derive(Debug, Default)]
pub struct Peal(SmallVec<[(Arc<Bell>, Vec<Waker>); 4]>);

impl Peal {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more; without a bell it is woken at once.
    pub(crate) fn add(&mut self, task: Waker, bell: Option<Arc<Bell>>) {
        let Some(bell) = bell else {
            return task.wake();
        };
        match self.0.iter_mut().find(|(b, _)| Arc::ptr_eq(b, &bell)) {
            Some((_, tasks)) => tasks.push(task),
            None => self.0.push((bell, vec![task])),
        }
    }
}

impl Drop for Peal {
    fn drop(&mut self) {
        for (bell, tasks) in &mut self.0 {
            bell.ring(tasks);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn everything_on_the_list_is_woken_before_and_after_somebody_answers() {
        let (bell, woken) = (Arc::new(Bell::default()), Arc::new(Woken::default()));
        let ring = |times| {
            let mut peal = Peal::new();
            for _ in 0..times {
                peal.add(Waker::from(woken.clone()), Some(bell.clone()));
            }
        };
        ring(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        let answers = tokio::spawn({
            let bell = bell.clone();
            async move { bell.answer().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        ring(2);
        ring(1);
        tokio::task::yield_now().await;
        assert_eq!(woken.0.load(Ordering::Relaxed), 4);
        bell.close();
        answers.await.unwrap();
    }
}
