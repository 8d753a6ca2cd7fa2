//! A persistent sorted sequence of resources whose shape follows from its content alone.
//!
//! Where a node ends is decided by the hash of the last name in it, not by how many edits came before. So equal sets have
//! equal trees, an edit makes one new path, and two trees are told apart by looking at the nodes in which they differ.

use std::sync::Arc;

use smallvec::SmallVec;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::Resource;

/// Bits of a name's hash that close one level: nodes hold sixteen parts on average.
const BITS: u32 = 4;
/// Levels that a name can close; a set of 16^12 resources does not occur.
const HIGHEST: u32 = 12;

/// Some neighbouring resources of a set.
pub(super) struct Node {
    /// Over names, versions and findings.
    pub(super) hash: u64,
    pub(super) len: usize,
    /// Bytes of all bodies.
    pub(super) bytes: usize,
    /// Bytes of the longest name.
    pub(super) longest_name: usize,
    pub(super) last: Arc<Resource>,
    /// How many levels the last name closes.
    rank: u32,
    /// 0 for those that hold resources.
    pub(super) level: u32,
    /// Whether any has marks of secret templates.
    marked: bool,
    /// Whether any has findings.
    found: bool,
    pub(super) parts: Children,
}

pub(super) enum Children {
    Leaf(Box<[Arc<Resource>]>),
    Inner(Box<[Arc<Node>]>),
}

impl Node {
    fn leaf(parts: Box<[Arc<Resource>]>, rank: u32) -> Option<Self> {
        let mut hash = Xxh3::new();
        for resource in &parts {
            hash.update(&xxh3_64(resource.name.as_bytes()).to_le_bytes());
            hash.update(&resource.version.to_le_bytes());
            for finding in resource.findings() {
                hash.update(format!("{finding:?}").as_bytes());
            }
        }
        Some(Node {
            hash: hash.digest(),
            len: parts.len(),
            bytes: parts.iter().map(|r| r.body.len()).sum(),
            longest_name: parts.iter().map(|r| r.name.len()).max()?,
            last: parts.last()?.clone(),
            rank,
            level: 0,
            marked: parts.iter().any(|r| r.is_marked()),
            found: parts.iter().any(|r| !r.findings().is_empty()),
            parts: Children::Leaf(parts),
        })
    }

    fn inner(parts: Box<[Arc<Node>]>, level: u32) -> Option<Self> {
        let mut hash = Xxh3::new();
        for node in &parts {
            hash.update(&node.hash.to_le_bytes());
        }
        let last = parts.last()?;
        Some(Node {
            hash: hash.digest(),
            len: parts.iter().map(|n| n.len).sum(),
            bytes: parts.iter().map(|n| n.bytes).sum(),
            longest_name: parts.iter().map(|n| n.longest_name).max()?,
            last: last.last.clone(),
            rank: last.rank,
            level,
            marked: parts.iter().any(|n| n.marked),
            found: parts.iter().any(|n| n.found),
            parts: Children::Inner(parts),
        })
    }

    /// The resources around a name, if it may be among them.
    pub(super) fn leaf_of(&self, name: &str) -> Option<&[Arc<Resource>]> {
        match &self.parts {
            Children::Leaf(list) => Some(list),
            Children::Inner(list) => {
                let at = list.partition_point(|n| *n.last.name < *name);
                list.get(at)?.leaf_of(name)
            }
        }
    }

    pub(super) fn marked(&self, found: &mut Vec<Arc<Resource>>) {
        match &self.parts {
            _ if !self.marked => {}
            Children::Leaf(list) => found.extend(list.iter().filter(|r| r.is_marked()).cloned()),
            Children::Inner(list) => list.iter().for_each(|n| n.marked(found)),
        }
    }

