//! What is served, kept current beside the derive thread while somebody listens.
//!
//! The thread has an engine of its own over the snapshots that proxies are served from. It starts with the first stream and
//! forgets everything with the last one, and derives the types alone that a stream has asked for. Before every source has
//! been read nothing is served: to a client what is not in a response is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ads::latest;
use export::{Exported, Items};
use incr::{Engine, InputKey};
use rustc_hash::FxHashSet;
use store::Snapshot;

use crate::derive::Batch;

/// How far the priority of the thread is lowered.
const NICE: i32 = 10;

/// What is served at one time.
#[derive(Default)]
pub(super) struct Catalog {
    /// Counts how often all streams had ended.
    epoch: u64,
    types: BTreeMap<Exported, Items>,
}

impl Catalog {
    /// The resources of a type, once they are known.
    pub(super) fn get(&self, exported: Exported) -> Option<&Items> {
        self.types.get(&exported)
    }
}

#[derive(Default)]
struct Waiting {
    /// Whether every source has been read.
    begun: bool,
    streams: usize,
    epoch: u64,
    wanted: BTreeSet<Exported>,
    snapshot: Option<Arc<Snapshot>>,
    changed: FxHashSet<InputKey>,
    due: bool,
    stopping: bool,
}

struct Shared {
    waiting: Mutex<Waiting>,
    woken: Condvar,
    catalog: latest::Sender<Arc<Catalog>>,
}

/// A panic elsewhere leaves the state as it was: nothing in between can panic.
fn lock(shared: &Shared) -> MutexGuard<'_, Waiting> {
    shared
        .waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// The way to the thread. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    _stop: Arc<StopOnDrop>,
}

struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        lock(&self.0).stopping = true;
        self.0.woken.notify_all();
    }
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When the system has no room for another thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            woken: Condvar::new(),
            catalog: latest::Sender::new(Arc::default()),
        });
        let of_thread = shared.clone();
        std::thread::Builder::new()
            .name("export".into())
            .stack_size(16 << 20)
            .spawn(move || run(&of_thread))?;
        Ok(Self {
            _stop: Arc::new(StopOnDrop(shared.clone())),
            shared,
        })
    }

    /// Takes in a batch. Costs what changed, and nothing where nobody listens.
    pub(crate) fn see(&self, batch: &Batch) {
        if !batch.changes.is_empty() {
            self.changed(batch.snapshot.clone(), &batch.changes.keys);
        }
    }

    /// Takes in a snapshot with the inputs that differ from the one before.
    pub(super) fn changed(&self, snapshot: Arc<Snapshot>, keys: &[InputKey]) {
        let mut waiting = lock(&self.shared);
        waiting.snapshot = Some(snapshot);
        if waiting.streams > 0 {
            waiting.changed.extend(keys);
            waiting.due = true;
            self.shared.woken.notify_all();
        }
    }

    /// Every source has been read.
    pub(crate) fn begin(&self) {
        let mut waiting = lock(&self.shared);
        waiting.begun = true;
        waiting.due = true;
        self.shared.woken.notify_all();
    }

    /// A stream begins to listen.
    pub(super) fn listen(&self) -> Listener {
        let mut waiting = lock(&self.shared);
        waiting.streams += 1;
        Listener {
            keeper: self.clone(),
            epoch: waiting.epoch,
            catalog: self.shared.catalog.subscribe(),
        }
    }
}

/// The ear of one stream.
pub(super) struct Listener {
    keeper: Keeper,
    epoch: u64,
    catalog: latest::Receiver<Arc<Catalog>>,
}

impl Listener {
    /// Has a type derived.
    pub(super) fn want(&self, exported: Exported) {
        let mut waiting = lock(&self.keeper.shared);
        if waiting.wanted.insert(exported) {
            waiting.due = true;
            self.keeper.shared.woken.notify_all();
        }
    }

    /// What is served from now on. What was served before this stream came says nothing.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Arc<Catalog>>> {
        loop {
            let next = std::task::ready!(self.catalog.poll_next(cx));
            match next {
                Some(catalog) if catalog.epoch != self.epoch => {}
                next => return std::task::Poll::Ready(next),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut waiting = lock(&self.keeper.shared);
        waiting.streams -= 1;
        if waiting.streams == 0 {
            waiting.epoch += 1;
            waiting.wanted.clear();
            waiting.changed.clear();
            waiting.due = true;
            self.keeper.shared.woken.notify_all();
        }
    }
}

/// What is to be derived.
struct Next {
    epoch: u64,
    wanted: BTreeSet<Exported>,
    /// `None` before anything is known.
    snapshot: Option<Arc<Snapshot>>,
    changed: FxHashSet<InputKey>,
}

/// Waits until there is something to derive, or to forget; `None` when the process ends.
fn next(shared: &Shared) -> Option<Next> {
    let mut waiting = lock(shared);
    loop {
        if waiting.stopping {
            return None;
        }
        if waiting.due && waiting.begun {
            waiting.due = false;
            return Some(Next {
                epoch: waiting.epoch,
                wanted: waiting.wanted.clone(),
                snapshot: waiting.snapshot.clone(),
                changed: std::mem::take(&mut waiting.changed),
            });
        }
        let woken = shared.woken.wait(waiting);
        waiting = woken.unwrap_or_else(PoisonError::into_inner);
    }
}

/// What the thread has derived since the first stream came.
struct Derived {
    engine: Engine<Snapshot>,
    roots: BTreeSet<Exported>,
    catalog: Catalog,
}

impl Derived {
    fn new(epoch: u64) -> Self {
        Self {
            engine: Engine::new(),
            roots: BTreeSet::new(),
            catalog: Catalog {
                epoch,
                types: BTreeMap::new(),
            },
        }
    }

    /// Brings what is wanted up to date; whether anything is another than before.
    fn advance(&mut self, next: Next) -> bool {
        self.engine.commit(next.changed);
        let Some(snapshot) = next.snapshot else {
            return false;
        };
        let mut differs = false;
        for exported in next.wanted {
            if self.roots.insert(exported) {
                self.engine.root(&exported);
            }
            let engine = &self.engine;
            let derived = catch_unwind(AssertUnwindSafe(|| engine.get(&snapshot, &exported)));
            let Ok(items) = derived else {
                tracing::error!(
                    r#type = ?exported,
                    "What other control planes are served could not be derived; they keep what they have."
                );
                continue;
            };
            let known = self.catalog.types.get(&exported);
            if known.is_none_or(|known| **known != **items) {
                self.catalog.types.insert(exported, (*items).clone());
                differs = true;
            }
        }
        self.engine.collect();
        differs
    }
}

fn run(shared: &Shared) {
    // Best effort: without it the thread competes as an equal.
    let _ = rustix::process::nice(NICE);
    let mut derived = Derived::new(0);
    while let Some(next) = next(shared) {
        let forgets = next.epoch != derived.catalog.epoch;
        if forgets {
            derived = Derived::new(next.epoch);
        }
        if derived.advance(next) || forgets {
            shared.catalog.send(Arc::new(Catalog {
                epoch: derived.catalog.epoch,
                types: derived.catalog.types.clone(),
            }));
        }
    }
}
