//! The queries to a Consul that are under way, and what follows from their answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

use super::decode::{self, Line};
use super::{BUSY_SWEEP, Consul, HOT, QueryError, SINGLE, SWEEP, WAIT, host};
use crate::http::HttpError;
use crate::report::{Instance, RegistryError, Report, Reports};

/// Queries under way at once that do not wait for a change.
const AT_ONCE: usize = 16;
/// Those that ask for all services have a room of their own, so that what has changed does not wait for them.
const SWEEPING: usize = 4;
/// The same is not asked again sooner: a service that changes all the time is read ten times a second.
const PACE: Duration = Duration::from_millis(100);
/// As long as that where the answer says nothing of what to wait for.
const BLIND_PACE: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Clone)]
enum Query {
    Names,
    /// A service, and the index of what is known of it.
    Service(Arc<str>, u64),
    Summary,
}

/// An answer.
enum Answered {
    Names(Vec<Arc<str>>),
    Service(Arc<str>, Vec<Instance>),
    /// A service is as it was.
    Same(Arc<str>),
    /// None where it is as it was.
    Summary(Option<BTreeMap<Arc<str>, Line>>),
    /// What was said of a service makes no sense.
    Garbled(Arc<str>, QueryError),
    /// There is no summary for us.
    NoSummary(QueryError),
}

/// A service.
struct Watched {
    host: Arc<str>,
    /// Whether it has been reported.
    told: bool,
    /// The index of what was reported, 0 where that is not known.
    index: u64,
    query: Option<AbortHandle>,
}

struct Watch {
    consul: Consul,
    datacenter: Arc<str>,
    to: Reports,
    room: Arc<Semaphore>,
    sweeping: Arc<Semaphore>,
    under_way: JoinSet<(u64, Instant, Result<Answered, QueryError>)>,
    services: BTreeMap<Arc<str>, Watched>,
    /// Whether the services are others than were reported as a whole.
    is_new: bool,
    /// Those that changed last, the latest last: where there are too many for a waiting query each, these have one.
    hot: VecDeque<Arc<str>>,
    summary: Option<BTreeMap<Arc<str>, Line>>,
    /// Whether a query for the summary is under way.
    sums: bool,
    swept: Instant,
    /// When all services are to be asked for.
    sweep: Option<Instant>,
}

