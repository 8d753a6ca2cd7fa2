//! The engine as its owner sees it.

use std::cell::RefCell;
use std::sync::Arc;

use crate::cx::{refresh, value};
use crate::fault::Fault;
use crate::graph::Graph;
use crate::memo::{Colour, Node};
use crate::{InputKey, Query};

/// A memo table over snapshots of type `S`. See the crate's documentation for the model.
pub struct Engine<S> {
    pub(crate) graph: RefCell<Graph<S>>,
}

/// A registered root. Means nothing to another engine, nor after its last release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RootId {
    pub(crate) serial: u64,
    pub(crate) memo: u32,
}

/// A value with the revision that brought it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pulled<V> {
    /// The value at the current revision.
    pub value: Arc<V>,
    /// The revision at which it became what it is.
    pub changed_at: u64,
    /// Whether that is the current revision. Who may skip revisions compares `changed_at` with that of the last pull.
    pub changed: bool,
}

impl<S: 'static> Default for Engine<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: 'static> Engine<S> {
    /// An empty engine, at revision 0.
    pub fn new() -> Self {
        Engine {
            graph: RefCell::new(Graph::new()),
        }
    }

    /// Starts a revision: the inputs named here differ from those of the last one.
    pub fn commit(&mut self, changed: impl IntoIterator<Item = InputKey>) {
        let graph = self.graph.get_mut();
        graph.revision += 1;
        graph.forget_formers();
        graph.mark(changed);
    }

    /// The value of a query. `snapshot` must be that of the last commit.
    ///
    /// A query that no root reaches is remembered until [`collect`](Self::collect).
    ///
    /// # Panics
    ///
    /// When an evaluation panics, or asks for itself. The engine stays usable: what was under way keeps its former state.
    pub fn get<Q: Query<S>>(&self, snapshot: &S, query: &Q) -> Arc<Q::Value> {
        self.get_with_changed(snapshot, query).value
    }

    /// The value of a query, and when it came to be. As [`get`](Self::get) otherwise.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    pub fn get_with_changed<Q: Query<S>>(&self, snapshot: &S, query: &Q) -> Pulled<Q::Value> {
        let id = self.graph.borrow_mut().intern(query);
        refresh(snapshot, &self.graph, id);
        let graph = self.graph.borrow();
        let changed_at = graph.memos[id].changed;
        Pulled {
            value: value::<S, Q>(&graph, id),
            changed_at,
            changed: changed_at == graph.revision,
        }
    }

    /// Registers a query as a root: it and all it depends on stay. Registered `n` times, it is released `n` times.
    pub fn root<Q: Query<S>>(&mut self, query: &Q) -> RootId {
        let graph = self.graph.get_mut();
        let id = graph.intern(query);
        let memo = &mut graph.memos[id];
        memo.roots += 1;
        if memo.roots == 1 {
            graph.roots += 1;
            graph.touch(id);
        }
        graph.root_id(id)
    }

    /// Takes back one registration. Frees nothing yet: see [`collect`](Self::collect). Returns whether there was one.
    pub fn release(&mut self, root: RootId) -> bool {
        let graph = self.graph.get_mut();
        let Some(memo) = graph.root_mut(root) else {
            return false;
        };
        memo.roots -= 1;
        if memo.roots == 0 {
            graph.roots -= 1;
            if !graph.has(Fault::LeakOnRelease) {
                graph.enqueue(Node::memo(root.memo));
            }
        }
        true
    }

    /// Frees every memo that no root reaches, and every input that no memo reads. Costs what it frees.
    pub fn collect(&mut self) {
        self.graph.get_mut().collect();
    }

    /// The roots to pull, in the order they were first registered: those that were registered or that a commit may have
    /// affected since this was last asked, and those that were named before and are still not up to date.
    pub fn changed_roots(&mut self) -> Vec<RootId> {
        let graph = self.graph.get_mut();
        graph.named = graph.revision;
        let mut roots = std::mem::take(&mut graph.pending);
        roots.retain(|root| {
            let Some(memo) = graph
                .memos
                .get_mut(root.memo)
                .filter(|m| m.serial == root.serial)
            else {
                return false;
            };
            let touched = std::mem::take(&mut memo.touched);
            memo.pending = memo.roots > 0 && (touched || memo.colour != Colour::Clean);
            memo.pending
        });
        roots.sort_unstable();
        graph.pending.clone_from(&roots);
        roots
    }

    /// How often [`commit`](Self::commit) was called.
    pub fn revision(&self) -> u64 {
        self.graph.borrow().revision
    }
}
