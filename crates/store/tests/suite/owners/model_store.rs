//! A store as simple as can be: what each owner holds, and the winner of each key by looking at all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::change::ServiceKey;
use model::service::Endpoint;
use model::{AnyObject, Change, Collection, Contents, ObjectKey, Owner, ShardKey};

/// What one owner holds.
#[derive(Default, Clone)]
struct Held {
    objects: BTreeMap<ObjectKey, AnyObject>,
    shards: BTreeMap<(ServiceKey, ShardKey), Arc<[Endpoint]>>,
    /// What stands beside the substitutes of objects.
    beside: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// Every owner with what it holds, and what it has to say again.
#[derive(Default)]
pub(crate) struct Model {
    owners: BTreeMap<Owner, Held>,
    stale_objects: BTreeSet<(Owner, ObjectKey)>,
    stale_shards: BTreeSet<(Owner, (ServiceKey, ShardKey))>,
}

impl Model {
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(owner, object) => {
                self.set_beside(owner, owner.key(&object.key()), &[]);
                self.put(owner, object);
            }
            Change::Delete(owner, key) => {
                self.set_beside(owner, owner.key(key), &[]);
                self.delete(owner, &owner.key(key));
            }
            Change::Keep(owner, key, substitutes) => {
                let key = owner.key(key);
                let held = self.owners.get(owner);
                let known = held.and_then(|held| held.objects.get(&key));
                if known.is_some_and(|known| known.meta().closed.is_none()) {
                    self.stale_objects.remove(&(owner.clone(), key));
                    return;
                }
                match substitutes.first() {
                    Some(own) => self.put(owner, own),
                    None => self.delete(owner, &key),
                }
                self.set_beside(owner, key, substitutes.get(1..).unwrap_or_default());
            }
            Change::Endpoints {
                owner,
                service,
                shard,
                list,
            } => {
                let held = self.owners.entry(owner.clone()).or_default();
                let key = (service.clone(), shard.clone());
                if !list.is_empty() || held.shards.contains_key(&key) {
                    held.shards.insert(key.clone(), list.clone());
                    self.stale_shards.remove(&(owner.clone(), key));
                }
            }
            Change::DeleteEndpoints {
                owner,
                service,
                shard,
            } => {
                let key = (service.clone(), shard.clone());
                let held = self.owners.entry(owner.clone()).or_default();
                held.shards.remove(&key);
                self.stale_shards.remove(&(owner.clone(), key));
            }
            Change::Restart(collection) => self.restart(collection),
            Change::Synced(collection) => self.sweep(collection),
            Change::Gone(owner) => {
                self.owners.remove(owner);
                self.stale_objects.retain(|(o, _)| o != owner);
                self.stale_shards.retain(|(o, _)| o != owner);
            }
            Change::Keys(..)
            | Change::Module(..)
            | Change::Addresses(..)
            | Change::Certificate(..)
            | Change::Access(..)
            | Change::Identities(..)
            | Change::Roots(_)
            | Change::EdgeDocuments(_)
            | Change::RemoteIngresses(_)
            | Change::Settings(_) => {}
        }
    }

    fn put(&mut self, owner: &Owner, object: &AnyObject) {
        let mut object = object.clone();
        object.set_cluster(owner.cluster_of(object.kind()));
        self.stale_objects.remove(&(owner.clone(), object.key()));
        let held = self.owners.entry(owner.clone()).or_default();
        held.objects.insert(object.key(), object);
    }

    fn delete(&mut self, owner: &Owner, key: &ObjectKey) {
        self.stale_objects.remove(&(owner.clone(), key.clone()));
        let held = self.owners.entry(owner.clone()).or_default();
        held.objects.remove(key);
    }

    fn set_beside(&mut self, owner: &Owner, key: ObjectKey, objects: &[AnyObject]) {
        let keys: BTreeSet<_> = objects.iter().map(|o| owner.key(&o.key())).collect();
        let held = self.owners.entry(owner.clone()).or_default();
        let before = held.beside.insert(key, keys.clone()).unwrap_or_default();
        for gone in before.difference(&keys) {
            self.delete(owner, gone);
        }
        objects.iter().for_each(|object| self.put(owner, object));
    }

    fn restart(&mut self, Collection { owner, of }: &Collection) {
        let held = self.owners.entry(owner.clone()).or_default();
        match of {
            Contents::Objects(kind) => {
                let stale = held.objects.keys().filter(|key| key.kind == *kind);
                let stale = stale.map(|key| (owner.clone(), key.clone()));
                self.stale_objects.extend(stale);
            }
            Contents::Endpoints => {
                let stale = held.shards.keys().map(|key| (owner.clone(), key.clone()));
                self.stale_shards.extend(stale);
            }
        }
    }

    fn sweep(&mut self, Collection { owner, of }: &Collection) {
        let held = self.owners.entry(owner.clone()).or_default();
        match of {
            Contents::Objects(kind) => self.stale_objects.retain(|(whose, key)| {
                let swept = whose == owner && key.kind == *kind;
                if swept {
                    held.objects.remove(key);
                }
                !swept
            }),
            Contents::Endpoints => self.stale_shards.retain(|(whose, key)| {
                let swept = whose == owner;
                if swept {
                    held.shards.remove(key);
                }
                !swept
            }),
        }
    }

    /// What a store that never saw anything else has to be told to be in this state.
    pub(crate) fn state(&self) -> Vec<Change> {
        let mut told = Vec::new();
        for (owner, held) in self.owners.iter().rev() {
            let objects = held.objects.values();
            told.extend(objects.map(|object| Change::Put(owner.clone(), object.clone())));
            for ((service, shard), list) in &held.shards {
                let tell = |list: Arc<[Endpoint]>| Change::Endpoints {
                    owner: owner.clone(),
                    service: service.clone(),
                    shard: shard.clone(),
                    list,
                };
                if list.is_empty() {
                    told.push(tell(Arc::from([Endpoint::default()])));
                }
                told.push(tell(list.clone()));
            }
        }
        told
    }
}
