//! Which certificates there are, and when something is to be done about each.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::Change;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::{Anchors, MOST, Made, Make, Options, Wanted, Watcher};

/// How many are made at a time.
const AT_ONCE: usize = 64;
/// The longest that making one may take.
const LONGEST: Duration = Duration::from_secs(30);
/// The first wait after a failure; it doubles with each further one.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait after failures.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The shortest wait until a certificate is renewed, however short its life.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long a certificate is kept that nobody wants: its proxy may only be connecting again.
const KEPT: Duration = Duration::from_secs(600);
/// How often the clock is looked at.
const CLOCK: Duration = Duration::from_secs(60);
/// How far the clock may be off before everything is scheduled anew, as after the machine slept.
const DRIFT: Duration = Duration::from_secs(5);

/// What is known of one identity.
struct Entry {
    /// When something is to be done about it.
    due: Instant,
    wanted: bool,
    /// The task that makes its certificate, and in which way that is signed.
    task: Option<(Id, u64)>,
    failures: u32,
    held: Option<Held>,
}

struct Held {
    signing: u64,
    renew: SystemTime,
    expires: SystemTime,
}

type Outcome = (Arc<str>, Result<Made, String>);
type Done = Result<(Id, Outcome), JoinError>;

pub(super) struct Keeping {
    maker: Arc<dyn Make>,
    watcher: Arc<dyn Watcher>,
    options: Options,
    anchors: Anchors,
    entries: BTreeMap<Arc<str>, Entry>,
    /// The same by when they are due.
    queue: BTreeSet<(Instant, Arc<str>)>,
    /// Those that have a certificate, by when it expires.
    expiring: BTreeSet<(SystemTime, Arc<str>)>,
    under_way: JoinSet<Outcome>,
    wanted: Wanted,
    /// Whether some of those have no room.
    left_out: bool,
    /// One moment by both clocks.
    moment: (Instant, SystemTime),
    random: RandomState,
}

impl Keeping {
    pub(super) fn new(maker: Arc<dyn Make>, watcher: Arc<dyn Watcher>, options: Options) -> Self {
        Self {
            moment: (Instant::now(), (options.clock)()),
            maker,
            watcher,
            options,
            anchors: Anchors::default(),
            entries: BTreeMap::new(),
            queue: BTreeSet::new(),
            expiring: BTreeSet::new(),
            under_way: JoinSet::new(),
            wanted: Wanted::default(),
            left_out: false,
            random: RandomState::new(),
        }
    }

    /// Takes over who wants a certificate.
    pub(super) fn want(&mut self, wanted: Wanted, now: Instant) {
        let mut moved = Vec::new();
        for (identity, entry) in &mut self.entries {
            let wants = wanted.contains(identity);
            if wants != entry.wanted {
                entry.wanted = wants;
                moved.push((identity.clone(), wants));
            }
        }
        for (identity, wants) in moved {
            match wants {
                true => self.schedule_renewal(&identity, now),
                false => self.schedule(&identity, now + KEPT),
            }
        }
        let mut left_out = 0;
        for identity in wanted.iter() {
            if self.entries.contains_key(identity) {
                continue;
            }
            if self.entries.len() >= MOST {
                left_out += 1;
                continue;
            }
            let entry = Entry {
                due: now,
                wanted: true,
                task: None,
                failures: 0,
                held: None,
            };
            self.entries.insert(identity.clone(), entry);
            self.queue.insert((now, identity.clone()));
        }
        self.left_out = left_out > 0;
        if self.left_out {
            self.watcher.exhausted(left_out);
        }
        self.wanted = wanted;
    }

    /// Takes over what certificates lead to; returns what to say of the roots.
    pub(super) fn anchor(&mut self, anchors: Anchors, now: Instant) -> Option<Change> {
        let former = std::mem::replace(&mut self.anchors, anchors);
        if former.signing != self.anchors.signing {
            let held = self.entries.iter();
            let stale = held.filter(|(_, entry)| entry.wanted && entry.held.is_some());
            let stale: Vec<Arc<str>> = stale.map(|(identity, _)| identity.clone()).collect();
            for identity in stale {
                let settle = self.options.settle;
                let at = now + settle + settle.mul_f64(self.draw(&identity, now));
                if self.entries.get(&identity).is_some_and(|e| e.due > at) {
                    self.schedule(&identity, at);
                }
            }
        }
        (former.roots != self.anchors.roots).then(|| Change::Roots(self.anchors.roots.clone()))
    }

    /// Does what is due, as far as there is room; returns what to say of certificates that nobody wants any more.
    pub(super) fn work(&mut self, now: Instant) -> Vec<Change> {
        self.follow_clock(now);
        let mut gone = Vec::new();
        while let Some((due, identity)) = self.queue.first().cloned() {
            if due > now || self.under_way.len() >= AT_ONCE {
                break;
            }
            let Some(entry) = self.entries.get(&identity) else {
                self.queue.remove(&(due, identity));
                continue;
            };
            if entry.wanted {
                self.make(&identity, now);
                continue;
            }
            if let Some(held) = &entry.held {
                self.expiring.remove(&(held.expires, identity.clone()));
                gone.push(Change::Certificate(identity.clone(), None));
            }
            self.queue.remove(&(due, identity.clone()));
            self.entries.remove(&identity);
        }
        if self.left_out && self.entries.len() < MOST {
            self.want(self.wanted.clone(), now);
        }
        gone
    }

