//! Keeps certificates: looks which there are, orders those that are missing, and renews them before they expire.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::ObjectName;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use writeback::Place;

use crate::account::Accounts;
use crate::chain::Chain;
use crate::error::Failure;
use crate::issue::{Gateways, Held, Issuer, host_of};
use crate::plan::renewal;
use crate::record::Orders;
use crate::store::Store;
use crate::{MOST, Options, Wanted, Wish};

/// How many are ordered at a time.
const AT_ONCE: usize = 8;
/// How long an order may take from step to step before it is gone on with later.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How often it is looked whether a Secret still holds what was put into it.
const LOOK: Duration = Duration::from_secs(3600);
/// How often the clock is looked at.
const CLOCK: Duration = Duration::from_secs(60);
/// How often rows are told at most: there may be very many.
const TELL: Duration = Duration::from_millis(100);
/// How long other orders wait when a directory limits one: it may mean them all.
const HOLD: Duration = Duration::from_secs(60);

/// How it stands with a certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Nothing was done yet.
    Waiting,
    /// It is being ordered.
    Ordering,
    /// It is there.
    Valid,
    /// It could not be ordered, and will be tried again.
    Failed,
    /// The directory wants to be asked less.
    Limited,
    /// The Secret is somebody else's.
    Foreign,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Ordering,
        Self::Valid,
        Self::Failed,
        Self::Limited,
        Self::Foreign,
    ];

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Ordering => "ordering",
            Self::Valid => "valid",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Foreign => "foreign",
        }
    }
}

/// A certificate, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The hosts that it names.
    pub hosts: Arc<[Arc<str>]>,
    /// The Secret that it is kept in.
    pub secret: ObjectName,
    /// The host of the directory.
    pub issuer: Arc<str>,
    /// How it stands.
    pub state: State,
    /// When the one that is there expires.
    pub not_after: Option<SystemTime>,
    /// When it is renewed, or tried again.
    pub next: Option<SystemTime>,
    /// The serial number of the one that is there.
    pub serial: Option<Arc<str>>,
    /// Why the last attempt failed.
    pub error: Option<Arc<str>>,
}

/// What operators ask for, with who waits for the answer.
#[derive(Debug)]
pub enum Command {
    /// Order the certificate of a host anew.
    Renew(String, oneshot::Sender<Result<String, String>>),
    /// Revoke the certificate of a host, and order another.
    Revoke(String, oneshot::Sender<Result<String, String>>),
}

