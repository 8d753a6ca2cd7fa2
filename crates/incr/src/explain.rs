//! Provenance: what a value was made from, and what an input goes into. Changes nothing.

use rustc_hash::FxHashSet;

use crate::graph::Graph;
use crate::memo::Target;
use crate::{Engine, InputKey, Query, RootId};

/// A memo, what it read, and the memos it asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The query, as its `Debug` prints it.
    pub label: String,
    /// The rows and buckets that it read itself, in the order of reading.
    pub inputs: Vec<InputKey>,
    /// What it asked for, in that order. Empty for a repetition.
    pub children: Vec<Explanation>,
    /// This memo stands earlier in the tree, in full.
    pub repeated: bool,
    /// The revision that brought its value.
    pub changed_at: u64,
}

impl<S: 'static> Engine<S> {
    /// All that the last evaluation of a query depended on, through other queries too: sorted, each once.
    /// Empty if it was never pulled.
    pub fn reads_of<Q: Query<S>>(&self, query: &Q) -> Vec<InputKey> {
        let graph = self.graph.borrow();
        let mut keys = Vec::new();
        let mut todo: Vec<u32> = graph.find(query).into_iter().collect();
        let mut seen: FxHashSet<u32> = todo.iter().copied().collect();
        while let Some(id) = todo.pop() {
            for dep in &graph.memos[id].deps {
                match dep.node.target() {
                    Target::Input(input) => keys.push(graph.inputs[input].key),
                    Target::Memo(memo) if seen.insert(memo) => todo.push(memo),
                    Target::Memo(_) => {}
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// What the last evaluation of a query read itself, in the order of reading.
    pub fn direct_reads_of<Q: Query<S>>(&self, query: &Q) -> Vec<InputKey> {
        let graph = self.graph.borrow();
        graph
            .find(query)
            .map(|id| direct_reads(&graph, id))
            .unwrap_or_default()
    }

    /// How the value of a query came about; None if it has no memo. A memo asked for in several places is given in full
    /// at the first, so the size is that of the part of the graph below.
    pub fn explain<Q: Query<S>>(&self, query: &Q) -> Option<Explanation> {
        let graph = self.graph.borrow();
        let id = graph.find(query)?;
        Some(explain(&graph, id, &mut FxHashSet::default()))
    }

    /// The roots that a change of these inputs would dirty, in the order they were first registered. Judged by the last
    /// evaluation of each root.
    pub fn dirty_roots_for(&self, changed: impl IntoIterator<Item = InputKey>) -> Vec<RootId> {
        let graph = self.graph.borrow();
        let mut seen = FxHashSet::default();
        let mut todo = Vec::new();
        for key in changed {
            if let Some(input) = graph.input_ids.get(&key) {
                todo.extend(
                    graph.inputs[*input]
                        .links
                        .readers
                        .iter()
                        .map(|r| r.memo)
                        .filter(|id| seen.insert(*id)),
                );
            }
        }
        let mut roots = Vec::new();
        while let Some(id) = todo.pop() {
            let memo = &graph.memos[id];
            if memo.roots > 0 {
                roots.push(graph.root_id(id));
            }
            todo.extend(
                memo.links
                    .readers
                    .iter()
                    .map(|r| r.memo)
                    .filter(|id| seen.insert(*id)),
            );
        }
        roots.sort_unstable();
        roots
    }

    /// The query of a registered root, as its `Debug` prints it.
    pub fn label(&self, root: RootId) -> Option<String> {
        self.graph
            .borrow_mut()
            .root_mut(root)
            .map(|memo| memo.query.label())
    }
}

fn direct_reads<S>(graph: &Graph<S>, id: u32) -> Vec<InputKey> {
    let inputs = graph.memos[id]
        .deps
        .iter()
        .filter_map(|dep| match dep.node.target() {
            Target::Input(input) => Some(graph.inputs[input].key),
            Target::Memo(_) => None,
        });
    inputs.collect()
}

fn explain<S>(graph: &Graph<S>, id: u32, seen: &mut FxHashSet<u32>) -> Explanation {
    let memo = &graph.memos[id];
    let repeated = !seen.insert(id);
    let mut children = Vec::new();
    if !repeated {
        for dep in &memo.deps {
            if let Target::Memo(child) = dep.node.target() {
                children.push(explain(graph, child, seen));
            }
        }
    }
    Explanation {
        label: memo.query.label(),
        inputs: if repeated {
            Vec::new()
        } else {
            direct_reads(graph, id)
        },
        children,
        repeated,
        changed_at: memo.changed,
    }
}
