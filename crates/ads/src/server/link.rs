//! What a connection, its streams and the server say to each other: how long the client stalls, and that it is to end.
//!
//! All of it is looked at whenever anything moves on a connection, so it is a few numbers in one place, and not a timer
//! and a signal for each.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::peers::{Claim, Peer};

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

/// Whether anything is heard of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Silence {
    /// It is.
    No,
    /// It should be asked for a sign of life.
    Ask,
    /// It was asked, and gave none.
    Lost,
}

/// After how many looks at a client of whom nothing is heard it is asked, and given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hearing {
    ask: u32,
    lost: u32,
}

impl Hearing {
    /// For clients that are asked after so many looks, and have so many to answer in; and one more: it may fall into a time
    /// in which the server did not run, and the answer lies in the socket.
    pub(super) fn new(ask: u32, answer: u32) -> Self {
        Self {
            ask,
            lost: ask.saturating_add(answer).saturating_add(1),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    order: AtomicU8,
    /// How often the server has looked since something was heard of the client.
    quiet: AtomicU32,
    hearing: Hearing,
    /// How often the server has looked since the connection began: the time, for whatever the client has to do within seconds.
    now: AtomicU32,
    /// The look at which the task wants to be woken.
    due: AtomicU32,
    peer: Arc<Peer>,
    /// Unfinished requests that have a place, and since when there are any.
    claims: AtomicU32,
    claimed: AtomicU32,
    /// Since when the connection's streams wait for an answer without any, in milliseconds since `epoch`; zero if none
    /// does. Streams of one connection share it: progress of one counts for all, which is lenient and costs nothing.
    stalled: AtomicU64,
    epoch: Instant,
    /// The connection's task.
    task: Mutex<Option<Waker>>,
}

impl Link {
    fn new(hearing: Hearing, peer: Arc<Peer>) -> Self {
        Self {
            order: AtomicU8::new(Order::Serve as u8),
            quiet: AtomicU32::new(0),
            hearing,
            now: AtomicU32::new(0),
            due: AtomicU32::new(u32::MAX),
            peer,
            claims: AtomicU32::new(0),
            claimed: AtomicU32::new(0),
            stalled: AtomicU64::new(0),
            epoch: Instant::now(),
            task: Mutex::default(),
        }
    }

    /// Has the task woken when what the server wants changes; `known` is where it keeps that it said so.
    pub(super) fn watch(&self, known: &mut Option<Waker>, cx: &Context<'_>) {
        if !known.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            *known = Some(cx.waker().clone());
        }
    }

    /// What the server wants.
    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            order if order == Order::Serve as u8 => Order::Serve,
            order if order == Order::Drain as u8 => Order::Drain,
            _ => Order::Close,
        }
    }

    fn tell(&self, order: Order) {
        self.order.store(order as u8, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.iter().for_each(Waker::wake_by_ref);
    }

    /// A place for an unfinished request of so many bytes, if there is one.
    pub(super) fn claim(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let claim = self.peer.claim(bytes)?;
        if self.claims.fetch_add(1, Ordering::Relaxed) == 0 {
            self.claimed.store(self.now(), Ordering::Relaxed);
        }
        Some(Held {
            link: Arc::clone(self),
            _claim: claim,
        })
    }

    /// Since when there is any such place. Streams look after their own, but are not asked while the client takes nothing in.
    pub(super) fn claimed(&self) -> Option<u32> {
        let any = self.claims.load(Ordering::Relaxed) > 0;
        any.then(|| self.claimed.load(Ordering::Relaxed))
    }

    /// How often the server has looked.
    pub(super) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Has the task woken when more than `limit` looks have passed since that one.
    pub(super) fn wake_after(&self, since: u32, limit: u32) {
        let due = since.saturating_add(limit).saturating_add(1);
        self.due.fetch_min(due, Ordering::Relaxed);
    }

    /// Something was heard of the client.
    pub(super) fn heard(&self) {
        self.quiet.store(0, Ordering::Relaxed);
    }

    /// Whether something is.
    pub(super) fn silence(&self) -> Silence {
        match self.quiet.load(Ordering::Relaxed) {
            looks if looks < self.hearing.ask => Silence::No,
            looks if looks < self.hearing.lost => Silence::Ask,
            _ => Silence::Lost,
        }
    }

    /// The server looks once more.
    fn look(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        let due = now >= self.due.load(Ordering::Relaxed);
        if due {
            self.due.store(u32::MAX, Ordering::Relaxed);
        }
        let looks = self.quiet.fetch_add(1, Ordering::Relaxed) + 1;
        if due || looks == self.hearing.ask || looks >= self.hearing.lost {
            self.wake();
        }
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

/// A place for an unfinished request, as long as it is needed.
#[derive(Debug)]
pub(super) struct Held {
    link: Arc<Link>,
    _claim: Claim,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.link.claims.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Listed {
    next: u64,
    links: FxHashMap<u64, Arc<Link>>,
    draining: bool,
}

/// Every connection of a server.
#[derive(Debug)]
pub(super) struct Links {
    listed: Mutex<Listed>,
    hearing: Hearing,
}

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
    /// None yet.
    pub(super) fn new(hearing: Hearing) -> Self {
        Self {
            listed: Mutex::default(),
            hearing,
        }
    }

    fn listed<R>(&self, act: impl FnOnce(&mut Listed) -> R) -> R {
        act(&mut self.listed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new connection.
    pub(super) fn enter(&self, peer: Arc<Peer>) -> Entry<'_> {
        let link = Arc::new(Link::new(self.hearing, peer));
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

    /// Looks whether anything was heard of clients since the last look.
    pub(super) fn look(&self) {
        self.listed(|l| l.links.values().for_each(|link| link.look()));
    }

    fn all(&self) -> Vec<Arc<Link>> {
        self.listed(|l| l.links.values().cloned().collect())
    }
}
