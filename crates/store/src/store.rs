//! The one writer: merges what owners hold, by precedence, into the snapshot.
//!
//! Every object and every list of endpoints belongs to an [`Owner`]. What an owner holds is indexed by collection, so a
//! restart, a sync or a withdrawal costs what that collection holds and looks at nothing else.

mod held;
mod touched;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use incr::{InputKey, KeyedMap};
use model::access::{Access, AccessKey};
use model::certificate::WorkloadCertificate;
use model::change::ServiceKey;
use model::jwks::{FetchedKeys, KeySource};
use model::kinds::AnyObject;
use model::module::{FetchedModule, ModuleSource};
use model::service::Endpoint;
use model::settings::Settings;
use model::{Change, Collection, Contents, Labels, ObjectKey, ObjectName, Owner, ShardKey};
use rpds::RedBlackTreeMapSync;
use smallvec::SmallVec;

use crate::discovery::Discovery;
use crate::input::Input;
use crate::shards::{ServiceShards, ShardUpdate};
use crate::snapshot::{Snapshot, Tables};
use held::{Held, Members, ShardOf};
use touched::Touched;

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
    /// The services of which registries tell other endpoints.
    pub shards: Vec<ServiceKey>,
    /// Counted reasons.
    pub reasons: BTreeMap<Reason, u64>,
    /// Whether [`Snapshot::contested`] differs, which generation does not see.
    pub contested: bool,
}

impl ChangeSet {
    /// Whether generation could not see any difference.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes in what a further batch changed, as if both had been one.
    pub fn merge(&mut self, further: ChangeSet) {
        self.keys.extend(further.keys);
        self.keys.sort_unstable();
        self.keys.dedup();
        self.objects.extend(further.objects);
        self.objects.sort();
        self.objects.dedup();
        self.shards.extend(further.shards);
        self.shards.sort();
        self.shards.dedup();
        for (reason, count) in further.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
        self.contested |= further.contested;
    }
}

/// One owner's version of an object.
#[derive(Clone, Debug)]
struct Version {
    owner: Arc<Owner>,
    object: AnyObject,
}

/// The owners of an object that several hold, the one whose version is in force first.
fn contested(versions: &[Version]) -> Option<Arc<[Arc<Owner>]>> {
    let (used, others) = versions.split_first()?;
    let others = others.iter();
    let others = others.filter(|other| !says_no_more(&used.object, &other.object));
    let all = std::iter::once(used).chain(others);
    let owners: Vec<Arc<Owner>> = all.map(|version| version.owner.clone()).collect();
    (owners.len() > 1).then(|| owners.into())
}

/// Whether nothing is lost where `other` is ignored: it is a Namespace, as an API makes it for what lives in it, and says nothing
/// that `used` does not say.
fn says_no_more(used: &AnyObject, other: &AnyObject) -> bool {
    let (AnyObject::Namespace(used), AnyObject::Namespace(other)) = (used, other) else {
        return false;
    };
    // What APIs and kubectl add by themselves.
    let added = |key: &str| {
        key == "kubernetes.io/metadata.name" || key.starts_with("kubectl.kubernetes.io/")
    };
    let within = |all: &Labels, some: &Labels| {
        let mut pairs = some.iter();
        pairs.all(|(key, value)| added(key) || all.get(key) == Some(&**value))
    };
    within(&used.meta.labels, &other.meta.labels)
        && within(&used.meta.annotations, &other.meta.annotations)
}

/// Merges what owners hold into the snapshot.
#[derive(Debug)]
pub struct Store {
    owners: BTreeMap<Owner, Held>,
    /// By precedence.
    versions: KeyedMap<ObjectKey, SmallVec<[Version; 1]>>,
    /// How many shards tell of a service, those with an empty list included.
    told: KeyedMap<ServiceKey, usize>,
    discovery: Discovery,
    snapshot: Arc<Snapshot>,
}

