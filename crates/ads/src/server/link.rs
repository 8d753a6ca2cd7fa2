//! The state that a connection, its streams and the server share: how long the client stalls, and whether to end.
//!
//! It is read whenever anything moves on a connection, so it is a few numbers side by side instead of a timer and a
//! signal each. Time is counted in ticks of the server ([`Links::tick`]).

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;
use rustls::pki_types::CertificateDer;

use super::peers::{Claim, Peer};

/// What a connection is to do. The later ones take precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Order {
    /// Go on.
    Serve,
    /// End its streams, then itself: it is as old as connections get.
    Retire,
    /// End its streams, then itself: what proved the client's identity does so no more.
    Expire,
    /// End its streams, then itself: the server is shutting down.
    Drain,
    /// End at once: the client does not answer.
    Close,
}

/// Whether a client is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Liveness {
    /// It sent something recently.
    Alive,
    /// It has been silent and should be pinged.
    Ping,
    /// It was pinged and did not answer.
    Lost,
}

/// After how many ticks of silence a client is pinged, and given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeepAlive {
    ping: u32,
    lost: u32,
}

impl KeepAlive {
    /// Clients are pinged after `ping` ticks of silence and given up `answer` ticks later. One tick is added, because the
    /// server may have been descheduled during the last one, with the answer waiting in the socket.
    pub(super) fn new(ping: u32, answer: u32) -> Self {
        Self {
            ping,
            lost: ping.saturating_add(answer).saturating_add(1),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    order: AtomicU8,
    /// Ticks since the client last sent something.
    quiet: AtomicU32,
    keep_alive: KeepAlive,
    /// After how many ticks it has to end.
    oldest: u32,
    /// Ticks since the connection began: the clock for everything that the client has to do within seconds.
    now: AtomicU32,
    /// The tick at which the task wants to be woken.
    due: AtomicU32,
    peer: Arc<Peer>,
    /// What the client showed, if the connection is encrypted.
    certificates: Option<Arc<[CertificateDer<'static>]>>,
    /// The second since 1970 in which what the client proved ends.
    until: AtomicU64,
    /// Unfinished requests that have a slot, and since when there are any.
    claims: AtomicU32,
    claimed: AtomicU32,
    /// Since when the connection's streams have waited for an answer in vain, in milliseconds since `epoch`; zero if none
    /// waits. Streams of one connection share it: progress of one counts for all, which is lenient and costs nothing.
    stalled: AtomicU64,
    epoch: Instant,
    /// The connection's task.
    task: Mutex<Option<Waker>>,
}

impl Link {
    fn new(
        keep_alive: KeepAlive,
        oldest: u32,
        peer: Arc<Peer>,
        certificates: Option<Arc<[CertificateDer<'static>]>>,
    ) -> Self {
        Self {
            order: AtomicU8::new(Order::Serve as u8),
            quiet: AtomicU32::new(0),
            keep_alive,
            oldest,
            now: AtomicU32::new(0),
            due: AtomicU32::new(u32::MAX),
            peer,
            certificates,
            until: AtomicU64::new(u64::MAX),
            claims: AtomicU32::new(0),
            claimed: AtomicU32::new(0),
            stalled: AtomicU64::new(0),
            epoch: Instant::now(),
            task: Mutex::default(),
        }
    }

    /// Wakes the task when the order changes; `known` is where the task remembers the waker that it registered.
    pub(super) fn watch(&self, known: &mut Option<Waker>, cx: &Context<'_>) {
        if !known.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            *known = Some(cx.waker().clone());
        }
    }

    /// What the connection is to do now.
    pub(super) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            order if order == Order::Serve as u8 => Order::Serve,
            order if order == Order::Retire as u8 => Order::Retire,
            order if order == Order::Expire as u8 => Order::Expire,
            order if order == Order::Drain as u8 => Order::Drain,
            _ => Order::Close,
        }
    }

    fn set_order(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::AcqRel) < order as u8 {
            self.wake();
        }
    }

