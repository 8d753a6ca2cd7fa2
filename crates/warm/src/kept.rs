//! What was read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;
use xds::{Published, Resource, ResourceSet};

use crate::format::{Frame, Ignored, Origin, TYPES, take_head};
use crate::node::NodeKeys;

/// What proxies were served last.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// When it was written, in seconds since 1970.
    pub at: u64,
    views: BTreeMap<u32, Arc<Published>>,
    nodes: HashMap<u128, (NodeKeys, u32)>,
    /// The view of a kind of node, where all that are known have the same.
    kinds: HashMap<u128, Option<u32>>,
}

impl Kept {
    /// What a node had, or what others of its kind have: of those at least two at different addresses must be known and
    /// agree, so that nothing of it is for one address alone.
    pub fn of(&self, keys: &NodeKeys) -> Option<&Arc<Published>> {
        let view = match self.nodes.get(&keys.exact) {
            Some((_, view)) => *view,
            None => (*self.kinds.get(&keys.kind)?)?,
        };
        self.views.get(&view)
    }

    /// How many views there are.
    pub fn views(&self) -> usize {
        self.views.len()
    }

    /// How many nodes are known.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Each view with its nodes.
    pub(crate) fn into_views(self) -> impl Iterator<Item = (Arc<Published>, Vec<NodeKeys>)> {
        let mut nodes: BTreeMap<u32, Vec<NodeKeys>> = BTreeMap::new();
        for (keys, view) in self.nodes.into_values() {
            nodes.entry(view).or_default().push(keys);
        }
        let views = self.views.into_iter();
        views.filter_map(move |(view, published)| Some((published, nodes.remove(&view)?)))
    }

    fn learn_kinds(&mut self) {
        let mut seen: HashMap<u128, (NodeKeys, u32, bool)> = HashMap::default();
        for (keys, view) in self.nodes.values() {
            let first = seen.entry(keys.kind).or_insert((*keys, *view, false));
            first.2 |= first.0.addresses != keys.addresses;
            let kind = self.kinds.entry(keys.kind).or_insert(Some(*view));
            if *kind != Some(*view) {
                *kind = None;
            }
        }
        self.kinds
            .retain(|kind, view| view.is_some() && seen.get(kind).is_some_and(|s| s.2));
    }
}

/// What a view has now; `None` if it is gone.
type ViewChange = (u32, Option<Arc<Published>>);

/// The keys and the view of a node; `None` if it has left.
type NodeChange = (u128, Option<(NodeKeys, u32)>);

impl Kept {
    /// Takes over the changes of one save.
    fn commit(&mut self, at: u64, views: &mut Vec<ViewChange>, nodes: &mut Vec<NodeChange>) {
        self.at = at;
        for (view, published) in views.drain(..) {
            match published {
                Some(published) => self.views.insert(view, published),
                None => self.views.remove(&view),
            };
        }
        for (exact, node) in nodes.drain(..) {
            match node {
                Some(node) => self.nodes.insert(exact, node),
                None => self.nodes.remove(&exact),
            };
        }
    }
}

/// Reads a file. An unfinished save at its end is ignored.
///
/// # Errors
///
/// When it is not one that this program wrote under these settings, or is damaged.
pub fn load(file: &[u8], origin: &Origin) -> Result<Kept, Ignored> {
    let mut cursor = take_head(file, origin)?;
    let mut resources: Vec<Arc<Resource>> = Vec::new();
    let mut sets: Vec<ResourceSet> = Vec::new();
    let mut kept = Kept::default();
    // Views and nodes since the last commit.
    let mut views: Vec<ViewChange> = Vec::new();
    let mut nodes: Vec<NodeChange> = Vec::new();
    let mut committed = false;
    loop {
        let damaged = |what| Ignored::Damaged {
            at: cursor.at,
            what,
        };
        let unknown = damaged("a frame refers to what is not there");
        let Some(frame) = cursor.frame()? else { break };
        match frame {
            Frame::Resource { name, body } => {
                let body = Bytes::copy_from_slice(body);
                resources.push(Arc::new(Resource::from_bytes(name, body)));
            }
            Frame::Set { base, put, removed } => {
                let put: Option<Vec<_>> = put
                    .into_iter()
                    .map(|n| resources.get(n as usize).cloned())
                    .collect();
                let base = base.map(|n| sets.get(n as usize));
                sets.push(match (base, put) {
                    (Some(Some(base)), Some(put)) => {
                        let removed: Vec<Arc<str>> = removed.into_iter().map(Arc::from).collect();
                        base.replaced(&removed, put)
                    }
                    (None, Some(put)) => ResourceSet::new(put),
                    _ => return Err(unknown),
                });
            }
            Frame::View { view, sets: of } => {
                let mut published = Published::new(0);
                for (ty, set) in TYPES.into_iter().zip(of) {
                    let Some(set) = set else { continue };
                    let Some(set) = sets.get(set as usize) else {
                        return Err(unknown);
                    };
                    published.set(ty, set.clone());
                }
                views.push((view, Some(Arc::new(published))));
            }
            Frame::Gone { view } => views.push((view, None)),
            Frame::Node {
                exact,
                kind,
                addresses,
                view,
            } => {
                let keys = NodeKeys {
                    exact,
                    kind,
                    addresses,
                };
                nodes.push((exact, Some((keys, view))));
            }
            Frame::Left { exact } => nodes.push((exact, None)),
            Frame::Commit { at } => {
                committed = true;
                kept.commit(at, &mut views, &mut nodes);
            }
        }
    }
    if !committed {
        return Err(Ignored::Damaged {
            at: file.len(),
            what: "it ends before its first save does",
        });
    }
    kept.learn_kinds();
    Ok(kept)
}
