//! What views of a scope share of a type, gathered service by service.
//!
//! A view's set of clusters or assignments is made of those of each service. Where the single view has no say in them,
//! they are gathered once for the scope; a change of one service is taken into the gathered set without looking at the
//! others.

use std::sync::Arc;

use incr::{Changed, Query};
use model::host::Hostname;
use model::service::Service;
use rpds::RedBlackTreeMapSync;
use store::Snapshot;

use xds::{Resource, ResourceSet};

/// What a service has in a set.
pub(crate) type Part = Arc<[Arc<Resource>]>;

/// What views share, and the services on which the single view has a say: by its labels or by where it stands.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) set: ResourceSet,
    /// By host, which no two services of a scope have in common.
    pub(crate) own: RedBlackTreeMapSync<Hostname, Arc<Service>>,
}

/// Puts a [`Shared`] together.
#[derive(Default)]
pub(crate) struct Gathering {
    parts: Vec<Arc<Resource>>,
    own: RedBlackTreeMapSync<Hostname, Arc<Service>>,
}

impl Gathering {
    pub(crate) fn share(&mut self, part: &[Arc<Resource>]) {
        self.parts.extend(part.iter().cloned());
    }

    pub(crate) fn leave(&mut self, service: &Arc<Service>) {
        self.own.insert_mut(service.host.clone(), service.clone());
    }

    pub(crate) fn finish(self) -> Arc<Shared> {
        Arc::new(Shared {
            set: ResourceSet::new(self.parts),
            own: self.own,
        })
    }
}

/// A query for the part of a service that shared by all views of a scope or left to each of them.
pub(crate) trait Shareable: Query<Snapshot, Value = Option<Part>> {
    /// Whose part it is.
    fn service(&self) -> &Arc<Service>;
}

impl Shared {
    /// This with what changed: `M` asks for a part that is shared for certain, `R` for one that may be left to views.
    pub(crate) fn updated<M, R>(&self, changed: &Changed<'_, Snapshot>) -> Arc<Shared>
    where
        M: Query<Snapshot, Value = Part>,
        R: Shareable,
    {
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        let mut own = self.own.clone();
        for (_, before, after) in changed.members::<M>() {
            gone.extend(before.iter().map(|r| &r.name));
            new.extend(after.iter().cloned());
        }
        for (query, before, after) in changed.members::<R>() {
            let service = query.service();
            gone.extend(before.iter().flat_map(|part| part.iter()).map(|r| &r.name));
            match after {
                Some(part) => {
                    new.extend(part.iter().cloned());
                    own.remove_mut(&service.host);
                }
                None => own.insert_mut(service.host.clone(), service.clone()),
            }
        }
        Arc::new(Shared {
            set: self.set.replaced(gone, new),
            own,
        })
    }
}
