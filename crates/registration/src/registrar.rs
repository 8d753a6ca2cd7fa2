//! [`Core`] as a task: it hears of streams and of the configuration, and writes to a place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, Shared};
use futures::stream::{FuturesUnordered, StreamExt};
use model::Kind;
use model::object::{ObjectKey, ObjectName};
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use writeback::{ObjectRef, Place, WriteError};

use crate::claim::Claim;
use crate::core::{Core, Write};
use crate::entry::Op;
use crate::object::{Report, Seen};
use crate::presence::Presence;
use crate::refusal::Refusal;
use crate::wall::Wall;
use crate::{ConnectionId, Note, Now, Options, View};

/// The longest message of a report that is kept.
const LONGEST_MESSAGE: usize = 1024;

/// The shortest time between two looks for entries that nobody looks after.
const SHORTEST_SWEEP: Duration = Duration::from_secs(1);

/// What streams say.
enum Event {
    Connect(
        ConnectionId,
        Box<Claim>,
        oneshot::Sender<Result<(), Refusal>>,
    ),
    Disconnect(ConnectionId),
    /// There is a report.
    Report(ConnectionId, Slot),
    /// What is registered, and which replicas are gone.
    Sweep(Vec<(ObjectName, Seen)>, BTreeSet<Arc<str>>),
}

/// The newest report of a stream, until it is taken.
type Slot = Arc<Mutex<Option<Report>>>;

/// What is in force, and what changed since that was last looked at.
struct Sight {
    view: Arc<dyn View>,
    changed: BTreeSet<ObjectKey>,
    completed: bool,
}

/// Where entries are written, once that is known; `None` where it never will be.
pub type Where = Shared<BoxFuture<'static, Option<Arc<dyn Place>>>>;

/// With what the task is started.
pub struct Setup {
    /// How entries are looked after.
    pub options: Options,
    /// Where they are written. Streams are admitted before.
    pub place: Where,
    /// Which replicas there are.
    pub presence: Presence,
    /// What is in force at the start.
    pub view: Arc<dyn View>,
    /// Hears what happens.
    pub told: Box<dyn Fn(Note) + Send>,
}

/// The way to the task; clones share it.
#[derive(Clone)]
pub struct Registrar {
    events: mpsc::UnboundedSender<Event>,
    sight: Arc<Mutex<Sight>>,
    look: Arc<Notify>,
    next: Arc<AtomicU64>,
    presence: Arc<Presence>,
}

/// The claim of a stream, until this is dropped.
pub struct Seat {
    id: ConnectionId,
    events: mpsc::UnboundedSender<Event>,
    slot: Slot,
}

impl Seat {
    /// The health of the workload was reported. Of several reports that were not taken yet, the newest counts.
    pub fn report(&self, healthy: bool, message: &str) {
        let message = &message[..message.floor_char_boundary(LONGEST_MESSAGE)];
        let report = Report {
            healthy,
            message: if healthy { "" } else { message }.into(),
            at: Wall::now(),
        };
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.replace(report).is_none() {
            // The process is going down if this fails.
            let _ = self.events.send(Event::Report(self.id, self.slot.clone()));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // The process is going down if this fails.
        let _ = self.events.send(Event::Disconnect(self.id));
    }
}

impl Registrar {
    /// Starts the tasks; they end with `stop`.
    pub fn start(setup: Setup, stop: CancellationToken) -> (Self, tokio::task::JoinHandle<()>) {
        let (events, inbox) = mpsc::unbounded_channel();
        let sight = Arc::new(Mutex::new(Sight {
            view: setup.view,
            changed: BTreeSet::new(),
            completed: false,
        }));
        let registrar = Self {
            events,
            sight: sight.clone(),
            look: Arc::default(),
            next: Arc::default(),
            presence: Arc::new(setup.presence),
        };
        let grace = setup.options.grace;
        let task = Task {
            start: Instant::now(),
            core: Core::new(setup.options),
            place: setup.place,
            sight,
            answers: BTreeMap::new(),
            told: setup.told,
        };
        let running = task.run(inbox, registrar.look.clone());
        let sweeping = registrar.clone().sweep(grace);
        let presence = registrar.presence.clone();
        let all = async move {
            tokio::select! {
                () = running => {}
                () = sweeping => {}
                () = beat(&presence) => {}
                () = stop.cancelled() => {}
            }
            presence.leave().await;
        };
        (registrar, tokio::spawn(all))
    }

    /// A workload connects. Returns when its entry is in force, or `patience` is over: then it is being written, and the
    /// workload may be served without.
    ///
    /// # Errors
    ///
    /// When it does not get one.
    pub async fn connect(&self, claim: Claim, patience: Duration) -> Result<Seat, Refusal> {
        self.presence.need();
        let id = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        self.events
            .send(Event::Connect(id, Box::new(claim), answer))
            .map_err(|_| Refusal::Closed)?;
        // From here on it leaves when it is no longer wanted.
        let seat = Seat {
            id,
            events: self.events.clone(),
            slot: Slot::default(),
        };
        match tokio::time::timeout(patience, answered).await {
            Ok(Ok(answer)) => answer.map(|()| seat),
            Ok(Err(_)) => Err(Refusal::Closed),
            Err(_) => Ok(seat),
        }
    }

