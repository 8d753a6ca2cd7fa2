//! Addresses of names that generation wants, such as those of gateways between networks, as a source: looked up, and
//! looked up again when the answer is old.
//!
//! What was found stays in force while nothing new can be found. An answer lives as long as it says itself, within
//! [`SHORTEST_LIFE`] and [`LONGEST_LIFE`].
//!
//! Istio: pilot/pkg/model/network.go networkGatewayNameCache, 1.32.

mod system;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use model::{Change, Contents, Owner};
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use source_api::{Running, Sink, Source, SourceEvent};

pub use system::SystemResolver;

/// An answer is not asked for again sooner, so that proxies are not told of other addresses all the time; and what failed
/// is tried again after this.
pub const SHORTEST_LIFE: Duration = Duration::from_secs(30);
/// An answer is asked for again at the latest after this.
pub const LONGEST_LIFE: Duration = Duration::from_secs(3600);
/// The longest that an answer may take.
const LONGEST_LOOKUP: Duration = Duration::from_secs(10);
/// Lookups under way at once.
const AT_ONCE: usize = 16;
/// Addresses that are taken of one name, the lowest first.
const ADDRESSES: usize = 64;

/// The names that are wanted.
pub type Wanted = Arc<BTreeSet<Arc<str>>>;

/// What a name has been found to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its addresses; none where there is no such name.
    pub addresses: Vec<IpAddr>,
    /// How long this holds.
    pub life: Duration,
}

/// An answer on its way.
pub type Looking = Pin<Box<dyn Future<Output = Result<Answer, String>> + Send>>;

/// Finds addresses of names.
pub trait Resolve: Send + Sync + 'static {
    /// Looks a name up. The error says why it is not known whether it has addresses.
    fn look_up(&self, name: Arc<str>) -> Looking;
}

/// The addresses of names as a source.
pub struct NamesSource<R> {
    /// The name under which it is shown.
    pub owner: Owner,
    /// What is to be looked up.
    pub wanted: watch::Receiver<Wanted>,
    /// Makes what looks up, once there is something to look up.
    pub resolver: fn() -> R,
}

impl<R: Resolve> Source for NamesSource<R> {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        Vec::new()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            run(self.wanted, self.resolver, out, stop).await;
            Ok(())
        })
    }
}

/// Looks up what is wanted until `stop`.
async fn run<R: Resolve>(
    mut wanted: watch::Receiver<Wanted>,
    resolver: fn() -> R,
    out: Sink,
    stop: CancellationToken,
) {
    let mut keeping = Keeping {
        resolver: None,
        make: resolver,
        under_way: JoinSet::new(),
        entries: BTreeMap::new(),
    };
    loop {
        let list = wanted.borrow_and_update().clone();
        let gone = keeping.want(&list);
        if !gone.is_empty() && out.send(SourceEvent::Changes(gone)).await.is_err() {
            return;
        }
        let change = loop {
            keeping.start_due(Instant::now());
            let next = keeping.next_due(Instant::now());
            tokio::select! {
                changed = wanted.changed() => match changed {
                    Ok(()) => break None,
                    Err(_) => return,
                },
                Some(done) = keeping.under_way.join_next_with_id() => {
                    // A task that panicked leaves its entry as it is; it is asked again when it is due.
                    if let Ok((id, (name, answer))) = done
                        && let Some(change) = keeping.take(id, name, answer, Instant::now())
                    {
                        break Some(change);
                    }
                }
                () = tokio::time::sleep_until(next) => {}
                () = stop.cancelled() => return,
            }
        };
        if let Some(change) = change
            && out.send(SourceEvent::Changes(vec![change])).await.is_err()
        {
            return;
        }
    }
}

/// What is known of one name.
struct Entry {
    due: Instant,
    /// The task that looks it up.
    task: Option<Id>,
    current: Option<Arc<[IpAddr]>>,
}

struct Keeping<R> {
    resolver: Option<R>,
    make: fn() -> R,
    under_way: JoinSet<(Arc<str>, Result<Answer, String>)>,
    entries: BTreeMap<Arc<str>, Entry>,
}

impl<R: Resolve> Keeping<R> {
    /// Takes over what is wanted; returns what to say of names that nobody wants any more.
    fn want(&mut self, wanted: &Wanted) -> Vec<Change> {
        let mut gone = Vec::new();
        self.entries.retain(|name, _| {
            let stays = wanted.contains(name);
            if !stays {
                gone.push(Change::Addresses(name.clone(), None));
            }
            stays
        });
        for name in wanted.iter() {
            let entry = self.entries.entry(name.clone());
            entry.or_insert_with(|| Entry {
                due: Instant::now(),
                task: None,
                current: None,
            });
        }
        gone
    }

    /// When the next name is due. Those that are due already wait for room, which another makes when it ends.
    fn next_due(&self, now: Instant) -> Instant {
        let far = now + LONGEST_LIFE;
        let due = self.entries.values().map(|e| e.due).filter(|d| *d > now);
        due.min().map_or(far, |due| due.min(far))
    }

    fn start_due(&mut self, now: Instant) {
        for (name, entry) in &mut self.entries {
            if self.under_way.len() >= AT_ONCE {
                return;
            }
            if entry.due > now || entry.task.is_some() {
                continue;
            }
            let resolver = self.resolver.get_or_insert_with(self.make);
            let (name, looking) = (name.clone(), resolver.look_up(name.clone()));
            let task = self.under_way.spawn(async move {
                let answer = tokio::time::timeout(LONGEST_LOOKUP, looking).await;
                let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
                (name, answer)
            });
            entry.task = Some(task.id());
            // Should the task panic, it is tried again after this.
            entry.due = now + LONGEST_LOOKUP + SHORTEST_LIFE;
        }
    }

    /// Takes an outcome in; returns what to say of it, if that is new.
    fn take(
        &mut self,
        task: Id,
        name: Arc<str>,
        answer: Result<Answer, String>,
        now: Instant,
    ) -> Option<Change> {
        // Nobody may want it any more.
        let entry = self.entries.get_mut(&name)?;
        if entry.task != Some(task) {
            return None;
        }
        entry.task = None;
        let found: Arc<[IpAddr]> = match answer {
            Ok(mut answer) => {
                entry.due = now + answer.life.clamp(SHORTEST_LIFE, LONGEST_LIFE);
                answer.addresses.sort_unstable();
                answer.addresses.dedup();
                answer.addresses.truncate(ADDRESSES);
                answer.addresses.into()
            }
            Err(error) => {
                entry.due = now + SHORTEST_LIFE;
                tracing::warn!(%name, error, "A name cannot be looked up; what was found before stays in force.");
                entry.current.clone().unwrap_or_default()
            }
        };
        if entry.current.as_ref() == Some(&found) {
            return None;
        }
        entry.current = Some(found.clone());
        Some(Change::Addresses(name, Some(found)))
    }
}

#[cfg(test)]
mod tests;
