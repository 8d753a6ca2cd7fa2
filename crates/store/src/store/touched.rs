//! Collects what a batch touches.

use std::sync::Arc;

use incr::{InputKey, KeyedSet};
use model::change::ServiceKey;
use model::kinds::AnyObject;
use model::{Kind, ObjectKey, Owner};

use super::{ChangeSet, Reason};
use crate::input;
use crate::shards::ShardUpdate;
use crate::snapshot::Snapshot;

#[derive(Default)]
pub(super) struct Touched {
    keys: KeyedSet<InputKey>,
    objects: KeyedSet<ObjectKey>,
    changes: ChangeSet,
}

impl Touched {
    /// What was collected, sorted.
    pub(super) fn finish(self) -> ChangeSet {
        let mut changes = self.changes;
        changes.keys = self.keys.into_iter().collect();
        changes.keys.sort_unstable();
        changes.objects = self.objects.into_iter().collect();
        changes.objects.sort();
        changes
    }

    /// An input differs, for a reason.
    pub(super) fn note(&mut self, key: InputKey, reason: Reason) {
        self.keys.insert(key);
        *self.changes.reasons.entry(reason).or_default() += 1;
    }

    /// Other owners than before hold objects that several hold.
    pub(super) fn contested(&mut self) {
        self.changes.contested = true;
    }

    /// Puts the version in force into its table, and notes the difference if generation could see one.
    pub(super) fn set(
        &mut self,
        next: &mut Snapshot,
        key: &ObjectKey,
        winner: Option<(AnyObject, Arc<Owner>)>,
    ) {
        let old = next.tables.get_any(key.kind, &key.name);
        let visible = match (&old, &winner) {
            (None, None) => return,
            (Some(a), Some((b, _))) => !a.means_the_same(b),
            _ => true,
        };
        let membership = old.is_some() != winner.is_some();
        let had_namespace = next.tables.has_namespace(key.kind, &key.name.namespace);
        let keys = &mut self.keys;
        next.tables
            .set_any(key, winner, &mut |index, value, moved| {
                if visible {
                    keys.insert(input::index_contents(key.kind, index, value));
                    if moved {
                        keys.insert(input::index_members(key.kind, index, value));
                    }
                }
            });
        if !visible {
            return;
        }
        keys.insert(input::row(key.kind, &key.name));
        keys.insert(input::contents(key.kind));
        keys.insert(input::contents_in(key.kind, &key.name.namespace));
        if key.kind.is_per_cluster() {
            keys.insert(input::namesakes(key.kind, &key.name));
        }
        if membership {
            keys.insert(input::members(key.kind));
            keys.insert(input::members_in(key.kind, &key.name.namespace));
        }
        if had_namespace != next.tables.has_namespace(key.kind, &key.name.namespace) {
            keys.insert(input::namespaces(key.kind));
        }
        self.objects.insert(key.clone());
        let reason = match key.kind {
            Kind::ServiceEntry => Reason::Service,
            Kind::WorkloadEntry => Reason::Endpoint,
            _ => Reason::Config,
        };
        *self.changes.reasons.entry(reason).or_default() += 1;
    }

    /// The shards of a service differ.
    pub(super) fn shards(&mut self, service: &ServiceKey, update: ShardUpdate) {
        // Also where no proxy is to be told: what generation reads must never differ from what it has read.
        self.keys.insert(input::shards(service));
        let reason = match update {
            ShardUpdate::None => return,
            ShardUpdate::Endpoints => Reason::Endpoint,
            ShardUpdate::Service => Reason::Service,
        };
        *self.changes.reasons.entry(reason).or_default() += 1;
    }
}