    /// Takes in what is in force from here on, and which groups and entries differ.
    pub fn saw(&self, view: Arc<dyn View>, changed: impl Iterator<Item = ObjectKey>) {
        let mut sight = self.sight.lock().unwrap_or_else(PoisonError::into_inner);
        let before = sight.changed.len();
        let matter =
            |key: &ObjectKey| matches!(key.kind, Kind::WorkloadEntry | Kind::WorkloadGroup);
        sight.changed.extend(changed.filter(matter));
        let completed = view.is_complete() && !sight.view.is_complete();
        sight.completed |= completed;
        sight.view = view;
        if completed || sight.changed.len() > before {
            self.look.notify_one();
        }
    }

    /// Looks for entries that nobody looks after. Each replica does, as istiod's do: an entry is deleted in the version that
    /// was seen, and by one of them.
    async fn sweep(self, grace: Duration) {
        let every = grace.max(SHORTEST_SWEEP);
        loop {
            tokio::time::sleep(every).await;
            let view = {
                let sight = self.sight.lock().unwrap_or_else(PoisonError::into_inner);
                sight.view.clone()
            };
            if !view.is_complete() {
                continue;
            }
            let registered = view.registered();
            let connected = registered
                .iter()
                .filter(|(_, seen)| seen.connected.is_some());
            let named: BTreeSet<Arc<str>> = connected
                .filter_map(|(_, seen)| seen.controller.clone())
                .collect();
            let mut gone = BTreeSet::new();
            for instance in &named {
                if self.presence.is_gone(instance).await {
                    gone.insert(instance.clone());
                }
            }
            self.presence
                .tidy(|instance| named.contains(instance))
                .await;
            if self.events.send(Event::Sweep(registered, gone)).is_err() {
                return;
            }
        }
    }
}

/// Says now and then that this replica is there.
async fn beat(presence: &Presence) {
    let mut failed = false;
    loop {
        tokio::time::sleep(presence.interval()).await;
        match presence.renew().await {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                tracing::warn!(%error, "The Lease of this replica cannot be renewed; others may take its workloads for gone.");
            }
            Err(_) => {}
        }
    }
}

/// The one that writes.
struct Task {
    start: Instant,
    core: Core,
    place: Where,
    sight: Arc<Mutex<Sight>>,
    answers: BTreeMap<ConnectionId, oneshot::Sender<Result<(), Refusal>>>,
    told: Box<dyn Fn(Note) + Send>,
}

type Written = (Write, Result<Option<Value>, WriteError>);

impl Task {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Event>, look: Arc<Notify>) {
        let mut writes = FuturesUnordered::new();
        loop {
            let due = self.core.next_due().map(|at| self.start + at);
            let sleep = async move {
                match due {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = inbox.recv() => match event {
                    Some(event) => self.take(event),
                    None => return,
                },
                Some(written) = writes.next(), if !writes.is_empty() => self.wrote(&written),
                () = look.notified() => {}
                () = sleep => {}
            }
            // What else is there is taken together.
            while let Ok(event) = inbox.try_recv() {
                self.take(event);
            }
            let view = self.look();
            let now = self.now();
            while let Some(write) = self.core.next_write(&*view, now) {
                writes.push(ask(self.place.clone(), write));
            }
            self.tell();
        }
    }

    fn now(&self) -> Now {
        Now {
            since: self.start.elapsed(),
            wall: Wall::now(),
        }
    }

    fn view(&self) -> Arc<dyn View> {
        let sight = self.sight.lock().unwrap_or_else(PoisonError::into_inner);
        sight.view.clone()
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Connect(id, claim, answer) => {
                self.answers.insert(id, answer);
                self.core.connect(id, *claim, &*self.view(), now);
            }
            Event::Disconnect(id) => {
                self.answers.remove(&id);
                self.core.disconnect(id, now);
            }
            Event::Report(id, slot) => {
                let report = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(report) = report {
                    self.core.report(id, report);
                }
            }
            Event::Sweep(registered, gone) => self.core.sweep(registered, &gone, now),
        }
    }

    fn wrote(&mut self, (write, result): &Written) {
        let now = self.now();
        self.core.wrote(write, result.clone(), &*self.view(), now);
    }

    /// Takes in what is in force.
    fn look(&mut self) -> Arc<dyn View> {
        let mut sight = self.sight.lock().unwrap_or_else(PoisonError::into_inner);
        let (view, changed) = (sight.view.clone(), std::mem::take(&mut sight.changed));
        let completed = std::mem::take(&mut sight.completed);
        drop(sight);
        self.core.seen(changed, &*view);
        if completed {
            self.core.completed();
        }
        view
    }

    fn tell(&mut self) {
        for (id, answer) in self.core.take_answers() {
            if let Some(waiting) = self.answers.remove(&id) {
                // Who asked has gone if this fails, and says so as well.
                let _ = waiting.send(answer);
            }
        }
        for note in self.core.take_notes() {
            (self.told)(note);
        }
    }
}

async fn ask(place: Where, write: Write) -> Written {
    let Some(place) = place.await else {
        let nowhere = WriteError::Unavailable("there is no API to write to".into());
        return (write, Err(nowhere));
    };
    let object = ObjectRef::of(Kind::WorkloadEntry, &write.entry);
    let result = match write.op.clone() {
        Op::Read => place.get(&object).await,
        Op::Create(value) => place.create(&object, value).await.map(Some),
        Op::Replace(part, value) => place.replace(&object, part, value).await.map(Some),
        Op::Delete(version) => {
            let deleted = place.delete(&object, version.as_deref()).await;
            deleted.map(|()| None)
        }
    };
    (write, result)
}
