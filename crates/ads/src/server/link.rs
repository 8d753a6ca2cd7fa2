//! What a connection, its streams and the server say to each other: how long the client stalls, and that it is to end.
//!
//! All of it is looked at whenever anything moves on a connection, so it is a few numbers in one place, and not a timer
//! and a signal for each.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

/// What the server wants of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// To go on.
    Serve,
    /// To end its streams, and then itself: the server is shutting down.
    Drain,
    /// To end at once: the client does not answer.
    Close,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    order: AtomicU8,
    /// Since when the connection's streams wait for an answer without any, in milliseconds since `epoch`; zero if none
    /// does. Streams of one connection share it: progress of one counts for all, which is lenient and costs nothing.
    stalled: AtomicU64,
    epoch: Instant,
    /// The connection's task and those of its streams.
    tasks: Mutex<Vec<Waker>>,
}

impl Link {
    fn new() -> Self {
        Self {
            order: AtomicU8::new(Order::Serve as u8),
            stalled: AtomicU64::new(0),
            epoch: Instant::now(),
            tasks: Mutex::default(),
        }
    }

    /// What the server wants. The task that asks is woken when that changes; `known` is where it keeps that it asked.
    pub(super) fn order(&self, known: &mut Option<Waker>, cx: &Context<'_>) -> Order {
        if !known.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(old) = known.take() {
                tasks.retain(|w| !w.will_wake(&old));
            }
            tasks.push(cx.waker().clone());
            *known = Some(cx.waker().clone());
        }
        match self.order.load(Ordering::Acquire) {
            order if order == Order::Serve as u8 => Order::Serve,
            order if order == Order::Drain as u8 => Order::Drain,
            _ => Order::Close,
        }
    }

    /// Forgets a task that has asked.
    pub(super) fn forget(&self, known: &mut Option<Waker>) {
        if let Some(known) = known.take() {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.retain(|w| !w.will_wake(&known));
        }
    }

    fn tell(&self, order: Order) {
        self.order.store(order as u8, Ordering::Release);
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(Waker::wake_by_ref);
    }

    /// Notes how a stream stands: whether it waits for answers, and whether one came.
    pub(super) fn note(&self, waits: bool, progress: bool) {
        if !waits {
            self.stalled.store(0, Ordering::Relaxed);
        } else if progress || self.stalled.load(Ordering::Relaxed) == 0 {
            let millis = self.epoch.elapsed().as_millis() as u64;
            self.stalled.store(millis.max(1), Ordering::Relaxed);
        }
    }

    fn stalls(&self, limit: Duration) -> bool {
        let since = self.stalled.load(Ordering::Relaxed);
        let lasted = || {
            self.epoch
                .elapsed()
                .saturating_sub(Duration::from_millis(since))
        };
        since != 0 && lasted() >= limit
    }
}

#[derive(Debug, Default)]
struct Listed {
    next: u64,
    links: FxHashMap<u64, Arc<Link>>,
    draining: bool,
}

/// Every connection of a server.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<Listed>);

/// A connection's place in the list, for as long as it lives.
pub(super) struct Entry<'a> {
    links: &'a Links,
    number: u64,
    pub(super) link: Arc<Link>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.links.listed(|l| l.links.remove(&self.number));
    }
}

impl Links {
    fn listed<R>(&self, act: impl FnOnce(&mut Listed) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new connection.
    pub(super) fn enter(&self) -> Entry<'_> {
        let link = Arc::new(Link::new());
        let (number, draining) = self.listed(|l| {
            l.next += 1;
            l.links.insert(l.next, Arc::clone(&link));
            (l.next, l.draining)
        });
        if draining {
            link.tell(Order::Drain);
        }
        Entry {
            links: self,
            number,
            link,
        }
    }

    /// Ends every connection, as well as possible, and those that come.
    pub(super) fn drain(&self) {
        self.listed(|l| l.draining = true);
        for link in self.all() {
            link.tell(Order::Drain);
        }
    }

    /// Closes the connections whose clients have not answered for so long.
    pub(super) fn close_stalled(&self, limit: Duration) {
        for link in self.all().iter().filter(|l| l.stalls(limit)) {
            link.tell(Order::Close);
        }
    }

    fn all(&self) -> Vec<Arc<Link>> {
        self.listed(|l| l.links.values().cloned().collect())
    }
}
