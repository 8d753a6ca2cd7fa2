//! Wakes many tasks of one thread with one notification.
//!
//! Waking a task from another thread goes through a queue that all threads share, and often through a system call. A
//! change concerns a thousand tasks at once: they go on one list, and the thread that runs them is woken once and wakes
//! them itself, which costs next to nothing.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use smallvec::SmallVec;

#[derive(Debug, Default)]
struct State {
    /// Tasks to wake.
    tasks: Vec<Waker>,
    /// The task in [`WakeList::run`], while it waits.
    runner: Option<Waker>,
    closed: bool,
}

/// One thread's list of tasks to wake.
#[derive(Debug, Default)]
pub struct WakeList {
    state: Mutex<State>,
    /// How many times the list was emptied.
    rounds: AtomicU64,
}

impl WakeList {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing between taking and leaving the lock can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many times tasks were woken. While this stays the same, no task that waits on this list has been woken, so none
    /// needs to check for news.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Adds tasks to the list and wakes the thread that wakes them.
    fn notify(&self, tasks: &mut Vec<Waker>) {
        let runner = {
            let mut state = self.state();
            match state.tasks.is_empty() {
                true => std::mem::swap(&mut state.tasks, tasks),
                false => state.tasks.append(tasks),
            }
            state.runner.take()
        };
        if let Some(runner) = runner {
            runner.wake();
        }
    }

    /// Wakes nobody any more: [`run`](WakeList::run) returns.
    pub fn close(&self) {
        let runner = {
            let mut state = self.state();
            state.closed = true;
            state.runner.take()
        };
        if let Some(runner) = runner {
            runner.wake();
        }
    }

    /// Wakes the tasks on the list, until it is closed. One task of the thread runs this.
    pub async fn run(&self) {
        let mut tasks = Vec::new();
        let mut next = |cx: &std::task::Context<'_>| {
            let mut state = self.state();
            if state.closed {
                return Poll::Ready(false);
            }
            if state.tasks.is_empty() {
                state.runner = Some(cx.waker().clone());
                return Poll::Pending;
            }
            std::mem::swap(&mut state.tasks, &mut tasks);
            drop(state);
            self.rounds.fetch_add(1, Ordering::Relaxed);
            tasks.drain(..).for_each(Waker::wake);
            Poll::Ready(true)
        };
        while poll_fn(|cx| next(cx)).await {}
    }
}

/// Tasks to wake together. Dropping it wakes them.
#[derive(Debug, Default)]
pub struct WakeBatch(SmallVec<[(Arc<WakeList>, Vec<Waker>); 4]>);

impl WakeBatch {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task; without a list it is woken at once.
    pub(crate) fn add(&mut self, task: Waker, wake_list: Option<Arc<WakeList>>) {
        let Some(wake_list) = wake_list else {
            return task.wake();
        };
        match self.0.iter_mut().find(|(l, _)| Arc::ptr_eq(l, &wake_list)) {
            Some((_, tasks)) => tasks.push(task),
            None => self.0.push((wake_list, vec![task])),
        }
    }
}

impl Drop for WakeBatch {
    fn drop(&mut self) {
        for (wake_list, tasks) in &mut self.0 {
            wake_list.notify(tasks);
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
    async fn everything_on_the_list_is_woken_before_and_after_the_list_is_run() {
        let (wake_list, woken) = (Arc::new(WakeList::default()), Arc::new(Woken::default()));
        let notify = |times| {
            let mut batch = WakeBatch::new();
            for _ in 0..times {
                batch.add(Waker::from(woken.clone()), Some(wake_list.clone()));
            }
        };
        notify(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        let runner = tokio::spawn({
            let wake_list = wake_list.clone();
            async move { wake_list.run().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        notify(2);
        notify(1);
        tokio::task::yield_now().await;
        assert_eq!(woken.0.load(Ordering::Relaxed), 4);
        wake_list.close();
        runner.await.unwrap();
    }
}
