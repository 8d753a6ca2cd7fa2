//! The nodes of the graph and the two ends of an edge.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::InputKey;
use crate::query::{AnyQuery, AnyValue};

/// The number of an input or of a memo, in four bytes: the top bit tells which.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(u32);

const INPUT: u32 = 1 << 31;

#[derive(Clone, Copy)]
pub(crate) enum Target {
    Input(u32),
    Memo(u32),
}

impl Node {
    pub(crate) fn input(id: u32) -> Self {
        debug_assert!(id < INPUT);
        Node(id | INPUT)
    }

    pub(crate) fn memo(id: u32) -> Self {
        debug_assert!(id < INPUT);
        Node(id)
    }

    pub(crate) fn target(self) -> Target {
        if self.0 & INPUT == 0 {
            Target::Memo(self.0)
        } else {
            Target::Input(self.0 & !INPUT)
        }
    }
}

/// The end of an edge at the dependent.
#[derive(Clone, Copy)]
pub(crate) struct Dep {
    /// What it depends on.
    pub(crate) node: Node,
    /// The place of the other end in `readers` of that node.
    pub(crate) pos: u32,
}

/// The end of an edge at what is depended on.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) memo: u32,
    /// The place of the other end in `deps` of that memo.
    pub(crate) at: u32,
}

/// What inputs and memos have in common.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) readers: SmallVec<[Reader; 2]>,
    /// The evaluation that recorded this node last: tells nearly all repeated reads.
    pub(crate) stamp: u64,
    /// Used within `Graph::relink` only, 0 outside: one more than the place of this node in the former dependencies.
    pub(crate) former: u32,
    /// Whether it stands in the list of what may have lost its last reader.
    pub(crate) queued: bool,
}

pub(crate) struct Input {
    pub(crate) key: InputKey,
    pub(crate) links: Links,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Colour {
    Clean,
    Check,
    Dirty,
}

pub(crate) struct Memo<S> {
    pub(crate) query: Arc<dyn AnyQuery<S>>,
    /// None until the first evaluation ends.
    pub(crate) value: Option<AnyValue>,
    /// The value before and the revision that brought it, until nothing is left to be brought up to date.
    pub(crate) former: Option<Box<(AnyValue, u64)>>,
    /// In the order of the first request for each; no two alike.
    pub(crate) deps: SmallVec<[Dep; 2]>,
    /// The places in `deps` of those that were marked since this was last up to date. May hold a place twice.
    pub(crate) stale: SmallVec<[u32; 4]>,
    pub(crate) links: Links,
    /// The last revision at which the value was known to be current.
    pub(crate) verified: u64,
    /// The revision that brought the value.
    pub(crate) changed: u64,
    /// A number no other memo of this engine ever has, so that a stale root is told from the slot's next tenant.
    pub(crate) serial: u64,
    /// How often it is registered as a root.
    pub(crate) roots: u32,
    /// The index of its type in `Graph::families`.
    pub(crate) family: u32,
    pub(crate) colour: Colour,
    /// It is being refreshed; asked for again, it is in a cycle.
    pub(crate) running: bool,
    /// It stands in `Graph::pending`.
    pub(crate) pending: bool,
    /// It was touched since `changed_roots` was last asked.
    pub(crate) touched: bool,
}

impl<S> Memo<S> {
    /// Notes that the dependency at that place was marked.
    pub(crate) fn tell_stale(&mut self, at: u32) {
        if self.stale.len() > self.deps.len() {
            // Marked again and again without a pull.
            self.stale.sort_unstable();
            self.stale.dedup();
        }
        self.stale.push(at);
    }
}