impl Store {
    /// An empty store.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            owners: BTreeMap::new(),
            versions: KeyedMap::default(),
            told: KeyedMap::default(),
            discovery: Discovery::default(),
            snapshot: Arc::new(Snapshot {
                revision: 0,
                tables: Tables::default(),
                settings,
                keys: RedBlackTreeMapSync::new_sync(),
                modules: RedBlackTreeMapSync::new_sync(),
                addresses: RedBlackTreeMapSync::new_sync(),
                certificates: RedBlackTreeMapSync::new_sync(),
                access: RedBlackTreeMapSync::new_sync(),
                roots: None,
                edge_documents: Arc::default(),
                remote_ingresses: Arc::default(),
                shards: RedBlackTreeMapSync::new_sync(),
                identities: RedBlackTreeMapSync::new_sync(),
                contested: RedBlackTreeMapSync::new_sync(),
                connected: RedBlackTreeMapSync::new_sync(),
            }),
        }
    }

    /// The state after the last batch.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.clone()
    }

    /// The versions of an object that owners hold, the one in force first.
    pub fn versions(&self, key: &ObjectKey) -> impl Iterator<Item = (&Owner, &AnyObject)> {
        let versions = self.versions.get(key).into_iter().flatten();
        versions.map(|v| (&*v.owner, &v.object))
    }

    /// Applies a batch as one revision.
    pub fn apply(&mut self, batch: impl IntoIterator<Item = Change>) -> ChangeSet {
        self.take_in(self.snapshot.revision + 1, batch)
    }

    /// Applies a further batch to the latest revision, of which nobody may have heard yet.
    pub fn amend(&mut self, batch: impl IntoIterator<Item = Change>) -> ChangeSet {
        self.take_in(self.snapshot.revision, batch)
    }

    fn take_in(&mut self, revision: u64, batch: impl IntoIterator<Item = Change>) -> ChangeSet {
        let mut next = Snapshot::clone(&self.snapshot);
        next.revision = revision;
        let mut writing = Writing {
            store: self,
            next: &mut next,
            touched: Touched::default(),
        };
        for change in batch {
            writing.apply(change);
        }
        writing.rediscover();
        let changes = writing.touched.finish();
        self.snapshot = Arc::new(next);
        changes
    }

    fn held(&mut self, owner: &Owner) -> &mut Held {
        // Not `entry`, which would copy the owner each time.
        if !self.owners.contains_key(owner) {
            self.owners.insert(owner.clone(), Held::of(owner));
        }
        self.owners
            .get_mut(owner)
            .expect("it was inserted where it was not there")
    }
}

/// A batch that is being applied.
struct Writing<'a> {
    store: &'a mut Store,
    next: &'a mut Snapshot,
    touched: Touched,
}

