//! Refreshing a memo, and what an evaluation sees of the engine.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::fault::Fault;
use crate::graph::Graph;
use crate::memo::{Colour, Node, Target};
use crate::query::{Changed, ChangedMember};
use crate::{Guarded, InputKey, Query};

/// What an evaluation may use: rows and buckets of the snapshot, and other queries. Records what it asks for.
pub struct Cx<'a, S> {
    snapshot: &'a S,
    graph: &'a RefCell<Graph<S>>,
}

impl<'a, S: 'static> Cx<'a, S> {
    /// Records that the evaluation depends on a row or bucket, whether it is there or not, and gives the input to look it
    /// up in. There is no other way to the input.
    pub fn read(&self, key: InputKey, _: S::Token) -> &'a S
    where
        S: Guarded,
    {
        self.graph.borrow_mut().record_input(key);
        self.snapshot
    }

    /// The input, for what tests count in it.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> &'a S {
        self.snapshot
    }

    /// The value of another query.
    ///
    /// # Panics
    ///
    /// When the query, directly or not, asks for itself; and when its evaluation panics.
    pub fn query<Q: Query<S>>(&self, query: &Q) -> Arc<Q::Value> {
        let mut graph = self.graph.borrow_mut();
        let id = graph.intern(query);
        // Before it is evaluated: it is a dependency even if it panics.
        graph.record(Node::memo(id));
        if graph.memos[id].colour != Colour::Clean {
            drop(graph);
            refresh(self.snapshot, self.graph, id);
            graph = self.graph.borrow_mut();
        }
        value::<S, Q>(&graph, id)
    }
}

/// The stored value of the memo of a query of type `Q`.
pub(crate) fn value<S, Q: Query<S>>(graph: &Graph<S>, id: u32) -> Arc<Q::Value> {
    let value = graph.memos[id]
        .value
        .clone()
        .expect("a memo has a value once it was refreshed");
    value
        .downcast()
        .expect("a memo's value is of its query's type")
}

/// Brings a memo up to date.
pub(crate) fn refresh<S: 'static>(snapshot: &S, graph: &RefCell<Graph<S>>, id: u32) {
    let Some(running) = Running::enter(graph, id) else {
        return;
    };
    match need(snapshot, graph, id) {
        Need::Nothing => {
            let mut graph = graph.borrow_mut();
            graph.validated += 1;
            graph.settle(id);
        }
        Need::Update(changed) => {
            if !update(graph, id, &changed) {
                evaluate(snapshot, graph, id);
            }
        }
        Need::Evaluation => evaluate(snapshot, graph, id),
    }
    running.done();
}

/// What a memo that is not clean needs.
enum Need {
    Nothing,
    /// These members, and nothing else, have changed.
    Update(Vec<u32>),
    Evaluation,
}

/// Refreshes the memos that a stored value was made from, as far as that tells whether it is out of date.
fn need<S: 'static>(snapshot: &S, cell: &RefCell<Graph<S>>, id: u32) -> Need {
    let mut graph = cell.borrow_mut();
    let memo = &mut graph.memos[id];
    if memo.colour == Colour::Dirty {
        return Need::Evaluation;
    }
    let (verified, query) = (memo.verified, memo.query.clone());
    let mut stale = std::mem::take(&mut memo.stale);
    if graph.has(Fault::TrustCheck) {
        return Need::Nothing;
    }
    stale.sort_unstable();
    stale.dedup();
    let mut changed = Vec::new();
    // Its dependencies stay as they are meanwhile: it is marked as running.
    for place in stale {
        let Target::Memo(dep) = graph.memos[id].deps[place as usize].node.target() else {
            continue;
        };
        if graph.memos[dep].colour != Colour::Clean {
            drop(graph);
            // Not this memo's panic yet: its evaluation might catch it, or not ask at all.
            let panicked = catch_unwind(AssertUnwindSafe(|| refresh(snapshot, cell, dep))).is_err();
            graph = cell.borrow_mut();
            if panicked {
                return Need::Evaluation;
            }
        }
        let memo = &graph.memos[dep];
        if memo.colour != Colour::Clean {
            return Need::Evaluation;
        }
        if memo.changed > verified {
            if !query.has_member(&*memo.query) {
                return Need::Evaluation;
            }
            changed.push(dep);
        }
    }
    if changed.is_empty() {
        Need::Nothing
    } else {
        Need::Update(changed)
    }
}

