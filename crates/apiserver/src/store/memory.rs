//! The objects, and what happened to them lately, in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::{ObjectId, Past, ResourceName};

/// How many events are kept for watches that start in the past.
pub(super) const EVENTS: usize = 20_000;

/// An object as it is stored.
#[derive(Debug)]
pub struct Stored {
    /// Its `metadata.resourceVersion`.
    pub revision: u64,
    /// The whole object as JSON.
    pub json: Bytes,
    /// Its labels, by name.
    pub labels: Pairs,
    /// The identities of its owners.
    pub owners: Box<[Box<str>]>,
}

impl Stored {
    pub(super) fn new(revision: u64, json: Bytes) -> Self {
        let (labels, owners) = labels_and_owners(&json);
        Self {
            revision,
            json,
            labels,
            owners,
        }
    }

    /// An object as it would be stored, of a write that is only tried.
    pub(crate) fn unsaved(object: &serde_json::Value) -> Self {
        let revision = object["metadata"]["resourceVersion"].as_str();
        let revision = revision.and_then(|r| r.parse().ok()).unwrap_or(0);
        Self::new(revision, object.to_string().into())
    }

    #[cfg(test)]
    pub(crate) fn for_tests(json: &'static [u8]) -> Self {
        Self::new(1, Bytes::from_static(json))
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self
            .labels
            .binary_search_by(|(key, _)| (**key).cmp(name))
            .ok()?;
        self.labels.get(at).map(|(_, value)| &**value)
    }

    /// The object.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

type Pairs = Box<[(Box<str>, Box<str>)]>;

fn labels_and_owners(json: &[u8]) -> (Pairs, Box<[Box<str>]>) {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        labels: Option<BTreeMap<Box<str>, Box<str>>>,
        owner_references: Option<Vec<Owner>>,
    }
    #[derive(serde::Deserialize)]
    struct Owner {
        #[serde(default)]
        uid: Box<str>,
    }
    let Ok(Object { metadata }) = serde_json::from_slice(json) else {
        return (Pairs::default(), Box::default());
    };
    let labels = metadata.labels.unwrap_or_default();
    let owners = metadata.owner_references.unwrap_or_default();
    (
        labels.into_iter().collect(),
        owners.into_iter().map(|o| o.uid).collect(),
    )
}

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// It was not there before.
    Added,
    /// It was there before.
    Modified,
    /// It is gone.
    Deleted,
}

/// One revision.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Of which resource.
    pub resource: ResourceName,
    /// Which object.
    pub id: ObjectId,
    /// The object; a deleted one as it was last, with the revision of its deletion.
    pub object: Arc<Stored>,
    /// The object before.
    pub before: Option<Arc<Stored>>,
}

/// Objects of one resource, in order.
pub(super) type Rows = Vec<(ObjectId, Arc<Stored>)>;

type Table = BTreeMap<ObjectId, Arc<Stored>>;

/// Every object, and the latest events.
#[derive(Debug, Default)]
pub struct Memory {
    pub(super) revision: u64,
    pub(super) oldest: u64,
    tables: BTreeMap<ResourceName, Table>,
    /// Objects by the identities of their owners.
    dependents: HashMap<Box<str>, BTreeSet<(ResourceName, ObjectId)>>,
    events: VecDeque<Event>,
}

impl Memory {
    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The oldest revision that the ledger knows whole.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// An object.
    pub fn get(&self, resource: &ResourceName, id: &ObjectId) -> Option<&Arc<Stored>> {
        self.tables.get(resource)?.get(id)
    }

    /// The objects of a resource behind `after`, ordered by namespace and name; of one namespace if one is given.
    pub fn list<'a>(
        &'a self,
        resource: &ResourceName,
        namespace: Option<&'a str>,
        after: Option<&ObjectId>,
    ) -> impl Iterator<Item = (&'a ObjectId, &'a Arc<Stored>)> + use<'a> {
        let first = ObjectId::new(namespace.unwrap_or_default(), "");
        let start = match after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Included(first),
        };
        let table = self.tables.get(resource);
        let range = table.map(|table| table.range((start, Bound::Unbounded)));
        range
            .into_iter()
            .flatten()
            .take_while(move |(id, _)| namespace.is_none_or(|n| *id.namespace == *n))
    }

    /// The resources of which there are objects.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceName, usize)> {
        self.tables.iter().map(|(name, table)| (name, table.len()))
    }

    /// What happened after `revision`, in order; `None` where that is not known any more.
    pub fn events_after(&self, revision: u64) -> Option<impl Iterator<Item = &Event>> {
        let first = self
            .events
            .front()
            .map_or(self.revision + 1, |e| e.object.revision);
        let skip = (revision + 1).checked_sub(first)?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Some(self.events.range(skip.min(self.events.len())..))
    }

    /// Adds to `past` how objects of a resource were at `revision`, where it does not know yet; `false` where that is not
    /// known any more.
    pub(super) fn undo(&self, resource: &ResourceName, revision: u64, past: &mut Past) -> bool {
        let Some(events) = self.events_after(revision) else {
            return false;
        };
        for event in events.filter(|e| e.resource == *resource) {
            if event.kind != EventKind::Added && event.before.is_none() {
                return false;
            }
            past.entry(event.id.clone())
                .or_insert_with(|| event.before.clone());
        }
        true
    }

    /// The objects that name the object of this identity as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &(ResourceName, ObjectId)> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Puts all objects of a resource in, which come in order.
    pub(super) fn fill(&mut self, resource: ResourceName, rows: Rows) {
        for (id, stored) in rows.iter().filter(|(_, stored)| !stored.owners.is_empty()) {
            for owner in &stored.owners {
                let of = self.dependents.entry(owner.clone()).or_default();
                of.insert((resource.clone(), id.clone()));
            }
        }
        self.tables.insert(resource, rows.into_iter().collect());
    }

    pub(super) fn insert(&mut self, resource: ResourceName, id: ObjectId, stored: Arc<Stored>) {
        for owner in &stored.owners {
            let of = self.dependents.entry(owner.clone()).or_default();
            of.insert((resource.clone(), id.clone()));
        }
        let new = stored.clone();
        let table = self.tables.entry(resource.clone()).or_default();
        if let Some(old) = table.insert(id.clone(), stored) {
            self.forget(&resource, &id, &old, &new.owners);
        }
    }

    /// Takes an object out of the sets of owners that it does not have any more.
    fn forget(&mut self, resource: &ResourceName, id: &ObjectId, old: &Stored, now: &[Box<str>]) {
        for owner in old.owners.iter().filter(|o| !now.contains(o)) {
            if let Some(of) = self.dependents.get_mut(owner) {
                of.remove(&(resource.clone(), id.clone()));
                if of.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    pub(super) fn apply(&mut self, event: Event) {
        self.revision = event.object.revision;
        if event.kind == EventKind::Deleted {
            if let Some(table) = self.tables.get_mut(&event.resource)
                && let Some(old) = table.remove(&event.id)
            {
                self.forget(&event.resource, &event.id, &old, &[]);
            }
        } else {
            let (resource, id) = (event.resource.clone(), event.id.clone());
            self.insert(resource, id, event.object.clone());
        }
        self.remember(event);
    }

    pub(super) fn remember(&mut self, event: Event) {
        if self.events.len() >= EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}