    /// When there is something to do, unless it waits for room, which another makes when it is done.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let clock = self.moment.0 + CLOCK;
        let first = self.queue.first().map(|(due, _)| *due);
        first
            .filter(|due| *due > now)
            .map_or(clock, |due| due.min(clock))
    }

    /// Waits for a certificate that is being made; `None` when none is. What is to be said of it is in the answer.
    pub(super) async fn made(&mut self) -> Option<Option<Change>> {
        let done = self.under_way.join_next_with_id().await?;
        Some(self.take(done, Instant::now()))
    }

    /// As [`Keeping::made`], for one that was made already.
    pub(super) fn already_made(&mut self) -> Option<Option<Change>> {
        let done = self.under_way.try_join_next_with_id()?;
        Some(self.take(done, Instant::now()))
    }

    /// Tells how many certificates there are.
    pub(super) fn tell(&self) {
        let first = self.expiring.first().map(|(expires, _)| *expires);
        self.watcher.holds(self.expiring.len(), first);
    }

    fn make(&mut self, identity: &Arc<str>, now: Instant) {
        let (making, name) = (self.maker.make(identity.clone()), identity.clone());
        let task = self.under_way.spawn(async move {
            let made = tokio::time::timeout(LONGEST, making).await;
            let made = made.unwrap_or_else(|_| Err(format!("it took longer than {LONGEST:?}")));
            (name, made)
        });
        if let Some(entry) = self.entries.get_mut(identity) {
            entry.task = Some((task.id(), self.anchors.signing));
        }
        // Should the task panic, it is tried again after this.
        self.schedule(identity, now + LONGEST + LONGEST_RETRY);
    }

    fn take(&mut self, done: Done, now: Instant) -> Option<Change> {
        // A task that panicked leaves its entry as it is; it is due again.
        let (task, (identity, made)) = done.ok()?;
        let outcome = made.as_ref().map(|_| ()).map_err(String::as_str);
        self.watcher.attempted(&identity, outcome);
        let draw = self.draw(&identity, now);
        let clock = (self.options.clock)();
        // Nobody may want it any more.
        let entry = self.entries.get_mut(&identity)?;
        let (_, signing) = entry.task.take_if(|(id, _)| *id == task)?;
        let change = match made {
            Ok(made) => {
                entry.failures = 0;
                let life = made.expires.duration_since(clock).unwrap_or_default();
                let left = self.options.left + self.options.jitter * (2.0 * draw - 1.0);
                let wait = life.mul_f64(1.0 - left.clamp(0.0, 1.0)).max(SHORTEST);
                let held = Held {
                    signing,
                    renew: clock + wait,
                    expires: made.expires,
                };
                if let Some(former) = entry.held.replace(held) {
                    self.expiring.remove(&(former.expires, identity.clone()));
                }
                self.expiring.insert((made.expires, identity.clone()));
                self.schedule_renewal(&identity, now);
                let certificate = Some(Arc::new(made.certificate));
                Some(Change::Certificate(identity.clone(), certificate))
            }
            Err(_) => {
                let doubled = RETRY * 2_u32.saturating_pow(entry.failures.min(16));
                entry.failures += 1;
                let wait = doubled.min(LONGEST_RETRY).mul_f64(0.9 + 0.2 * draw);
                self.schedule(&identity, now + wait);
                None
            }
        };
        if self.entries.get(&identity).is_some_and(|e| !e.wanted) {
            self.schedule(&identity, now + KEPT);
        }
        change
    }

    /// When the certificate of an identity is to be renewed; at once where there is none.
    fn schedule_renewal(&mut self, identity: &Arc<str>, now: Instant) {
        let Some(entry) = self.entries.get(identity) else {
            return;
        };
        let clock = (self.options.clock)();
        let at = match &entry.held {
            None => now,
            Some(held) => {
                let renewal = now + held.renew.duration_since(clock).unwrap_or_default();
                let stale = held.signing != self.anchors.signing;
                let replaced = now + self.options.settle;
                if stale {
                    renewal.min(replaced)
                } else {
                    renewal
                }
            }
        };
        self.schedule(identity, at);
    }

    fn schedule(&mut self, identity: &Arc<str>, at: Instant) {
        if let Some(entry) = self.entries.get_mut(identity) {
            self.queue.remove(&(entry.due, identity.clone()));
            entry.due = at;
            self.queue.insert((at, identity.clone()));
        }
    }

    /// Schedules everything anew if the clock was set, or stood still for a while that we did not notice.
    fn follow_clock(&mut self, now: Instant) {
        let passed = now.duration_since(self.moment.0);
        if passed < CLOCK {
            return;
        }
        let clock = (self.options.clock)();
        let expected = self.moment.1 + passed;
        self.moment = (now, clock);
        let ahead = clock.duration_since(expected).unwrap_or_default();
        let behind = expected.duration_since(clock).unwrap_or_default();
        if ahead.max(behind) > DRIFT {
            let idle = |e: &Entry| e.wanted && e.task.is_none() && e.failures == 0;
            let idle = self.entries.iter().filter(|(_, entry)| idle(entry));
            let idle: Vec<Arc<str>> = idle.map(|(identity, _)| identity.clone()).collect();
            for identity in idle {
                self.schedule_renewal(&identity, now);
            }
        }
    }

    /// A number from 0 to 1, so that what began together does not stay together.
    fn draw(&self, identity: &Arc<str>, now: Instant) -> f64 {
        (self.random.hash_one((identity, now)) % 1024) as f64 / 1023.0
    }
}
