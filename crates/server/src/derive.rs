//! The derive thread: owns the store and the engine, takes changes and subscriptions, publishes what changed.
//!
//! One thread writes, so nothing that generation could reach is behind a lock. Batching is adaptive: the first change
//! after quiet is taken at once; what arrives while it is worked on is the next batch. A panic in generation leaves the
//! view it happened in with what it had, is counted and logged, and is tried again with the next change that concerns
//! the view.

mod found;
mod origins;
mod revisions;
mod state;
mod subscriptions;
mod wants;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ads::latest;
use convert::status::StatusChange;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Node;
use model::settings::Settings;
use model::{Change, Diagnostic};
use source_api::Room;
use store::Snapshot;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use xds::{Published, TypeUrl};

use crate::analysis::Seen;

pub use found::{RefusedRoute, Totals};
pub use origins::OriginLimits;
pub use revisions::{Revision, Revisions};
pub use state::{FindingRow, ProxyRow, State, ViewRow};
pub(crate) use subscriptions::has_sets;
pub use wants::{CertificatesWanted, KeysWanted, ModulesWanted, NamesWanted, ReviewsWanted};
use wants::{Wanted, Wants};

/// How many batches of changes may wait to be applied, of all sources together, before sources are made to wait. There is
/// no other queue between a source and the derive thread.
const WAITING_CHANGES: usize = 64;

/// How many proxies may wait to be introduced before others are made to. What a stream says later never waits, and is
/// bounded: each type once, and that it is gone.
const WAITING_PROXIES: usize = 4096;

/// How many questions may wait.
const WAITING_QUESTIONS: usize = 64;

/// How much of what streams say is taken together. While thousands connect at once, changes are taken in between.
const TURN: usize = 256;

/// A connected proxy, unique for the life of the process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProxyId(u64);

/// What a stream gets for its first request.
pub struct Subscription {
    /// Names the proxy in later messages.
    pub proxy: ProxyId,
    /// The newest sets for the proxy.
    pub published: latest::Receiver<Arc<Published>>,
    /// The proxy leaves when this is dropped, also before anybody has seen it.
    pub seat: Seat,
}

/// The place of a proxy on the derive thread, until this is dropped.
pub struct Seat {
    proxy: ProxyId,
    queue: mpsc::UnboundedSender<Message>,
    proxies: Arc<AtomicU64>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.proxies.fetch_sub(1, Ordering::Relaxed);
        // The process is going down if this fails, and the proxy's entry with it.
        let _ = self.queue.send(Message::Leave(self.proxy));
    }
}

/// A proxy that introduces itself.
struct Introduction {
    node: Arc<Node>,
    /// What it had before the start, if that is known.
    had: Option<Arc<Published>>,
    from: IpAddr,
    queue: mpsc::UnboundedSender<Message>,
    proxies: Arc<AtomicU64>,
    reply: oneshot::Sender<Result<Subscription, Refused>>,
    _room: OwnedSemaphorePermit,
}

type Question = Box<dyn FnOnce(&State) + Send>;

enum Message {
    Changes(Vec<Change>, Instant, Room),
    Subscribe(Box<Introduction>),
    Hold,
    LetGo,
    Settle(ProxyId),
    Want(ProxyId, TypeUrl),
    Leave(ProxyId),
    Ask(Question, OwnedSemaphorePermit),
}

/// The way to the derive thread. Clones share it.
#[derive(Clone)]
pub struct Derive {
    queue: mpsc::UnboundedSender<Message>,
    room: Arc<Semaphore>,
    doors: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    proxies: Arc<AtomicU64>,
    wanted: Wanted,
    revisions: Arc<Revisions>,
}

/// The derive thread has ended; the process is going down.
#[derive(Debug)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the derive thread has ended")
    }
}

impl std::error::Error for Closed {}

/// Why a proxy was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The process is going down.
    #[error("the derive thread has ended")]
    Closed,
    /// Proxies are at too many different places.
    #[error("{0}")]
    Exhausted(String),
}

impl Derive {
    /// Starts the thread with empty tables. `on_batch` is called on the thread after each batch was published.
    ///
    /// # Errors
    ///
    /// When the system has no room for another thread.
    pub fn start(
        settings: Arc<Settings>,
        limits: OriginLimits,
        on_batch: impl FnMut(&Batch) + Send + 'static,
    ) -> std::io::Result<(Derive, std::thread::JoinHandle<()>)> {
        Self::start_watched(settings, limits, on_batch, |_, _, _| {})
    }

