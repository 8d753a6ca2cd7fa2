//! Collects what a batch touches.

use std::sync::Arc;

use incr::{InputKey, KeyedSet};
use model::change::ServiceKey;
use model::kinds::AnyObject;
use model::{Kind, ObjectKey, Owner};

use super::{ChangeSet, Reason};
use crate::input::Input;
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
        changes.shards.sort();
        changes.shards.dedup();
        changes
    }

    /// An input differs, for a reason.
    pub(super) fn note(&mut self, input: Input<'_>, reason: Reason) {
        self.keys.insert(input.key());
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
        let keys = &mut self.keys;
        let mut touch = |input: Input<'_>| {
            keys.insert(input.key());
        };
        if !next.replace(key, winner, &mut touch) {
            return;
        }
        self.objects.insert(key.clone());
        let reason = match key.kind {
            Kind::ServiceEntry => Reason::Service,
            Kind::WorkloadEntry => Reason::Endpoint,
            _ => Reason::Config,
        };
        *self.changes.reasons.entry(reason).or_default() += 1;
    }

    /// What is remembered of a service differs, which is no reason of its own to tell proxies.
    pub(super) fn identities(&mut self, service: &ServiceKey) {
        self.keys.insert(Input::Identities(service).key());
    }

    /// The shards of a service differ.
    pub(super) fn shards(&mut self, service: &ServiceKey, update: ShardUpdate) {
        // Also where no proxy is to be told: what generation reads must never differ from what it has read.
        self.keys.insert(Input::Shards(service).key());
        self.changes.shards.push(service.clone());
        let reason = match update {
            ShardUpdate::None => return,
            ShardUpdate::Endpoints => Reason::Endpoint,
            ShardUpdate::Service => Reason::Service,
        };
        *self.changes.reasons.entry(reason).or_default() += 1;
    }
}