/// Reads a Consul until that fails.
pub(super) async fn run(consul: Consul, to: Reports) -> Result<(), RegistryError> {
    let datacenter = consul.datacenter().await?;
    let mut watch = Watch::new(consul, datacenter, to);
    watch.ask(Query::Names, 0, None);
    loop {
        let sweep = watch.sweep;
        let due = async {
            match sweep {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = watch.under_way.join_next_with_id() => match ended {
                Ok((id, (index, asked, answered))) => watch.take(id, index, asked, answered?).await?,
                Err(error) if error.is_cancelled() => {}
                Err(_) => return Err(RegistryError("a query panicked, which is a bug".into())),
            },
            () = due => watch.ask_for_all(),
        }
    }
}

impl Watch {
    fn new(consul: Consul, datacenter: Arc<str>, to: Reports) -> Self {
        Self {
            consul,
            datacenter,
            to,
            room: Arc::new(Semaphore::new(AT_ONCE)),
            sweeping: Arc::new(Semaphore::new(SWEEPING)),
            under_way: JoinSet::new(),
            services: BTreeMap::new(),
            is_new: true,
            hot: VecDeque::new(),
            summary: None,
            sums: false,
            swept: Instant::now(),
            sweep: None,
        }
    }

    /// Whether there are too many services for a waiting query each.
    fn has_many(&self) -> bool {
        self.services.len() > SINGLE && !self.consul.client.shares_connections()
    }

    /// Asks, once something is newer than `index` if that is known, and not before a time.
    fn ask(&mut self, query: Query, index: u64, not_before: Option<Instant>) -> AbortHandle {
        self.ask_in(self.room.clone(), query, index, not_before)
    }

    /// [`Watch::ask`], where there is room if that does not wait.
    fn ask_in(
        &mut self,
        room: Arc<Semaphore>,
        query: Query,
        index: u64,
        not_before: Option<Instant>,
    ) -> AbortHandle {
        let consul = self.consul.clone();
        self.under_way.spawn(async move {
            if let Some(then) = not_before {
                tokio::time::sleep_until(then).await;
            }
            let asked = Instant::now();
            let is_waiting = index > 0 || !matches!(query, Query::Service(..));
            // The semaphore is never closed.
            let _room = match is_waiting {
                true => None,
                false => room.acquire().await.ok(),
            };
            match answer(&consul, query, index).await {
                Ok((index, answered)) => (index, asked, Ok(answered)),
                Err(error) => (0, asked, Err(error)),
            }
        })
    }

    async fn take(
        &mut self,
        id: Id,
        index: u64,
        asked: Instant,
        answered: Answered,
    ) -> Result<(), RegistryError> {
        let pace = if index == 0 { BLIND_PACE } else { PACE };
        let next = Some(asked + pace);
        match answered {
            // The answer came just before its query was given up for another, which says what is newer.
            Answered::Service(name, _) | Answered::Garbled(name, _) if !self.awaits(&name, id) => {}
            Answered::Names(names) => {
                self.names(names);
                self.ask(Query::Names, index, next);
            }
            Answered::Service(name, instances) => {
                self.changed(&name, index);
                self.service(name.clone(), index, next);
                self.report(&name, instances).await?;
            }
            Answered::Same(name) => self.service(name, index, next),
            Answered::Garbled(name, error) => {
                tracing::warn!(service = %name, %error, "A service of Consul cannot be read; what was known of it stays in force.");
                let next = Some(asked + SWEEP);
                self.warm(&name);
                self.service(name, 0, next);
            }
            Answered::Summary(rows) => {
                self.sums = false;
                self.summary(rows);
                if self.has_many() {
                    self.sum(index, next);
                }
            }
            Answered::NoSummary(error) => {
                tracing::debug!(%error, "Consul gives no summary of its services; all are asked for from time to time.");
                self.sums = false;
                self.summary.get_or_insert_default();
                self.ask_for_new();
                self.sweep_within(SWEEP);
                self.sum(0, Some(asked + SWEEP));
            }
        }
        if self.is_new && self.services.values().all(|watched| watched.told) {
            self.is_new = false;
            let hosts: BTreeSet<_> = self.services.values().map(|w| w.host.clone()).collect();
            self.tell(Report::Whole(hosts)).await?;
        }
        Ok(())
    }

    /// Whether this is the query for a service that counts.
    fn awaits(&self, name: &str, id: Id) -> bool {
        let query = self.services.get(name).and_then(|w| w.query.as_ref());
        query.is_some_and(|query| query.id() == id)
    }

    /// Takes over which services there are.
    fn names(&mut self, names: Vec<Arc<str>>) {
        let names: BTreeSet<Arc<str>> = names.into_iter().collect();
        let before = self.services.len();
        self.services.retain(|name, watched| {
            let stays = names.contains(name);
            if !stays && let Some(query) = &watched.query {
                query.abort();
            }
            stays
        });
        self.is_new |= self.services.len() != before;
        self.hot.retain(|name| self.services.contains_key(name));
        let mut hosts: BTreeSet<_> = self.services.values().map(|w| w.host.clone()).collect();
        for name in names {
            let host = host(&name, &self.datacenter);
            if self.services.contains_key(&name) {
                continue;
            }
            if !hosts.insert(host.clone()) {
                tracing::warn!(service = %name, %host, "Another service of Consul has this host, and this one is not read.");
                continue;
            }
            self.is_new = true;
            let watched = Watched {
                host,
                told: false,
                index: 0,
                query: None,
            };
            self.services.insert(name, watched);
        }
        self.settle();
    }

    /// Asks in the way that the number of services is for.
    fn settle(&mut self) {
        if self.has_many() {
            self.sum(0, None);
            // The first one is waited for: it shows what changes after services were asked for, and not what changed before.
            if self.summary.is_some() {
                self.ask_for_new();
            }
        } else if self.summary.take().is_some() {
            self.sweep = None;
            self.ask_for_all();
        } else {
            self.ask_for_new();
        }
    }

    /// Asks for the services that were never asked for.
    fn ask_for_new(&mut self) {
        let services = self.services.iter();
        let new = services.filter(|(_, watched)| !watched.told && watched.query.is_none());
        for name in new.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.ask_anew(&name, self.room.clone());
        }
    }

    /// Notes that a service is another than was reported, if it is.
    fn changed(&mut self, name: &Arc<str>, index: u64) {
        let Some(watched) = self.services.get_mut(name) else {
            return;
        };
        let is_change = watched.told && index > watched.index;
        watched.index = index;
        if is_change {
            self.warm(name);
        }
    }

    /// Lets a service have a waiting query, in place of the one that has not changed for longest.
    fn warm(&mut self, name: &Arc<str>) {
        if !self.has_many() {
            return;
        }
        self.hot.retain(|hot| hot != name);
        self.hot.push_back(name.clone());
        if self.hot.len() > HOT
            && let Some(cold) = self.hot.pop_front()
            && let Some(watched) = self.services.get_mut(&cold)
            && let Some(query) = watched.query.take()
        {
            query.abort();
        }
    }

    /// Goes on after an answer for a service.
    fn service(&mut self, name: Arc<str>, index: u64, next: Option<Instant>) {
        let is_waiting = !self.has_many() || self.hot.contains(&name);
        let Some(watched) = self.services.get_mut(&name) else {
            return;
        };
        watched.told = true;
        watched.query = None;
        let known = watched.index;
        if is_waiting {
            let query = self.ask(Query::Service(name.clone(), known), index, next);
            if let Some(watched) = self.services.get_mut(&name) {
                watched.query = Some(query);
            }
        }
    }

    async fn report(&self, name: &Arc<str>, instances: Vec<Instance>) -> Result<(), RegistryError> {
        match self.services.get(name) {
            Some(watched) => {
                self.tell(Report::Service(watched.host.clone(), instances))
                    .await
            }
            None => Ok(()),
        }
    }

    /// Asks for the summary, unless that is under way.
    fn sum(&mut self, index: u64, next: Option<Instant>) {
        if !self.sums {
            self.sums = true;
            self.ask(Query::Summary, index, next);
        }
    }

    /// Asks for the services of which the summary says something else than before.
    fn summary(&mut self, rows: Option<BTreeMap<Arc<str>, Line>>) {
        let Some(rows) = rows else {
            if self.sweep.is_some() {
                self.sweep_within(SWEEP);
            }
            return;
        };
        let Some(before) = self.summary.replace(rows) else {
            // Where there were few services, they were asked for before.
            if self.services.values().any(|watched| watched.told) {
                self.sweep_within(SWEEP);
            }
            self.ask_for_new();
            return;
        };
        let now = self.summary.iter().flatten();
        let changed = now.filter(|(name, row)| before.get(*name) != Some(row));
        let changed: Vec<Arc<str>> = changed.map(|(name, _)| name.clone()).collect();
        // Something may have changed that it does not show.
        let is_over = changed.is_empty();
        self.sweep_within(if is_over { SWEEP } else { BUSY_SWEEP });
        for name in changed {
            self.ask_anew(&name, self.room.clone());
        }
    }

    /// Has all services asked for, that long after they were last.
    fn sweep_within(&mut self, time: Duration) {
        let due = (self.swept + time).max(Instant::now());
        self.sweep = Some(self.sweep.map_or(due, |before| before.min(due)));
    }

    fn ask_for_all(&mut self) {
        self.sweep = None;
        self.swept = Instant::now();
        for name in self.services.keys().cloned().collect::<Vec<_>>() {
            self.ask_anew(&name, self.sweeping.clone());
        }
    }

    /// Asks for a service as it is now, in place of a query that is under way.
    fn ask_anew(&mut self, name: &Arc<str>, room: Arc<Semaphore>) {
        let Some(watched) = self.services.get(name) else {
            return;
        };
        let query = Query::Service(name.clone(), watched.index);
        let query = self.ask_in(room, query, 0, None);
        if let Some(watched) = self.services.get_mut(name)
            && let Some(former) = watched.query.replace(query)
        {
            former.abort();
        }
    }

    async fn tell(&self, report: Report) -> Result<(), RegistryError> {
        let closed = |_| RegistryError("nobody listens".into());
        self.to.send(report).await.map_err(closed)
    }
}

