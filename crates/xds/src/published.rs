//! What the proxies of one view should have, at one revision.

use crate::resource::ResourceSet;
use crate::type_url::TypeUrl;
use crate::types::ByType;

/// Every generated set of one view. Streams hold the newest one; sets that did not change are shared between
/// revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The revision of the snapshot it was made from.
    pub revision: u64,
    sets: ByType<Option<ResourceSet>>,
}

impl Published {
    /// Nothing yet.
    pub fn new(revision: u64) -> Self {
        Self {
            revision,
            ..Self::default()
        }
    }

    /// The same sets, as of another revision.
    pub fn at(&self, revision: u64) -> Self {
        Self {
            revision,
            sets: self.sets.clone(),
        }
    }

    /// The set of a type; `None` until somebody subscribed to the type and it was generated.
    pub fn get(&self, ty: TypeUrl) -> Option<&ResourceSet> {
        self.sets[ty].as_ref()
    }

    /// How large all resources are together, encoded.
    pub fn bytes(&self) -> usize {
        self.sets.values().flatten().map(ResourceSet::bytes).sum()
    }

    /// Replaces the set of a type.
    pub fn set(&mut self, ty: TypeUrl, set: ResourceSet) {
        self.sets[ty] = Some(set);
    }
}