    /// As [`Derive::start`]; `on_proxy` is called on the thread when a proxy has its view and when it leaves.
    ///
    /// # Errors
    ///
    /// When the system has no room for another thread.
    pub fn start_watched(
        settings: Arc<Settings>,
        limits: OriginLimits,
        on_batch: impl FnMut(&Batch) + Send + 'static,
        on_proxy: impl FnMut(&Namespace, &Labels, Seen) + Send + 'static,
    ) -> std::io::Result<(Derive, std::thread::JoinHandle<()>)> {
        let (queue, inbox) = mpsc::unbounded_channel();
        let wants = Wants::default();
        let wanted = wants.wanted();
        let revisions = Arc::new(Revisions::default());
        let noted = revisions.clone();
        let thread = std::thread::Builder::new()
            .name("derive".into())
            .stack_size(16 << 20)
            .spawn(move || {
                let state = State::new(settings, limits, wants, noted, Box::new(on_proxy));
                run(state, inbox, on_batch);
            })?;
        Ok((
            Derive {
                queue,
                room: Arc::new(Semaphore::new(WAITING_CHANGES)),
                doors: Arc::new(Semaphore::new(WAITING_PROXIES)),
                questions: Arc::new(Semaphore::new(WAITING_QUESTIONS)),
                proxies: Arc::default(),
                wanted,
                revisions,
            },
            thread,
        ))
    }

    /// Hands over changes, which were noticed at `since`, as one batch or a part of one. Waits while too many are waiting.
    ///
    /// # Errors
    ///
    /// When the process is going down.
    pub async fn change(&self, changes: Vec<Change>, since: Instant) -> Result<(), Closed> {
        let permit = self
            .room
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| Closed)?;
        self.take(changes, since, permit.into())
    }

    /// The room that batches of changes wait in.
    pub fn room(&self) -> Arc<Semaphore> {
        self.room.clone()
    }

    /// As [`Derive::change`], for changes that have their room already.
    ///
    /// # Errors
    ///
    /// When the process is going down.
    pub fn take(&self, changes: Vec<Change>, since: Instant, room: Room) -> Result<(), Closed> {
        self.send(Message::Changes(changes, since, room))
    }

    /// Proxies that come from here on are held: they get what they had before the start and nothing that is derived,
    /// until [`Derive::let_go`].
    ///
    /// # Errors
    ///
    /// When the process is going down.
    pub fn hold(&self) -> Result<(), Closed> {
        self.send(Message::Hold)
    }

    /// The sources have been read: what held proxies have is corrected.
    ///
    /// # Errors
    ///
    /// When the process is going down.
    pub fn let_go(&self) -> Result<(), Closed> {
        self.send(Message::LetGo)
    }

    /// Introduces a proxy that comes from an address; `had` is what it had before the start, if that is known. Waits while
    /// too many wait.
    ///
    /// # Errors
    ///
    /// When it is at one place too many, or the process is going down.
    pub async fn subscribe(
        &self,
        node: Arc<Node>,
        from: IpAddr,
        had: Option<Arc<Published>>,
    ) -> Result<Subscription, Refused> {
        let room = self.doors.clone().acquire_owned().await;
        let (reply, answer) = oneshot::channel();
        let introduction = Introduction {
            node,
            had,
            from,
            queue: self.queue.clone(),
            proxies: self.proxies.clone(),
            reply,
            _room: room.map_err(|_| Refused::Closed)?,
        };
        self.send(Message::Subscribe(Box::new(introduction)))
            .map_err(|_| Refused::Closed)?;
        answer.await.map_err(|_| Refused::Closed)?
    }

    /// The proxy wants a type from here on.
    ///
    /// # Errors
    ///
    /// When the process is going down.
    pub fn want(&self, proxy: ProxyId, ty: TypeUrl) -> Result<(), Closed> {
        self.send(Message::Want(proxy, ty))
    }

    /// Asks the thread something between two batches. Waits while too many questions wait.
    ///
    /// # Errors
    ///
    /// When the process is going down.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&State) -> T + Send + 'static,
    ) -> Result<T, Closed> {
        let room = self.questions.clone().acquire_owned().await;
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |state| {
            // Nobody waits for the answer any more if this fails.
            let _ = reply.send(question(state));
        });
        self.send(Message::Ask(question, room.map_err(|_| Closed)?))?;
        answer.await.map_err(|_| Closed)
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.queue.is_closed()
    }

    fn send(&self, message: Message) -> Result<(), Closed> {
        self.queue.send(message).map_err(|_| Closed)
    }

    /// Which keys are to be fetched.
    pub fn wanted_keys(&self) -> watch::Receiver<KeysWanted> {
        self.wanted.keys.clone()
    }

    /// Which Wasm modules are to be fetched.
    pub fn wanted_modules(&self) -> watch::Receiver<ModulesWanted> {
        self.wanted.modules.clone()
    }

    /// Which names are to be resolved.
    pub fn wanted_names(&self) -> watch::Receiver<NamesWanted> {
        self.wanted.names.clone()
    }

    /// Which certificates are to be made.
    pub fn wanted_certificates(&self) -> watch::Receiver<CertificatesWanted> {
        self.wanted.certificates.clone()
    }

    /// Whose access to Secrets is to be reviewed.
    pub fn wanted_reviews(&self) -> watch::Receiver<ReviewsWanted> {
        self.wanted.reviews.clone()
    }

    /// How far the latest revisions have come.
    pub fn revisions(&self) -> &Revisions {
        &self.revisions
    }

    /// How many proxies are connected.
    pub fn connected(&self) -> u64 {
        self.proxies.load(Ordering::Relaxed)
    }
}