impl Writing<'_> {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(owner, object) => {
                self.drop_beside(&owner, || object.key());
                self.put(&owner, object);
            }
            Change::Delete(owner, key) => {
                self.drop_beside(&owner, || key.clone());
                self.delete(&owner, &owner.key(&key));
            }
            Change::Keep(owner, key, substitutes) => {
                self.keep(&owner, owner.key(&key), substitutes);
            }
            Change::Endpoints {
                owner,
                service,
                shard,
                list,
            } => self.tell_endpoints(&owner, (service, shard), &list),
            Change::DeleteEndpoints {
                owner,
                service,
                shard,
            } => self.delete_endpoints(&owner, &(service, shard)),
            Change::Keys(source, fetched) => self.set_keys(source, fetched),
            Change::Module(source, fetched) => self.set_module(source, fetched),
            Change::Addresses(name, found) => self.set_addresses(name, found),
            Change::Certificate(identity, made) => self.set_certificate(identity, made),
            Change::Access(key, answer) => self.set_access(key, answer),
            Change::Identities(service, had) => self.set_identities(service, had),
            Change::Roots(roots) => {
                if self.next.roots != roots {
                    self.touched.note(Input::Roots, Reason::Secret);
                    self.next.roots = roots;
                }
            }
            Change::EdgeDocuments(documents) => {
                if *self.next.edge_documents != *documents {
                    self.touched.note(Input::EdgeDocuments, Reason::Config);
                }
                self.next.edge_documents = documents;
            }
            Change::RemoteIngresses(served) => {
                if *self.next.remote_ingresses != *served {
                    self.touched.note(Input::RemoteIngresses, Reason::Config);
                }
                self.next.remote_ingresses = served;
            }
            Change::Settings(settings) => {
                let discovery = &mut self.store.discovery;
                discovery.settings_change(&self.next.settings, &settings);
                if *settings != *self.next.settings {
                    self.touched.note(Input::Settings, Reason::Global);
                }
                self.next.settings = settings;
            }
            Change::Restart(collection) => self.restart(&collection),
            Change::Synced(collection) => self.sweep(&collection),
            Change::Gone(owner) => self.withdraw(&owner),
        }
    }

    fn put(&mut self, owner: &Owner, mut object: AnyObject) {
        let kind = object.kind();
        object.set_cluster(owner.cluster_of(kind));
        let key = object.key();
        let held = self.store.held(owner);
        let version = Version {
            owner: held.owner.clone(),
            object,
        };
        let members = held.objects.entry(kind).or_default();
        members.insert(key.name.clone());
        let versions = self.store.versions.entry(key.clone()).or_default();
        let at = versions.partition_point(|v| *v.owner < *owner);
        match versions.get_mut(at).filter(|v| *v.owner == *owner) {
            Some(known) => *known = version,
            None => versions.insert(at, version),
        }
        self.settle(&key);
    }

    fn delete(&mut self, owner: &Owner, key: &ObjectKey) {
        let held = self.store.owners.get_mut(owner);
        let members = held.and_then(|held| held.objects.get_mut(&key.kind));
        if members.is_some_and(|members| members.remove(&key.name)) {
            self.drop_version(owner, key);
        }
    }

    /// Keeps the valid version that the owner told before. Without one the substitutes count, which are always those of the
    /// newest version.
    fn keep(&mut self, owner: &Owner, key: ObjectKey, substitutes: Vec<AnyObject>) {
        let known = self.store.versions(&key).find(|(other, _)| *other == owner);
        if known.is_some_and(|(_, object)| object.meta().closed.is_none()) {
            let held = self.store.owners.get_mut(owner);
            if let Some(members) = held.and_then(|held| held.objects.get_mut(&key.kind)) {
                members.insert(key.name);
            }
            return;
        }
        let mut substitutes = substitutes.into_iter();
        match substitutes.next() {
            Some(own) => self.put(owner, own),
            None => self.delete(owner, &key),
        }
        self.put_beside(owner, key, substitutes);
    }

    /// Puts what stands beside the substitute of an object, in place of what stood there before.
    fn put_beside(
        &mut self,
        owner: &Owner,
        key: ObjectKey,
        objects: impl Iterator<Item = AnyObject>,
    ) {
        let mut names = BTreeSet::new();
        for object in objects {
            names.insert(owner.key(&object.key()).name);
            self.put(owner, object);
        }
        let kind = key.kind;
        let before = match names.is_empty() {
            true => {
                let held = self.store.owners.get_mut(owner);
                held.and_then(|held| held.beside.remove(&key))
            }
            false => self.store.held(owner).beside.insert(key, names.clone()),
        };
        for name in before.into_iter().flatten() {
            if !names.contains(&name) {
                self.delete(owner, &ObjectKey { kind, name });
            }
        }
    }

    /// Drops what stands beside the substitute of an object that is now valid, or gone.
    fn drop_beside(&mut self, owner: &Owner, key: impl FnOnce() -> ObjectKey) {
        let held = self.store.owners.get(owner);
        if held.is_some_and(|held| !held.beside.is_empty()) {
            self.put_beside(owner, owner.key(&key()), std::iter::empty());
        }
    }

    /// Drops a version of an object that is no longer a member of any collection of the owner.
    fn drop_version(&mut self, owner: &Owner, key: &ObjectKey) {
        if let Some(versions) = self.store.versions.get_mut(key) {
            versions.retain(|v| *v.owner != *owner);
        }
        self.settle(key);
    }

    /// Puts the version of the highest precedence in force.
    fn settle(&mut self, key: &ObjectKey) {
        let versions = self.store.versions.get(key);
        let winner = versions.and_then(|v| v.first());
        let winner = winner.map(|v| (v.object.clone(), v.owner.clone()));
        let owners = versions.and_then(|versions| contested(versions));
        if winner.is_none() {
            self.store.versions.remove(key);
        }
        if self.next.contested.get(key) != owners.as_ref() {
            self.touched.contested();
            match owners {
                Some(owners) => self.next.contested.insert_mut(key.clone(), owners),
                None => _ = self.next.contested.remove_mut(key),
            }
        }
        let shown = self.store.discovery.shown(self.next, key, winner);
        self.touched.set(self.next, key, shown);
    }

    /// Shows and hides the objects of namespaces that the batch moved into or out of sight.
    fn rediscover(&mut self) {
        for key in self.store.discovery.take_moved(self.next) {
            self.settle(&key);
        }
    }

    fn tell_endpoints(&mut self, owner: &Owner, told: ShardOf, list: &Arc<[Endpoint]>) {
        let held = self.store.held(owner);
        // An empty list keeps a service that is known, and does not make one known.
        if list.is_empty() && !held.shards.contains(&told) {
            return;
        }
        if held.shards.insert(told.clone()) {
            *self.store.told.entry(told.0.clone()).or_default() += 1;
        }
        let (service, shard) = told;
        self.set_shard(&service, &(shard, owner.clone()), list);
    }

    fn set_shard(
        &mut self,
        service: &ServiceKey,
        shard: &(ShardKey, Owner),
        list: &Arc<[Endpoint]>,
    ) {
        let before = self.next.shards.get(service);
        let send_unhealthy = self.next.settings.features.send_unhealthy_endpoints;
        let (after, update) =
            ServiceShards::update(before.map(|a| &**a), shard, list, send_unhealthy);
        let Some(after) = after else {
            return;
        };
        if before.is_some_and(|before| **before == after) {
            return;
        }
        self.touched.shards(service, update);
        let service = service.clone();
        self.next.shards.insert_mut(service, Arc::new(after));
    }

    fn delete_endpoints(&mut self, owner: &Owner, told: &ShardOf) {
        let held = self.store.owners.get_mut(owner);
        if held.is_some_and(|held| held.shards.remove(told)) {
            self.drop_shard(owner, told);
        }
    }

    /// Drops a shard that is no longer a member of any collection, and the service with its last one.
    fn drop_shard(&mut self, owner: &Owner, (service, shard): &ShardOf) {
        let left = self.store.told.get_mut(service).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left > 0 {
            let shard = (shard.clone(), owner.clone());
            self.set_shard(service, &shard, &Arc::from([]));
            return;
        }
        self.store.told.remove(service);
        if self.next.shards.remove_mut(service) {
            self.touched.shards(service, ShardUpdate::Service);
        }
    }

    fn set_keys(&mut self, source: KeySource, fetched: Option<Arc<FetchedKeys>>) {
        if self.next.keys.get(&source) == fetched.as_ref() {
            return;
        }
        self.touched.note(Input::Keys(&source), Reason::Config);
        match fetched {
            Some(fetched) => self.next.keys.insert_mut(source, fetched),
            None => _ = self.next.keys.remove_mut(&source),
        }
    }

    fn set_module(&mut self, source: ModuleSource, fetched: Option<Arc<FetchedModule>>) {
        if self.next.modules.get(&source) == fetched.as_ref() {
            return;
        }
        self.touched.note(Input::Module(&source), Reason::Config);
        match fetched {
            Some(fetched) => self.next.modules.insert_mut(source, fetched),
            None => _ = self.next.modules.remove_mut(&source),
        }
    }

    fn set_addresses(&mut self, name: Arc<str>, found: Option<Arc<[IpAddr]>>) {
        if self.next.addresses.get(&name) == found.as_ref() {
            return;
        }
        self.touched.note(Input::Addresses(&name), Reason::Config);
        match found {
            Some(found) => self.next.addresses.insert_mut(name, found),
            None => _ = self.next.addresses.remove_mut(&name),
        }
    }

    fn set_certificate(&mut self, identity: Arc<str>, made: Option<Arc<WorkloadCertificate>>) {
        if self.next.certificates.get(&identity) == made.as_ref() {
            return;
        }
        self.touched
            .note(Input::Certificate(&identity), Reason::Secret);
        match made {
            Some(made) => self.next.certificates.insert_mut(identity, made),
            None => _ = self.next.certificates.remove_mut(&identity),
        }
    }

    fn set_access(&mut self, key: AccessKey, answer: Option<Arc<Access>>) {
        if self.next.access.get(&key) == answer.as_ref() {
            return;
        }
        self.touched.note(Input::Access(&key), Reason::Config);
        match answer {
            Some(answer) => self.next.access.insert_mut(key, answer),
            None => _ = self.next.access.remove_mut(&key),
        }
    }

    fn set_identities(&mut self, service: ServiceKey, had: Option<Arc<[Arc<str>]>>) {
        if self.next.identities.get(&service) == had.as_ref() {
            return;
        }
        self.touched.identities(&service);
        match had {
            Some(had) => self.next.identities.insert_mut(service, had),
            None => _ = self.next.identities.remove_mut(&service),
        }
    }

    fn restart(&mut self, collection: &Collection) {
        let Some(held) = self.store.owners.get_mut(&collection.owner) else {
            return;
        };
        match collection.of {
            Contents::Objects(kind) => {
                held.objects.entry(kind).or_default().restart();
            }
            Contents::Endpoints => held.shards.restart(),
        }
    }

    /// Removes what was not told again.
    fn sweep(&mut self, collection: &Collection) {
        let owner = &collection.owner;
        let Some(held) = self.store.owners.get_mut(owner) else {
            return;
        };
        match collection.of {
            Contents::Objects(kind) => {
                let members = held.objects.get_mut(&kind);
                let stale = members.map(Members::take_stale).unwrap_or_default();
                held.beside
                    .retain(|key, _| key.kind != kind || !stale.contains(&key.name));
                self.drop_objects(owner, kind, stale.into_iter());
            }
            Contents::Endpoints => {
                let stale = held.shards.take_stale();
                self.drop_shards(owner, stale.into_iter());
            }
        }
    }

    fn withdraw(&mut self, owner: &Owner) {
        let Some(held) = self.store.owners.remove(owner) else {
            return;
        };
        for (kind, members) in held.objects {
            self.drop_objects(owner, kind, members.into_all());
        }
        self.drop_shards(owner, held.shards.into_all());
    }

    fn drop_objects(
        &mut self,
        owner: &Owner,
        kind: model::Kind,
        names: impl Iterator<Item = ObjectName>,
    ) {
        for name in names {
            self.drop_version(owner, &ObjectKey { kind, name });
        }
        shrink(&mut self.store.versions);
    }

    fn drop_shards(&mut self, owner: &Owner, shards: impl Iterator<Item = ShardOf>) {
        for told in shards {
            self.drop_shard(owner, &told);
        }
        shrink(&mut self.store.told);
    }
}

/// Gives back the room of a map that most has gone from.
fn shrink<K: Eq + Hash, V>(map: &mut KeyedMap<K, V>) {
    if map.capacity() > 1024 && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}