    pub(super) fn with_findings(&self, found: &mut Vec<Arc<Resource>>) {
        let has = |r: &&Arc<Resource>| !r.findings().is_empty();
        match &self.parts {
            _ if !self.found => {}
            Children::Leaf(list) => found.extend(list.iter().filter(has).cloned()),
            Children::Inner(list) => list.iter().for_each(|n| n.with_findings(found)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        let leaf = self.leaf_of(name)?;
        let at = leaf.binary_search_by(|r| (*r.name).cmp(name)).ok()?;
        leaf.get(at)
    }
}

fn rank(name: &str) -> u32 {
    (xxh3_64(name.as_bytes()).trailing_zeros() / BITS).min(HIGHEST)
}

/// Takes resources and nodes in the order of their names.
#[derive(Default)]
pub(super) struct Builder {
    leaf: Vec<Arc<Resource>>,
    /// By level: what waits for its parent to be closed.
    open: SmallVec<[Vec<Arc<Node>>; 6]>,
}

impl Builder {
    pub(super) fn push(&mut self, resource: Arc<Resource>) {
        let rank = rank(&resource.name);
        self.leaf.push(resource);
        if rank > 0 {
            self.close_leaf(rank);
        }
    }

    /// Adds a node of another tree: as it is where it stands between closed ones, else by its parts.
    pub(super) fn push_node(&mut self, node: &Arc<Node>) {
        let between = self.leaf.is_empty()
            && self
                .open
                .iter()
                .take(node.level as usize)
                .all(Vec::is_empty);
        if between && node.rank > node.level {
            self.add(node.clone());
            return;
        }
        match &node.parts {
            Children::Leaf(list) => {
                for resource in list {
                    self.push(resource.clone());
                }
            }
            Children::Inner(list) => {
                for node in list {
                    self.push_node(node);
                }
            }
        }
    }

    fn close_leaf(&mut self, rank: u32) {
        let list = std::mem::take(&mut self.leaf).into_boxed_slice();
        if let Some(node) = Node::leaf(list, rank) {
            self.add(Arc::new(node));
        }
    }

    fn close(&mut self, level: u32) {
        let list = std::mem::take(&mut self.open[level as usize]);
        if let Some(node) = Node::inner(list.into_boxed_slice(), level + 1) {
            self.add(Arc::new(node));
        }
    }

    fn add(&mut self, node: Arc<Node>) {
        let (level, closes) = (node.level, node.rank > node.level + 1);
        while self.open.len() <= level as usize {
            self.open.push(Vec::new());
        }
        self.open[level as usize].push(node);
        if closes {
            self.close(level);
        }
    }

    pub(super) fn finish(mut self) -> Option<Arc<Node>> {
        self.close_leaf(0);
        let mut level = 0;
        while level < self.open.len() {
            if level + 1 == self.open.len() && self.open[level].len() == 1 {
                break;
            }
            self.close(level as u32);
            level += 1;
        }
        let mut root = self.open.pop()?.pop()?;
        while let Children::Inner(list) = &root.parts
            && let [only] = &**list
        {
            root = only.clone();
        }
        Some(root)
    }
}

/// What an edit makes of the resource of a name.
pub(super) type Edit = (Arc<str>, Option<Arc<Resource>>);

/// Applies edits, sorted by name and each name once, to the part of a tree that `node` is. `rest`: nothing follows it.
pub(super) fn edit(node: &Arc<Node>, mut edits: &[Edit], rest: bool, out: &mut Builder) {
    if edits.is_empty() {
        return out.push_node(node);
    }
    match &node.parts {
        Children::Inner(list) => {
            for (at, child) in list.iter().enumerate() {
                let rest = rest && at + 1 == list.len();
                let mine = if rest {
                    edits.len()
                } else {
                    edits.partition_point(|(name, _)| *name <= child.last.name)
                };
                let (mine, later) = edits.split_at(mine);
                edit(child, mine, rest, out);
                edits = later;
            }
        }
        Children::Leaf(list) => {
            let mut edits = edits.iter().peekable();
            for resource in list {
                while let Some((_, new)) = edits.next_if(|(name, _)| *name < resource.name) {
                    new.iter().for_each(|r| out.push(r.clone()));
                }
                match edits.next_if(|(name, _)| *name == resource.name) {
                    Some((_, new)) => new.iter().for_each(|r| out.push(r.clone())),
                    None => out.push(resource.clone()),
                }
            }
            for (_, new) in edits {
                new.iter().for_each(|r| out.push(r.clone()));
            }
        }
    }
}