    /// What the client showed.
    pub(super) fn certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.certificates.as_deref()
    }

    /// The connection ends at this time, or before.
    pub(super) fn hold_until(&self, time: SystemTime) {
        self.until.fetch_min(seconds(time), Ordering::Relaxed);
    }

    /// What proved the client's identity does so no more.
    pub(super) fn expire(&self) {
        self.set_order(Order::Expire);
    }

    fn wake(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        task.iter().for_each(Waker::wake_by_ref);
    }

    /// A slot for an unfinished request of so many bytes, if there is one.
    pub(super) fn claim(self: &Arc<Self>, bytes: usize) -> Option<RequestSlot> {
        let claim = self.peer.claim(bytes)?;
        if self.claims.fetch_add(1, Ordering::Relaxed) == 0 {
            self.claimed.store(self.now(), Ordering::Relaxed);
        }
        Some(RequestSlot {
            link: Arc::clone(self),
            _claim: claim,
        })
    }

    /// Since when any such slot has been taken. Streams watch their own, but are not polled while the client reads nothing.
    pub(super) fn claimed(&self) -> Option<u32> {
        let any = self.claims.load(Ordering::Relaxed) > 0;
        any.then(|| self.claimed.load(Ordering::Relaxed))
    }

    /// The current tick.
    pub(super) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// Wakes the task when more than `limit` ticks have passed since `since`.
    pub(super) fn wake_after(&self, since: u32, limit: u32) {
        let due = since.saturating_add(limit).saturating_add(1);
        self.due.fetch_min(due, Ordering::Relaxed);
    }

    /// The client has sent something.
    pub(super) fn heard(&self) {
        self.quiet.store(0, Ordering::Relaxed);
    }

    /// Whether the client is still there.
    pub(super) fn liveness(&self) -> Liveness {
        match self.quiet.load(Ordering::Relaxed) {
            ticks if ticks < self.keep_alive.ping => Liveness::Alive,
            ticks if ticks < self.keep_alive.lost => Liveness::Ping,
            _ => Liveness::Lost,
        }
    }

    /// Counts one tick, which ends in this second since 1970.
    fn tick(&self, second: u64) {
        if second >= self.until.load(Ordering::Relaxed) {
            self.expire();
        }
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if now >= self.oldest {
            self.set_order(Order::Retire);
        }
        let due = now >= self.due.load(Ordering::Relaxed);
        if due {
            self.due.store(u32::MAX, Ordering::Relaxed);
        }
        let quiet = self.quiet.fetch_add(1, Ordering::Relaxed) + 1;
        if due || quiet == self.keep_alive.ping || quiet >= self.keep_alive.lost {
            self.wake();
        }
    }

    /// Notes the state of a stream: whether it waits for answers, and whether one came.
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

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// A slot for an unfinished request, freed on drop.
#[derive(Debug)]
pub(super) struct RequestSlot {
    link: Arc<Link>,
    _claim: Claim,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.link.claims.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Registry {
    next: u64,
    links: FxHashMap<u64, Arc<Link>>,
    draining: bool,
}

/// Every connection of a server.
#[derive(Debug)]
pub(super) struct Links {
    registry: Mutex<Registry>,
    keep_alive: KeepAlive,
    /// After how many ticks a connection has to end, more or less; none where it may stay.
    oldest: Option<u32>,
    chance: RandomState,
}

/// A connection's entry in the registry, removed on drop.
pub(super) struct Entry<'a> {
    links: &'a Links,
    number: u64,
    pub(super) link: Arc<Link>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.links.with(|l| l.links.remove(&self.number));
    }
}

impl Links {
    /// None yet. Those to come end after about `oldest` ticks.
    pub(super) fn new(keep_alive: KeepAlive, oldest: Option<u32>) -> Self {
        Self {
            registry: Mutex::default(),
            keep_alive,
            oldest,
            chance: RandomState::new(),
        }
    }

    /// After how many ticks a connection ends: a tenth more or less than is said, so that connections that began together, as
    /// after a restart, do not end together.
    fn oldest(&self, number: u64) -> u32 {
        let Some(oldest) = self.oldest else {
            return u32::MAX;
        };
        let tenth = f64::from(oldest) / 10.0;
        let chance = self.chance.hash_one(number) as f64 / u64::MAX as f64;
        (f64::from(oldest) + tenth * (2.0 * chance - 1.0)).round() as u32
    }

    fn with<R>(&self, act: impl FnOnce(&mut Registry) -> R) -> R {
        act(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new connection.
    pub(super) fn enter(
        &self,
        peer: Arc<Peer>,
        certificates: Option<Arc<[CertificateDer<'static>]>>,
    ) -> Entry<'_> {
        let number = self.with(|l| {
            l.next += 1;
            l.next
        });
        let oldest = self.oldest(number);
        let link = Arc::new(Link::new(self.keep_alive, oldest, peer, certificates));
        let draining = self.with(|l| {
            l.links.insert(number, Arc::clone(&link));
            l.draining
        });
        if draining {
            link.set_order(Order::Drain);
        }
        Entry {
            links: self,
            number,
            link,
        }
    }

    /// Ends every connection in an orderly way, also those that are still to come.
    pub(super) fn drain(&self) {
        self.with(|l| l.draining = true);
        for link in self.all() {
            link.set_order(Order::Drain);
        }
    }

    /// Closes the connections whose clients have not answered for `limit`.
    pub(super) fn close_stalled(&self, limit: Duration) {
        for link in self.all().iter().filter(|l| l.stalls(limit)) {
            link.set_order(Order::Close);
        }
    }

    /// Counts one tick of every connection.
    pub(super) fn tick(&self) {
        let second = seconds(SystemTime::now());
        self.with(|l| l.links.values().for_each(|link| link.tick(second)));
    }

    /// A list of them.
    pub(super) fn all(&self) -> Vec<Arc<Link>> {
        self.with(|l| l.links.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_end_about_when_they_are_as_old_as_they_get() {
        let links = |oldest| Links::new(KeepAlive::new(100, 100), oldest);
        let some = links(Some(1000));
        let ages: Vec<u32> = (0..1000).map(|number| some.oldest(number)).collect();
        assert!(
            ages.iter().all(|age| (900..=1100).contains(age)),
            "{ages:?}"
        );
        let (first, last) = (ages.iter().min(), ages.iter().max());
        assert!(
            first < Some(&950) && last > Some(&1050),
            "{first:?} {last:?}"
        );
        assert_eq!(links(None).oldest(1), u32::MAX);
        assert_eq!(links(Some(1)).oldest(1), 1);
    }
}
