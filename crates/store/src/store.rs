//! The one writer: merges what sources say, by precedence, into the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{InputKey, KeyedMap, KeyedSet};
use model::change::ServiceKey;
use model::kinds::AnyObject;
use model::settings::Settings;
use model::{Change, ObjectKey, SourceId};
use rpds::RedBlackTreeMapSync;
use smallvec::SmallVec;

use crate::input::Input;
use crate::shards::{ServiceShards, ShardUpdate};
use crate::snapshot::{Snapshot, Tables};

/// Why something is pushed; the label `type` of `pilot_push_triggers`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// A config object changed.
    Config,
    /// A service changed.
    Service,
    /// Endpoints changed.
    Endpoint,
    /// Mesh-wide settings changed.
    Global,
    /// A secret changed.
    Secret,
}

/// What a batch changed.
#[derive(Clone, Debug, Default)]
pub struct ChangeSet {
    /// The inputs that differ, each once.
    pub keys: Vec<InputKey>,
    /// The objects that differ.
    pub objects: Vec<ObjectKey>,
    /// Counted reasons.
    pub reasons: BTreeMap<Reason, u64>,
    /// Sources that reported to be in sync.
    pub synced: Vec<SourceId>,
}

impl ChangeSet {
    /// Whether generation could not see any difference.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// One source's version of an object.
#[derive(Clone, Debug)]
struct Layer {
    source: SourceId,
    object: AnyObject,
    /// Not said again since the source restarted.
    stale: bool,
}

/// Merges sources into the snapshot.
#[derive(Debug)]
pub struct Store {
    layers: KeyedMap<ObjectKey, SmallVec<[Layer; 1]>>,
    snapshot: Arc<Snapshot>,
}

impl Store {
    /// An empty store.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            layers: KeyedMap::default(),
            snapshot: Arc::new(Snapshot {
                revision: 0,
                tables: Tables::default(),
                settings,
                keys: RedBlackTreeMapSync::new_sync(),
                shards: RedBlackTreeMapSync::new_sync(),
                connected: RedBlackTreeMapSync::new_sync(),
            }),
        }
    }

    /// The state after the last batch.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.clone()
    }

    /// The versions of an object that sources hold, the one in force first.
    pub fn versions(&self, key: &ObjectKey) -> impl Iterator<Item = (&SourceId, &AnyObject)> {
        self.layers
            .get(key)
            .into_iter()
            .flatten()
            .map(|l| (&l.source, &l.object))
    }

    /// Applies a batch as one revision.
    pub fn apply(&mut self, batch: impl IntoIterator<Item = Change>) -> ChangeSet {
        let mut next = Snapshot::clone(&self.snapshot);
        next.revision += 1;
        let mut touched = Touched::default();
        for change in batch {
            self.apply_one(&mut next, change, &mut touched);
        }
        self.snapshot = Arc::new(next);
        let Touched {
            keys,
            objects,
            mut changes,
        } = touched;
        changes.keys = keys.into_iter().collect();
        changes.keys.sort_unstable();
        changes.objects = objects.into_iter().collect();
        changes.objects.sort();
        changes
    }

    fn apply_one(&mut self, next: &mut Snapshot, change: Change, touched: &mut Touched) {
        match change {
            Change::Put(source, object) => {
                let key = object.key();
                let layers = self.layers.entry(key.clone()).or_default();
                let layer = Layer {
                    source,
                    object,
                    stale: false,
                };
                match layers.iter().position(|l| l.source == layer.source) {
                    Some(at) => layers[at] = layer,
                    None => {
                        let at = layers.partition_point(|l| l.source < layer.source);
                        layers.insert(at, layer);
                    }
                }
                let winner = layers.first().map(|l| l.object.clone());
                touched.set(next, &key, winner);
            }
            Change::Delete(source, key) => {
                self.remove_layers(next, &key, touched, |l| l.source == source)
            }
            Change::Endpoints {
                service,
                shard,
                list,
            } => {
                let before = next.shards.get(&service);
                let send_unhealthy = next.settings.features.send_unhealthy_endpoints;
                let (after, update) =
                    ServiceShards::update(before.map(|a| &**a), &shard, &list, send_unhealthy);
                let Some(after) = after else {
                    return;
                };
                if before.is_some_and(|before| **before == after) {
                    return;
                }
                touched.shards(&service, before.is_none(), update);
                next.shards.insert_mut(service, Arc::new(after));
            }
            Change::Keys(source, fetched) => {
                if next.keys.get(&source) == fetched.as_ref() {
                    return;
                }
                touched.keys.insert(Input::Keys(&source).key());
                *touched.changes.reasons.entry(Reason::Config).or_default() += 1;
                match fetched {
                    Some(fetched) => next.keys.insert_mut(source, fetched),
                    None => {
                        next.keys.remove_mut(&source);
                    }
                }
            }
            Change::Settings(settings) => {
                if *settings != *next.settings {
                    touched.keys.insert(Input::Settings.key());
                    *touched.changes.reasons.entry(Reason::Global).or_default() += 1;
                }
                next.settings = settings;
            }
            Change::Restart(source) => {
                for layer in self
                    .layers
                    .values_mut()
                    .flatten()
                    .filter(|l| l.source == source)
                {
                    layer.stale = true;
                }
            }
            Change::Synced(source) => {
                let stale: Vec<ObjectKey> = self
                    .layers
                    .iter()
                    .filter(|(_, layers)| layers.iter().any(|l| l.stale && l.source == source))
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in stale {
                    self.remove_layers(next, &key, touched, |l| l.stale && l.source == source);
                }
                touched.changes.synced.push(source);
            }
        }
    }

    fn remove_layers(
        &mut self,
        next: &mut Snapshot,
        key: &ObjectKey,
        touched: &mut Touched,
        gone: impl Fn(&Layer) -> bool,
    ) {
        let Some(layers) = self.layers.get_mut(key) else {
            return;
        };
        layers.retain(|l| !gone(l));
        let winner = layers.first().map(|l| l.object.clone());
        if winner.is_none() {
            self.layers.remove(key);
        }
        touched.set(next, key, winner);
    }
}

/// Collects what a batch touches.
#[derive(Default)]
struct Touched {
    keys: KeyedSet<InputKey>,
    objects: KeyedSet<ObjectKey>,
    changes: ChangeSet,
}

impl Touched {
    /// Puts the version in force into its table, and notes the difference if generation could see one.
    fn set(&mut self, next: &mut Snapshot, key: &ObjectKey, winner: Option<AnyObject>) {
        let keys = &mut self.keys;
        let mut touch = |input: Input<'_>| {
            keys.insert(input.key());
        };
        if !next.replace(key, winner, &mut touch) {
            return;
        }
        self.objects.insert(key.clone());
        let reason = match key.kind {
            model::Kind::ServiceEntry => Reason::Service,
            model::Kind::WorkloadEntry => Reason::Endpoint,
            _ => Reason::Config,
        };
        *self.changes.reasons.entry(reason).or_default() += 1;
    }

    fn shards(&mut self, service: &ServiceKey, new: bool, update: ShardUpdate) {
        if new {
            self.keys.insert(Input::ShardServices.key());
        }
        // Also where no proxy is to be told: what generation reads must never differ from what it has read.
        self.keys.insert(Input::Shards(service).key());
        let reason = match update {
            ShardUpdate::None => return,
            ShardUpdate::Endpoints => Reason::Endpoint,
            ShardUpdate::Service => Reason::Service,
        };
        *self.changes.reasons.entry(reason).or_default() += 1;
    }
}
