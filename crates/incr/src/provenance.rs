//! Provenance: what a value was made from, and what an input goes into. Changes nothing.

use rustc_hash::FxHashSet;

use crate::memo::Target;
use crate::{Engine, InputKey, Query, RootId};

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
}