/// Takes changes of members into the stored value. False if the query cannot.
fn update<S: 'static>(cell: &RefCell<Graph<S>>, id: u32, changed: &[u32]) -> bool {
    let (query, former, changed) = {
        let graph = cell.borrow();
        let memo = &graph.memos[id];
        let mut list = Vec::with_capacity(changed.len());
        for member in changed {
            let member = &graph.memos[*member];
            // What this memo saw of the member must be known.
            let (Some(after), Some(former)) = (member.value.clone(), &member.former) else {
                return false;
            };
            if former.1 > memo.verified {
                return false;
            }
            list.push(ChangedMember {
                query: member.query.clone(),
                before: former.0.clone(),
                after,
            });
        }
        if graph.has(Fault::UpdateAllButLast) {
            list.pop();
        }
        let Some(former) = memo.value.clone() else {
            return false;
        };
        (memo.query.clone(), former, list)
    };
    // Outside of any borrow: both may panic.
    let Some(value) = query.update_any(&former, &Changed(&changed)) else {
        return false;
    };
    let same = query.same(&former, &value);
    let mut graph = cell.borrow_mut();
    graph.store(id, value, same);
    graph.settle(id);
    true
}

fn evaluate<S: 'static>(snapshot: &S, cell: &RefCell<Graph<S>>, id: u32) {
    let (query, former) = {
        let mut graph = cell.borrow_mut();
        graph.push_frame();
        let memo = &graph.memos[id];
        (memo.query.clone(), memo.value.clone())
    };
    let value = query.eval_any(&Cx {
        snapshot,
        graph: cell,
    });
    // Outside of any borrow: comparing may panic.
    let same = former
        .as_ref()
        .is_some_and(|former| query.same(former, &value));
    cell.borrow_mut().finish(id, value, same);
}

/// A memo being refreshed. Dropped before [`done`](Self::done), by a panic, it puts the graph back in order.
struct Running<'a, S> {
    graph: &'a RefCell<Graph<S>>,
    frames: usize,
}

impl<'a, S: 'static> Running<'a, S> {
    /// None if the memo is up to date.
    fn enter(cell: &'a RefCell<Graph<S>>, id: u32) -> Option<Self> {
        let mut graph = cell.borrow_mut();
        let memo = &mut graph.memos[id];
        if memo.colour == Colour::Clean {
            return None;
        }
        if memo.running {
            let message = cycle(&graph, id);
            drop(graph);
            panic!("{message}");
        }
        memo.running = true;
        graph.running.push(id);
        Some(Running {
            graph: cell,
            frames: graph.frames.len(),
        })
    }

    fn done(self) {
        let mut graph = self.graph.borrow_mut();
        let id = graph.running.pop().expect("entered");
        graph.memos[id].running = false;
        drop(graph);
        std::mem::forget(self);
    }
}

impl<S> Drop for Running<'_, S> {
    fn drop(&mut self) {
        let mut graph = self.graph.borrow_mut();
        let graph = &mut *graph;
        if let Some(id) = graph.running.pop() {
            graph.memos[id].running = false;
            // Rather than check: asked again, it must not first validate what panicked.
            graph.memos[id].colour = Colour::Dirty;
            #[cfg(test)]
            if graph.fault == Some(Fault::CleanAfterPanic) && graph.memos[id].value.is_some() {
                graph.memos[id].colour = Colour::Clean;
            }
        }
        graph.frames.truncate(self.frames);
        if let Some(parent) = graph.frames.last_mut() {
            parent.tainted = true;
        }
    }
}

/// Names the queries from the first time `id` was asked for to the second.
#[cold]
fn cycle<S>(graph: &Graph<S>, id: u32) -> String {
    let start = graph.running.iter().position(|r| *r == id).unwrap_or(0);
    let mut message = String::from("query cycle: ");
    for id in graph.running[start..].iter().chain([&id]) {
        if !message.ends_with(": ") {
            message.push_str(" -> ");
        }
        message.push_str(&graph.memos[*id].query.label());
    }
    message
}
