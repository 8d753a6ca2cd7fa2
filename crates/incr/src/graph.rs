//! The memo table: nodes, edges, marking and freeing. Evaluates nothing.

use std::any::{Any, TypeId, type_name};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::engine::RootId;
use crate::fault::Fault;
use crate::memo::{Colour, Dep, Input, Links, Memo, Node, Reader, Target};
use crate::query::{AnyValue, Table};
use crate::slab::Slab;
use crate::{InputKey, KeyedMap, Query};

/// All memos of one query type.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// A `Table<Q>` of that type.
    pub(crate) table: Box<dyn Any + Send>,
    /// What the table and the shared query take for one memo.
    pub(crate) bytes_per_memo: usize,
    pub(crate) memos: usize,
    pub(crate) runs: u64,
    pub(crate) unchanged: u64,
}

/// One evaluation under way.
pub(crate) struct Frame {
    pub(crate) stamp: u64,
    /// What it asked for so far. May hold a node twice.
    pub(crate) deps: Vec<Node>,
    /// A dependency panicked and the evaluation caught it: the result must not pass for current.
    pub(crate) tainted: bool,
}

pub(crate) struct Graph<S> {
    pub(crate) revision: u64,
    /// The revision at which `changed_roots` was last asked.
    pub(crate) named: u64,
    pub(crate) memos: Slab<Memo<S>>,
    pub(crate) inputs: Slab<Input>,
    pub(crate) input_ids: KeyedMap<InputKey, u32>,
    pub(crate) families: Vec<Family>,
    family_ids: FxHashMap<TypeId, u32>,
    /// Memos being refreshed, outermost first.
    pub(crate) running: Vec<u32>,
    /// Evaluations under way, outermost first; each belongs to one of `running`.
    pub(crate) frames: Vec<Frame>,
    /// Buffers of former frames.
    pub(crate) spare: Vec<Vec<Node>>,
    /// Roots to tell the caller of. May name roots that are gone.
    pub(crate) pending: Vec<RootId>,
    /// Memos that hold their former value.
    pub(crate) formers: Vec<u32>,
    /// Nodes that may have neither readers nor roots; each has `queued` set.
    pub(crate) orphans: Vec<Node>,
    pub(crate) roots: usize,
    pub(crate) edges: usize,
    pub(crate) runs: u64,
    pub(crate) unchanged: u64,
    pub(crate) validated: u64,
    pub(crate) reads: u64,
    stamps: u64,
    serials: u64,
    #[cfg(test)]
    pub(crate) fault: Option<Fault>,
}