/// What happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// A certificate was issued.
    Issued(&'a Row),
    /// It was not, and why; it is tried again.
    Failed(&'a Row, &'a str),
    /// A certificate was revoked.
    Revoked(&'a Row),
}

/// Hears what happens.
pub type Watcher = Arc<dyn Fn(Event<'_>) + Send + Sync>;

struct Entry {
    wish: Wish,
    state: State,
    due: SystemTime,
    /// Whether the next attempt orders one, whatever there is.
    force: bool,
    failures: u32,
    chain: Option<Chain>,
    error: Option<Arc<str>>,
}

/// What came of work on a certificate.
enum Done {
    Looked(Result<Held, Failure>),
    Issued(Result<Chain, Failure>),
    Revoked(Result<(), Failure>, oneshot::Sender<Result<String, String>>),
}

/// Keeps what is wanted.
pub struct Keeper {
    issuer: Arc<Issuer>,
    options: Arc<Options>,
    wanted: watch::Receiver<Arc<Wanted>>,
    commands: mpsc::Receiver<Command>,
    told: watch::Sender<Arc<[Row]>>,
    watcher: Watcher,
    entries: BTreeMap<ObjectName, Entry>,
    email: Option<Arc<str>>,
    work: JoinSet<(Wish, Done)>,
    /// The Secrets that are worked on.
    busy: BTreeMap<Id, ObjectName>,
    /// Nothing new is ordered before then.
    held_until: SystemTime,
    /// How often in a row the directory gave no answers that make sense.
    misses: u32,
    /// When rows were told last.
    told_at: Option<Instant>,
    random: RandomState,
}

impl Keeper {
    /// A keeper of what is wanted in a place, whose rows are told.
    pub fn new(
        place: Arc<dyn Place>,
        options: Options,
        gateways: Arc<dyn Gateways>,
        wanted: watch::Receiver<Arc<Wanted>>,
        commands: mpsc::Receiver<Command>,
        told: watch::Sender<Arc<[Row]>>,
        watcher: Watcher,
    ) -> Self {
        let options = Arc::new(options);
        let store = Store(place);
        let issuer = Issuer {
            accounts: Accounts::new(store.clone(), options.clone()),
            orders: Orders {
                store: store.clone(),
                namespace: options.namespace.clone(),
            },
            store,
            options: options.clone(),
            gateways,
        };
        Self {
            issuer: Arc::new(issuer),
            options,
            wanted,
            commands,
            told,
            watcher,
            entries: BTreeMap::new(),
            email: None,
            work: JoinSet::new(),
            busy: BTreeMap::new(),
            held_until: SystemTime::UNIX_EPOCH,
            misses: 0,
            told_at: None,
            random: RandomState::new(),
        }
    }

    /// Works until `stop`, or while this replica leads; what is under way then is gone on with by whoever leads next.
    pub async fn run(&mut self, stop: &CancellationToken) {
        self.entries.clear();
        self.work = JoinSet::new();
        self.busy.clear();
        self.wanted.mark_changed();
        loop {
            self.begin();
            let wait = self.wait().min(self.tell());
            tokio::select! {
                () = stop.cancelled() => break,
                changed = self.wanted.changed() => match changed {
                    Ok(()) => self.want(),
                    Err(_) => break,
                },
                Some(command) = self.commands.recv() => self.obey(command),
                Some(done) = self.work.join_next_with_id() => self.take(done),
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.work.shutdown().await;
    }

    fn now(&self) -> SystemTime {
        (self.options.clock)()
    }

    /// Takes over what is wanted. What is wanted no more stays in its Secret.
    fn want(&mut self) {
        let wanted = self.wanted.borrow_and_update().clone();
        let now = self.now();
        self.email = wanted.email.clone();
        self.entries
            .retain(|secret, _| wanted.certificates.contains_key(secret));
        if wanted.certificates.len() > MOST {
            tracing::error!(
                limit = MOST,
                "More certificates are wanted than can be kept."
            );
        }
        for (secret, wish) in wanted.certificates.iter().take(MOST) {
            match self.entries.get_mut(secret) {
                Some(entry) if entry.wish == *wish => {}
                Some(entry) => {
                    entry.wish = wish.clone();
                    entry.due = now;
                    entry.failures = 0;
                }
                None => {
                    let entry = Entry {
                        wish: wish.clone(),
                        state: State::Waiting,
                        due: now,
                        force: false,
                        failures: 0,
                        chain: None,
                        error: None,
                    };
                    self.entries.insert(secret.clone(), entry);
                }
            }
        }
    }

    /// Begins what is due, as far as there is room.
    fn begin(&mut self) {
        let now = self.now();
        for (secret, entry) in &mut self.entries {
            if self.work.len() >= AT_ONCE {
                return;
            }
            if entry.due > now || self.busy.values().any(|busy| busy == secret) {
                continue;
            }
            let (issuer, wish) = (self.issuer.clone(), entry.wish.clone());
            let (of_secret, email) = (secret.clone(), self.email.clone());
            let orders = entry.force || entry.state == State::Ordering;
            if orders && now < self.held_until {
                continue;
            }
            let task = self.work.spawn(async move {
                if !orders {
                    let looked = issuer.look(&of_secret, &wish).await;
                    return (wish, Done::Looked(looked));
                }
                let issuing = issuer.issue(&of_secret, &wish, email.as_deref());
                let issued = tokio::time::timeout(LONGEST, issuing).await;
                let issued = issued.unwrap_or_else(|_| {
                    let why = format!(
                        "it was not issued within {} minutes",
                        LONGEST.as_secs() / 60
                    );
                    Err(Failure::Later(why))
                });
                (wish, Done::Issued(issued))
            });
            self.busy.insert(task.id(), secret.clone());
        }
    }

    fn is_busy(&self, secret: &ObjectName) -> bool {
        self.busy.values().any(|busy| busy == secret)
    }

    /// How long there is nothing to do.
    fn wait(&self) -> Duration {
        let now = self.now();
        let idle = self.entries.iter().filter(|(s, _)| !self.is_busy(s));
        let idle: Vec<&Entry> = idle.map(|(_, entry)| entry).collect();
        let next = idle.iter().map(
            |entry| match entry.force || entry.state == State::Ordering {
                true => entry.due.max(self.held_until),
                false => entry.due,
            },
        );
        let next = next.min().and_then(|at| at.duration_since(now).ok());
        match (idle.iter().any(|entry| entry.due <= now), next) {
            // Something waits for room, which another makes when it is done.
            (true, _) if self.work.len() >= AT_ONCE => CLOCK,
            (_, Some(next)) => next.min(CLOCK).max(Duration::from_millis(10)),
            (true, None) => Duration::from_millis(10),
            (false, None) => CLOCK,
        }
    }

    fn take(&mut self, done: Result<(Id, (Wish, Done)), JoinError>) {
        let id = match &done {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some(secret) = self.busy.remove(&id) else {
            return;
        };
        let now = self.now();
        match done {
            Ok((_, (wish, done))) => {
                let entry = self.entries.get_mut(&secret);
                match entry.filter(|entry| entry.wish != wish) {
                    // Something else is wanted meanwhile.
                    Some(entry) => (entry.state, entry.due) = (State::Waiting, now),
                    None => self.finish(&secret, done),
                }
            }
            Err(error) => {
                tracing::error!(%error, %secret, "Work on a certificate has ended badly.");
                self.fail(&secret, Failure::Later("a bug: see the log".to_owned()));
            }
        }
    }

    fn finish(&mut self, secret: &ObjectName, done: Done) {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(secret) else {
            return;
        };
        match done {
            Done::Looked(Ok(Held::Ours(chain))) => {
                let renew = renewal(&chain, entry.wish.renew_before);
                entry.chain = Some(chain);
                entry.error = None;
                match renew <= now {
                    true => entry.order(now),
                    false => {
                        entry.state = State::Valid;
                        entry.due = renew.min(now + LOOK);
                    }
                }
            }
            Done::Looked(Ok(Held::Nothing)) => {
                entry.chain = None;
                entry.order(now);
            }
            Done::Looked(Ok(Held::Foreign)) => {
                let foreign = crate::store::StoreError::Foreign(secret.clone());
                self.fail(secret, foreign.into());
            }
            Done::Issued(Ok(chain)) => {
                let renew = renewal(&chain, entry.wish.renew_before);
                let stale = (renew <= now).then(|| Failure::stale(&chain));
                entry.state = State::Valid;
                entry.due = renew.min(now + LOOK);
                (entry.force, self.misses) = (false, 0);
                entry.chain = Some(chain);
                entry.error = None;
                if let Some(row) = self.row(secret) {
                    (self.watcher)(Event::Issued(&row));
                }
                match (stale, self.entries.get_mut(secret)) {
                    (Some(stale), _) => self.fail(secret, stale),
                    (None, Some(entry)) => entry.failures = 0,
                    (None, None) => {}
                }
            }
            Done::Looked(Err(failure)) | Done::Issued(Err(failure)) => self.fail(secret, failure),
            Done::Revoked(Ok(()), answer) => {
                entry.force = true;
                entry.order(now);
                if let Some(row) = self.row(secret) {
                    (self.watcher)(Event::Revoked(&row));
                }
                let _ = answer.send(Ok("revoked; another is ordered".to_owned()));
            }
            Done::Revoked(Err(failure), answer) => {
                let _ = answer.send(Err(failure.to_string()));
            }
        }
    }

    fn fail(&mut self, secret: &ObjectName, failure: Failure) {
        let now = self.now();
        let drawn = self.random.hash_one((secret, now)) as f64 / u64::MAX as f64;
        let Some(entry) = self.entries.get_mut(secret) else {
            return;
        };
        let (first, longest) = failure.pauses();
        let pause = first
            .saturating_mul(1 << entry.failures.min(16))
            .min(longest);
        let mut due = now + pause.mul_f64(1.0 + 0.2 * drawn);
        entry.failures = entry.failures.saturating_add(1);
        if let Failure::Limited(_, until) = &failure {
            let until = *until;
            let held = until.map_or(now + HOLD, |until| until.min(now + HOLD));
            self.held_until = self.held_until.max(held);
            due = match until {
                // Once, that is believed to the second.
                Some(until) if entry.failures == 1 => until + Duration::from_secs(1),
                until => until.unwrap_or(due).max(due),
            };
        }
        if matches!(failure, Failure::Unavailable(_)) {
            // Those that were under way as well are no further miss.
            if self.held_until <= now {
                let hold = first.saturating_mul(1 << self.misses.min(16)).min(longest);
                self.held_until = now + hold;
                self.misses += 1;
            }
            due = due.max(self.held_until);
        } else {
            self.misses = 0;
        }
        let text: Arc<str> = failure.to_string().into();
        entry.due = due;
        entry.error = Some(text.clone());
        entry.state = match &failure {
            Failure::Foreign(_) => State::Foreign,
            Failure::Limited(..) => State::Limited,
            _ => State::Failed,
        };
        entry.force &= !matches!(failure, Failure::Foreign(_));
        if let Some(row) = self.row(secret) {
            (self.watcher)(Event::Failed(&row, &text));
        }
    }

    fn obey(&mut self, command: Command) {
        let now = self.now();
        let (host, answer, revoke) = match command {
            Command::Renew(host, answer) => (host, answer, false),
            Command::Revoke(host, answer) => (host, answer, true),
        };
        let named = self.entries.iter_mut().find(|(_, entry)| {
            let mut hosts = entry.wish.hosts.iter();
            hosts.any(|known| known.eq_ignore_ascii_case(&host))
        });
        let Some((secret, entry)) = named else {
            let said = format!("no certificate is kept for {host:?}");
            let _ = answer.send(Err(said));
            return;
        };
        if self.busy.values().any(|busy| busy == secret) {
            let said = format!("the certificate of {host} is being worked on");
            let _ = answer.send(Err(said));
            return;
        }
        if revoke {
            let (issuer, of_secret) = (self.issuer.clone(), secret.clone());
            let (wish, email) = (entry.wish.clone(), self.email.clone());
            let task = self.work.spawn(async move {
                let revoked = issuer.revoke(&of_secret, email.as_deref()).await;
                (wish, Done::Revoked(revoked, answer))
            });
            self.busy.insert(task.id(), secret.clone());
        } else {
            entry.force = true;
            entry.order(now);
            let _ = answer.send(Ok("it is ordered".to_owned()));
        }
    }

    fn row(&self, secret: &ObjectName) -> Option<Row> {
        let entry = self.entries.get(secret)?;
        Some(row(secret, entry, host_of(&self.options.directory)))
    }

    /// Tells how it stands; returns after which time that is wanted again.
    fn tell(&mut self) -> Duration {
        let since = self.told_at.map_or(TELL, |at| at.elapsed());
        if since < TELL {
            return TELL - since;
        }
        self.told_at = Some(Instant::now());
        let issuer: Arc<str> = host_of(&self.options.directory).into();
        let entries = self.entries.iter();
        let rows: Arc<[Row]> = entries.map(|(s, e)| row(s, e, &issuer)).collect();
        self.told.send_if_modified(|known| {
            let differs = *known != rows;
            *known = rows;
            differs
        });
        CLOCK
    }
}

impl Entry {
    /// Has one ordered.
    fn order(&mut self, now: SystemTime) {
        self.state = State::Ordering;
        self.due = now;
    }
}

fn row(secret: &ObjectName, entry: &Entry, issuer: &str) -> Row {
    let chain = entry.chain.as_ref();
    let next = match (entry.state, chain) {
        (State::Valid, Some(chain)) => Some(renewal(chain, entry.wish.renew_before)),
        (State::Valid | State::Waiting | State::Ordering, _) => None,
        (State::Failed | State::Limited | State::Foreign, _) => Some(entry.due),
    };
    Row {
        hosts: entry.wish.hosts.clone(),
        secret: secret.clone(),
        issuer: issuer.into(),
        state: entry.state,
        not_after: chain.map(|chain| chain.not_after),
        next,
        serial: chain.map(|chain| chain.serial.as_str().into()),
        error: entry.error.clone(),
    }
}
