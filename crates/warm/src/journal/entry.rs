//! A view and a node, as a journal knows them.

use std::sync::Arc;
use std::time::Instant;

use xds::{Published, TypeUrl};

use crate::format::TYPES;
use crate::node::NodeKeys;

/// Numbers of a view's sets, in the order of [`TYPES`].
pub(super) type Sets = [Option<u32>; TYPES.len()];

pub(super) struct View {
    pub(super) published: Arc<Published>,
    /// What the file says.
    pub(super) written: Written,
    pub(super) nodes: usize,
}

impl View {
    /// Takes what is served. Types that nobody asks for stay as they were: a proxy that has just connected asks for one
    /// after the other.
    pub(super) fn take_in(&mut self, published: &Arc<Published>) {
        let kept = |ty: &TypeUrl| published.get(*ty).is_none() && self.published.get(*ty).is_some();
        if !TYPES.iter().any(kept) {
            self.published = published.clone();
            return;
        }
        let mut both = Published::clone(published);
        for ty in TYPES {
            if let (None, Some(before)) = (published.get(ty), self.published.get(ty)) {
                both.set(ty, before.clone());
            }
        }
        self.published = Arc::new(both);
    }

    /// How many sets the file has of it.
    pub(super) fn sets_written(&self) -> usize {
        match &self.written {
            Written::As(_, sets) => sets.iter().flatten().count(),
            Written::No | Written::LeftOut => 0,
        }
    }
}

pub(super) enum Written {
    /// Nothing yet.
    No,
    /// There is no room for it.
    LeftOut,
    /// These sets, with what is in them.
    As(Arc<Published>, Sets),
}

pub(super) struct Known {
    pub(super) keys: NodeKeys,
    pub(super) view: u32,
    /// The save at which it was connected last.
    pub(super) round: u64,
    pub(super) left: Option<Instant>,
}