impl<S: 'static> Graph<S> {
    pub(crate) fn new() -> Self {
        Graph {
            revision: 0,
            named: 0,
            memos: Slab::new(),
            inputs: Slab::new(),
            input_ids: KeyedMap::default(),
            families: Vec::new(),
            family_ids: FxHashMap::default(),
            running: Vec::new(),
            frames: Vec::new(),
            spare: Vec::new(),
            pending: Vec::new(),
            formers: Vec::new(),
            orphans: Vec::new(),
            roots: 0,
            edges: 0,
            runs: 0,
            unchanged: 0,
            validated: 0,
            reads: 0,
            stamps: 0,
            serials: 0,
            #[cfg(test)]
            fault: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    #[cfg(not(test))]
    #[inline(always)]
    pub(crate) fn has(&self, _: Fault) -> bool {
        false
    }

    // ---- nodes ----

    /// The memo of a query, if there is one.
    pub(crate) fn find<Q: Query<S>>(&self, query: &Q) -> Option<u32> {
        let family = *self.family_ids.get(&TypeId::of::<Q>())?;
        self.families[family as usize]
            .table
            .downcast_ref::<Table<Q>>()?
            .get(query)
            .copied()
    }

    /// The memo of a query; made, without a value, if there is none.
    pub(crate) fn intern<Q: Query<S>>(&mut self, query: &Q) -> u32 {
        let families = &mut self.families;
        let family = *self.family_ids.entry(TypeId::of::<Q>()).or_insert_with(|| {
            families.push(Family {
                name: type_name::<Q>(),
                table: Box::new(Table::<Q>::default()),
                bytes_per_memo: size_of::<Q>()
                    + 2 * size_of::<usize>()
                    + size_of::<(Arc<Q>, u32)>()
                    + 1,
                memos: 0,
                runs: 0,
                unchanged: 0,
            });
            families.len() as u32 - 1
        });
        let of_type = &mut families[family as usize];
        let table = of_type
            .table
            .downcast_mut::<Table<Q>>()
            .expect("a family's table is of its type");
        if let Some(id) = table.get(query) {
            return *id;
        }
        let query = Arc::new(query.clone());
        self.serials += 1;
        let id = self.memos.insert(Memo {
            query: query.clone(),
            value: None,
            former: None,
            deps: SmallVec::new(),
            stale: SmallVec::new(),
            links: Links::default(),
            verified: 0,
            changed: 0,
            serial: self.serials,
            roots: 0,
            family,
            colour: Colour::Dirty,
            running: false,
            pending: false,
            touched: false,
        });
        table.insert(query, id);
        of_type.memos += 1;
        // Nothing reads it yet, and nothing will if the evaluation that asks for it panics.
        self.enqueue(Node::memo(id));
        id
    }

    fn intern_input(&mut self, key: InputKey) -> u32 {
        if let Some(id) = self.input_ids.get(&key) {
            return *id;
        }
        let id = self.inputs.insert(Input {
            key,
            links: Links::default(),
        });
        self.input_ids.insert(key, id);
        self.enqueue(Node::input(id));
        id
    }

    fn links(&mut self, node: Node) -> &mut Links {
        match node.target() {
            Target::Input(id) => &mut self.inputs[id].links,
            Target::Memo(id) => &mut self.memos[id].links,
        }
    }

    pub(crate) fn root_id(&self, id: u32) -> RootId {
        RootId {
            serial: self.memos[id].serial,
            memo: id,
        }
    }

    /// The memo of a root that is registered.
    pub(crate) fn root_mut(&mut self, root: RootId) -> Option<&mut Memo<S>> {
        self.memos
            .get_mut(root.memo)
            .filter(|m| m.serial == root.serial && m.roots > 0)
    }

    // ---- reads ----

    fn next_stamp(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    pub(crate) fn push_frame(&mut self) {
        let frame = Frame {
            stamp: self.next_stamp(),
            deps: self.spare.pop().unwrap_or_default(),
            tainted: false,
        };
        self.frames.push(frame);
    }

    /// Records that the innermost evaluation asked for a node.
    pub(crate) fn record(&mut self, node: Node) {
        let stamp = self
            .frames
            .last()
            .expect("reads happen in evaluations")
            .stamp;
        self.reads += 1;
        let last = &mut self.links(node).stamp;
        if *last != stamp {
            *last = stamp;
            self.frames.last_mut().expect("as above").deps.push(node);
        }
    }

    pub(crate) fn record_input(&mut self, key: InputKey) {
        let id = self.intern_input(key);
        self.record(Node::input(id));
    }

    /// Stores the end of the innermost evaluation, which is that of memo `id`. `same`: the value equals the former one.
    pub(crate) fn finish(&mut self, id: u32, value: AnyValue, same: bool) {
        let mut frame = self
            .frames
            .pop()
            .expect("an evaluation that ends has begun");
        if self.has(Fault::ForgetLastRead)
            && let Some(last) = frame
                .deps
                .iter()
                .rposition(|d| matches!(d.target(), Target::Input(_)))
        {
            frame.deps.remove(last);
        }
        let former = &self.memos[id].deps;
        if (former.len() != frame.deps.len()
            || former
                .iter()
                .zip(&frame.deps)
                .any(|(d, node)| d.node != *node))
            && !self.has(Fault::KeepOldDeps)
        {
            self.relink(id, &mut frame.deps);
        }
        frame.deps.clear();
        self.spare.push(frame.deps);
        if frame.tainted
            && let Some(parent) = self.frames.last_mut()
        {
            parent.tainted = true;
        }

        self.store(id, value, same);
        if frame.tainted {
            self.memos[id].colour = Colour::Dirty;
        } else {
            self.settle(id);
        }
    }

    /// Stores a value derived anew.
    pub(crate) fn store(&mut self, id: u32, value: AnyValue, same: bool) {
        let (revision, keep) = (self.revision, self.has(Fault::KeepChangedRevision));
        let memo = &mut self.memos[id];
        let family = &mut self.families[memo.family as usize];
        self.runs += 1;
        family.runs += 1;
        if same {
            self.unchanged += 1;
            family.unchanged += 1;
        } else {
            let since = memo.changed;
            if !keep {
                memo.changed = revision;
            }
            if let Some(former) = memo.value.replace(value)
                && memo.former.is_none()
            {
                memo.former = Some(Box::new((former, since)));
                self.formers.push(id);
            }
        }
    }

    /// Takes memo `id` as current.
    pub(crate) fn settle(&mut self, id: u32) {
        let memo = &mut self.memos[id];
        memo.colour = Colour::Clean;
        memo.stale.clear();
        memo.verified = self.revision;
        // A root that stayed dirty after it was named (it was not pulled, or panicked) is not marked by later commits.
        // If somebody else's pull succeeds then, its owner must still hear of it.
        memo.touched |= memo.pending && self.revision > self.named;
    }

    // ---- edges ----

    /// Makes `nodes` the dependencies of memo `id`. What stays keeps its edge.
    fn relink(&mut self, id: u32, nodes: &mut Vec<Node>) {
        // Stamps miss a repeated read when an inner evaluation stamped the node in between.
        let stamp = self.next_stamp();
        nodes.retain(|n| std::mem::replace(&mut self.links(*n).stamp, stamp) != stamp);

        let former = std::mem::take(&mut self.memos[id].deps);
        let kept = former
            .iter()
            .zip(nodes.iter())
            .take_while(|(d, n)| d.node == **n)
            .count();
        for (i, dep) in former.iter().enumerate().skip(kept) {
            self.links(dep.node).former = i as u32 + 1;
        }
        let mut deps: SmallVec<[Dep; 2]> = SmallVec::with_capacity(nodes.len());
        deps.extend_from_slice(&former[..kept]);
        for (at, node) in nodes.iter().enumerate().skip(kept) {
            let at = at as u32;
            let links = self.links(*node);
            let pos = match std::mem::take(&mut links.former) {
                0 => {
                    links.readers.push(Reader { memo: id, at });
                    links.readers.len() as u32 - 1
                }
                place => {
                    let pos = former[place as usize - 1].pos;
                    links.readers[pos as usize].at = at;
                    pos
                }
            };
            deps.push(Dep { node: *node, pos });
        }
        for dep in &former[kept..] {
            if std::mem::take(&mut self.links(dep.node).former) != 0 {
                self.unlink(*dep);
            }
        }
        self.edges = self.edges + deps.len() - former.len();
        self.memos[id].deps = deps;
    }

    /// Takes out the far end of an edge. The memo it belongs to is not touched: it stands nowhere else among these readers.
    fn unlink(&mut self, dep: Dep) {
        let readers = &mut self.links(dep.node).readers;
        readers.swap_remove(dep.pos as usize);
        if readers.capacity() > 64 && readers.len() < readers.capacity() / 8 {
            readers.shrink_to_fit();
        }
        let empty = readers.is_empty();
        if let Some(moved) = readers.get(dep.pos as usize).copied() {
            self.memos[moved.memo].deps[moved.at as usize].pos = dep.pos;
        }
        if empty && !self.has(Fault::LeakOnUnlink) {
            self.enqueue(dep.node);
        }
    }

    // ---- marking ----

    /// Marks all that the inputs may affect.
    pub(crate) fn mark(&mut self, changed: impl IntoIterator<Item = InputKey>) {
        let mut todo = Vec::new();
        for key in changed {
            let Some(input) = self.input_ids.get(&key).copied() else {
                continue;
            };
            for i in 0..self.inputs[input].links.readers.len() {
                let id = self.inputs[input].links.readers[i].memo;
                if self.memos[id].colour == Colour::Clean {
                    todo.push(id);
                    self.touch(id);
                }
                self.memos[id].colour = Colour::Dirty;
            }
        }
        if self.has(Fault::DontPropagateCheck) {
            return;
        }
        while let Some(id) = todo.pop() {
            for i in 0..self.memos[id].links.readers.len() {
                let Reader { memo: reader, at } = self.memos[id].links.readers[i];
                let forgets = self.has(Fault::ForgetStale);
                let memo = &mut self.memos[reader];
                if memo.colour != Colour::Dirty && !forgets {
                    memo.tell_stale(at);
                }
                if memo.colour == Colour::Clean {
                    memo.colour = Colour::Check;
                    todo.push(reader);
                    self.touch(reader);
                }
            }
        }
    }

    /// Notes that the caller should pull this memo, if it is a root.
    pub(crate) fn touch(&mut self, id: u32) {
        let memo = &mut self.memos[id];
        if memo.roots > 0 {
            memo.touched = true;
            if !std::mem::replace(&mut memo.pending, true) {
                let root = RootId {
                    serial: memo.serial,
                    memo: id,
                };
                self.pending.push(root);
            }
        }
    }

    // ---- freeing ----

    /// Drops former values. What was not brought up to date by means of them is evaluated.
    pub(crate) fn forget_formers(&mut self) {
        for id in self.formers.drain(..) {
            if let Some(memo) = self.memos.get_mut(id) {
                memo.former = None;
            }
        }
    }

    pub(crate) fn enqueue(&mut self, node: Node) {
        if !std::mem::replace(&mut self.links(node).queued, true) {
            self.orphans.push(node);
        }
    }

    /// Frees what has no reader and is no root, and what that was the last reader of.
    pub(crate) fn collect(&mut self) {
        self.forget_formers();
        while let Some(node) = self.orphans.pop() {
            let links = self.links(node);
            links.queued = false;
            if !links.readers.is_empty() {
                continue;
            }
            match node.target() {
                Target::Input(id) => {
                    let input = self.inputs.remove(id);
                    self.input_ids.remove(&input.key);
                }
                Target::Memo(id) if self.memos[id].roots == 0 => {
                    let memo = self.memos.remove(id);
                    for dep in &memo.deps {
                        self.unlink(*dep);
                    }
                    self.edges -= memo.deps.len();
                    let family = &mut self.families[memo.family as usize];
                    family.memos -= 1;
                    memo.query.forget(&mut *family.table);
                }
                Target::Memo(_) => {}
            }
        }
        if self.input_ids.capacity() > 64 && self.input_ids.len() < self.input_ids.capacity() / 8 {
            self.input_ids.shrink_to(self.inputs.len() * 2);
        }
    }
}
