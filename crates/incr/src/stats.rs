//! Counts, for metrics and debug pages.

use crate::Engine;
use crate::memo::{Dep, Reader};

/// The size of the engine and the work it has done. Taking it costs the same however many memos there are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// How often inputs were committed.
    pub revision: u64,
    /// Memos kept.
    pub memos: usize,
    /// Rows and buckets that memos depend on.
    pub inputs: usize,
    /// Recorded dependencies.
    pub edges: usize,
    /// Different queries registered as roots.
    pub roots: usize,
    /// Evaluations ended.
    pub runs: u64,
    /// Those whose result equalled the former one.
    pub unchanged: u64,
    /// Memos found up to date without an evaluation, because nothing they depend on had changed.
    pub validated: u64,
    /// Reads recorded: what evaluations asked for.
    pub reads: u64,
    /// Estimate of the memory for keeping track: all but the values and what queries point to.
    pub bookkeeping_bytes: usize,
    /// By type of query, in the order of first use.
    pub queries: Vec<QueryStats>,
}

/// The share of one type of query.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueryStats {
    /// The type's path.
    pub name: &'static str,
    /// Memos kept.
    pub memos: usize,
    /// Evaluations ended.
    pub runs: u64,
    /// Those whose result equalled the former one.
    pub unchanged: u64,
    /// Estimate of the memory of the memos themselves: not their dependencies, nor what values and queries point to.
    pub bytes: usize,
}

impl<S: 'static> Engine<S> {
    /// Size and work so far.
    pub fn stats(&self) -> Stats {
        let graph = self.graph.borrow();
        let shared: usize = graph
            .families
            .iter()
            .map(|f| f.memos * f.bytes_per_memo)
            .sum();
        let input_ids = graph.input_ids.capacity() * (size_of::<(u64, u32)>() + 1);
        let per_memo = graph.memos.bytes() / graph.memos.len().max(1);
        let edges = graph.edges * (size_of::<Dep>() + size_of::<Reader>());
        Stats {
            revision: graph.revision,
            memos: graph.memos.len(),
            inputs: graph.inputs.len(),
            edges: graph.edges,
            roots: graph.roots,
            runs: graph.runs,
            unchanged: graph.unchanged,
            validated: graph.validated,
            reads: graph.reads,
            bookkeeping_bytes: graph.memos.bytes()
                + graph.inputs.bytes()
                + shared
                + input_ids
                + edges,
            queries: graph
                .families
                .iter()
                .map(|f| QueryStats {
                    name: f.name,
                    memos: f.memos,
                    runs: f.runs,
                    unchanged: f.unchanged,
                    bytes: f.memos * (f.bytes_per_memo + per_memo),
                })
                .collect(),
        }
    }
}
