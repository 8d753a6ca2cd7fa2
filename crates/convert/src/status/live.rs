//! Statuses that are kept up to date: an edit costs those that it touches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use incr::{Engine, KeyedMap, RootId};
use model::ObjectKey;
use serde_json::Value;
use store::Snapshot;

use super::{StatusChange, is_told, pull, register};

/// The statuses of the objects of a stage.
#[derive(Default)]
pub(crate) struct LiveStatuses {
    of_objects: KeyedMap<ObjectKey, Live>,
    by_id: KeyedMap<RootId, ObjectKey>,
    /// What may have changed since it was last pulled.
    due: Vec<RootId>,
    /// Objects that had a status and are gone.
    gone: Vec<ObjectKey>,
}

struct Live {
    id: RootId,
    status: Arc<Option<Value>>,
}

impl LiveStatuses {
    /// Starts or ends the status of an object, which is there from here on or not.
    pub(crate) fn take_in(
        &mut self,
        engine: &mut Engine<Snapshot>,
        object: &ObjectKey,
        is_there: bool,
    ) {
        if !is_told(object) || is_there == self.of_objects.contains_key(object) {
            return;
        }
        if is_there {
            let id = register(engine, object);
            self.by_id.insert(id, object.clone());
            let status = Arc::default();
            self.of_objects.insert(object.clone(), Live { id, status });
        } else if let Some(live) = self.of_objects.remove(object) {
            self.by_id.remove(&live.id);
            engine.release(live.id);
            if live.status.is_some() {
                self.gone.push(object.clone());
            }
        }
    }

    /// Forgets what was due: the engine names again what still is.
    pub(crate) fn begin(&mut self) {
        self.due.clear();
    }

    /// Takes note of a root that may have changed, if it is a status.
    pub(crate) fn note(&mut self, root: RootId) {
        if self.by_id.contains_key(&root) {
            self.due.push(root);
        }
    }

    /// Derives what may have changed; returns what did, and how many derivations panicked.
    pub(crate) fn pull(
        &mut self,
        engine: &Engine<Snapshot>,
        snapshot: &Snapshot,
    ) -> (Vec<StatusChange>, u64) {
        let (mut changes, mut panics) = (Vec::new(), 0);
        for object in self.gone.drain(..) {
            let status = Arc::default();
            changes.push(StatusChange { object, status });
        }
        for root in std::mem::take(&mut self.due) {
            let Some(object) = self.by_id.get(&root) else {
                continue;
            };
            let pulled = catch_unwind(AssertUnwindSafe(|| pull(engine, snapshot, object)));
            let (Ok(status), Some(live)) = (pulled, self.of_objects.get_mut(object)) else {
                panics += 1;
                continue;
            };
            if live.status != status {
                live.status = status.clone();
                let object = object.clone();
                changes.push(StatusChange { object, status });
            }
        }
        (changes, panics)
    }
}