async fn answer(consul: &Consul, query: Query, index: u64) -> Result<(u64, Answered), QueryError> {
    match query {
        Query::Names => {
            let (index, answer) = consul.query("/v1/catalog/services", index, WAIT).await?;
            let names = decode::names(&answer.body, &consul.tag);
            let names = names.map_err(|error| QueryError::Garbled("services", error))?;
            Ok((index, Answered::Names(names)))
        }
        Query::Service(name, known) => {
            let asked = Instant::now();
            match consul.service(&name, index, known).await {
                Ok((index, Some(instances))) => Ok((index, Answered::Service(name, instances))),
                Ok((index, None)) => Ok((index, Answered::Same(name))),
                Err(error @ QueryError::Garbled(..)) => Ok((0, Answered::Garbled(name, error))),
                // What is in between may not let anybody wait so long.
                Err(_) if asked.elapsed() > WAIT && consul.waits_shorter() => {
                    Ok((index, Answered::Same(name)))
                }
                Err(error) => Err(error),
            }
        }
        Query::Summary => match summary(consul, index).await {
            Ok((index, rows)) => Ok((index, Answered::Summary(rows))),
            Err(error) if is_refusal(&error, index) => Ok((0, Answered::NoSummary(error))),
            Err(error) => Err(error),
        },
    }
}

/// Asks for what is told of each service. None where no service, node or check is another than at `known`.
async fn summary(
    consul: &Consul,
    known: u64,
) -> Result<(u64, Option<BTreeMap<Arc<str>, Line>>), QueryError> {
    let (index, answer) = consul
        .query("/v1/internal/ui/services", known, WAIT)
        .await?;
    if index > 0 && index == known {
        return Ok((index, None));
    }
    let rows = decode::summary(&answer.body, &consul.tag);
    let rows = rows.map_err(|error| QueryError::Garbled("summary", error))?;
    Ok((index, Some(rows)))
}

/// Whether a Consul will not answer this at an index, or takes too long to, and not only now.
fn is_refusal(error: &QueryError, index: u64) -> bool {
    match error {
        QueryError::Garbled(..) => true,
        QueryError::Http(HttpError::Status(_, status, _)) => status.is_client_error(),
        QueryError::Http(HttpError::TimedOut(..)) => index == 0,
        QueryError::Http(_) => false,
    }
}

#[cfg(test)]
mod tests;