/// What one batch did; for metrics and logs.
#[derive(Debug)]
pub struct Batch {
    /// The revision it made.
    pub revision: u64,
    /// The objects at that revision.
    pub snapshot: Arc<Snapshot>,
    /// What changed.
    pub changes: store::ChangeSet,
    /// The statuses that became others.
    pub statuses: Vec<StatusChange>,
    /// When its oldest change was noticed.
    pub since: Instant,
    /// Proxies that were connected.
    pub proxies: usize,
    /// Views of which something was published.
    pub views: usize,
    /// Sets published, over all views.
    pub sets: usize,
    /// Evaluations run.
    pub runs: u64,
    /// Time to apply the changes.
    pub apply: Duration,
    /// Time to mark what they may affect.
    pub dirty: Duration,
    /// Time of the derivations, encoding of resources included.
    pub evaluate: Duration,
    /// Time to mark, derive and publish.
    pub generate: Duration,
    /// Panics caught.
    pub panics: u64,
    /// What generation found and had not found before.
    pub found: Vec<Diagnostic>,
    /// The routes of which something else is closed than before.
    pub refused: Vec<RefusedRoute>,
    /// How many findings of generation are in force.
    pub findings: Totals,
}

fn run(
    mut state: State,
    mut inbox: mpsc::UnboundedReceiver<Message>,
    mut on_batch: impl FnMut(&Batch),
) {
    // What streams said and has to wait.
    let mut waiting = VecDeque::new();
    loop {
        let mut changes = Vec::new();
        let mut since = None;
        let mut next = match waiting.is_empty() {
            true => match inbox.blocking_recv() {
                Some(first) => Some(first),
                None => return,
            },
            false => inbox.try_recv().ok(),
        };
        while let Some(message) = next {
            match message {
                Message::Changes(list, at, _room) => {
                    changes.extend(list);
                    since = Some(since.map_or(at, |since: Instant| since.min(at)));
                }
                other => waiting.push_back(other),
            }
            next = inbox.try_recv().ok();
        }
        let (mut questions, mut held) = (Vec::new(), Vec::new());
        let turn = waiting.len().min(TURN);
        for message in waiting.drain(..turn) {
            match message {
                Message::Changes(..) => unreachable!("changes do not wait here"),
                Message::Subscribe(introduction) => introduce(&mut state, *introduction),
                Message::Hold => state.hold(),
                Message::LetGo => held = state.let_go(),
                Message::Settle(proxy) => state.settle(proxy),
                Message::Want(proxy, ty) => state.want(proxy, ty),
                Message::Leave(proxy) => state.leave(proxy),
                Message::Ask(question, room) => questions.push((question, room)),
            }
        }
        // All of them are work for many turns, as if they connected at once.
        waiting.extend(held.into_iter().map(Message::Settle));
        let batch = state.advance(changes, since.unwrap_or_else(Instant::now));
        if let Some(batch) = batch {
            on_batch(&batch);
        }
        for (question, _room) in questions {
            question(&state);
        }
    }
}

fn introduce(state: &mut State, introduction: Introduction) {
    let Introduction {
        node,
        had,
        from,
        queue,
        proxies,
        reply,
        _room,
    } = introduction;
    if reply.is_closed() {
        return;
    }
    let taken = state.subscribe(node, from, had).map(|(proxy, published)| {
        proxies.fetch_add(1, Ordering::Relaxed);
        Subscription {
            proxy,
            published,
            seat: Seat {
                proxy,
                queue,
                proxies,
            },
        }
    });
    // Where nobody waits for it any more, the seat is dropped with it.
    let _ = reply.send(taken.map_err(Refused::Exhausted));
}
