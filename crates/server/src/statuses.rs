//! The statuses of objects, as the derive thread derives them, and which of them are to be written.
//!
//! A batch tells which statuses became others, so that an edit costs those that it touches: here, and for who writes them.

mod refused;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convert::status::{Status, StatusChange};
use model::names::ClusterId;
use model::{Diagnostic, Kind, Namespace, ObjectKey, ObjectName, Owner, SourceId};
use serde_json::Value;
use store::Snapshot;
use tokio::sync::watch;

use crate::derive::{Batch, RefusedRoute};
use crate::tags::{self, Tags};
use crate::writing::wanted;

/// Statuses to be written, by object.
type Wanted = writeback::status::Statuses;

/// The statuses of objects.
pub struct Book {
    inner: Mutex<Inner>,
}

struct Inner {
    snapshot: Arc<Snapshot>,
    statuses: BTreeMap<ObjectKey, Arc<Option<Value>>>,
    /// What of routes is closed, as Envoy would refuse it.
    refused: BTreeMap<ObjectKey, Vec<Diagnostic>>,
    writing: Option<Writing>,
    /// What is to be written into remote clusters.
    remotes: BTreeMap<ClusterId, (Owner, watch::Sender<Wanted>)>,
    replica: Replica,
    tags: Tags,
}

/// The control plane that writes.
struct Replica {
    system: Namespace,
    revision: Box<str>,
}

/// What is to be written of objects that a source told of.
struct Writing {
    owner: Owner,
    ingresses: watch::Sender<Wanted>,
    gateways: watch::Sender<Wanted>,
}

/// What is to be written, by the lock that it is written under.
pub struct ToWrite {
    /// Of Ingresses.
    pub ingresses: watch::Receiver<Wanted>,
    /// Of the Gateway API.
    pub gateways: watch::Receiver<Wanted>,
}

impl Book {
    /// No statuses yet, for a control plane of a revision in the namespace `system`.
    pub fn new(snapshot: Arc<Snapshot>, system: &str, revision: &str) -> Self {
        let replica = Replica {
            system: system.into(),
            revision: revision.into(),
        };
        Self {
            inner: Mutex::new(Inner {
                tags: Tags::read(&snapshot, &replica.system, revision),
                snapshot,
                statuses: BTreeMap::new(),
                refused: BTreeMap::new(),
                writing: None,
                remotes: BTreeMap::new(),
                replica,
            }),
        }
    }

    /// A panic elsewhere leaves each status as it was or as it is to be.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        let mut inner = self.lock();
        inner.snapshot = batch.snapshot.clone();
        // What is written depends on the generation and the revision of the object as well.
        let changed = &batch.changes.objects;
        let mut objects = match inner.tags_changed(changed) {
            true => inner.statuses.keys().cloned().collect(),
            false => inner.concerned(changed),
        };
        for RefusedRoute { object, found } in &batch.refused {
            match found.is_empty() {
                true => _ = inner.refused.remove(object),
                false => _ = inner.refused.insert(object.clone(), found.clone()),
            }
            objects.push(object.clone());
        }
        inner.take_in(&batch.statuses, objects);
    }

    /// Every object with its status.
    pub fn all(&self) -> Vec<Status> {
        let inner = self.lock();
        let of = inner.statuses.iter();
        let of = of.filter_map(|(object, status)| {
            let (object, status) = (object.clone(), inner.status(object, status)?);
            Some(Status { object, status })
        });
        of.collect()
    }

    /// What is to be written to objects that a source tells of, from here on.
    pub fn write_to(&self, source: &SourceId) -> ToWrite {
        let mut inner = self.lock();
        let (ingresses, to_ingresses) = watch::channel(Wanted::default());
        let (gateways, to_gateways) = watch::channel(Wanted::default());
        inner.writing = Some(Writing {
            owner: source.clone().into(),
            ingresses,
            gateways,
        });
        let all = inner.statuses.keys().cloned().collect();
        inner.take_in(&[], all);
        ToWrite {
            ingresses: to_ingresses,
            gateways: to_gateways,
        }
    }

    /// What is to be written to the Ingresses of a remote cluster, from here on.
    pub fn write_to_remote(&self, owner: &Owner) -> watch::Receiver<Wanted> {
        let mut inner = self.lock();
        let (wanted, to_ingresses) = watch::channel(Wanted::default());
        if let Some(cluster) = &owner.cluster {
            let remote = (owner.clone(), wanted);
            inner.remotes.insert(cluster.clone(), remote);
        }
        let all = inner.statuses.keys().cloned().collect();
        inner.take_in(&[], all);
        to_ingresses
    }

    /// Nothing is written to a remote cluster any more.
    pub fn end_remote(&self, cluster: &ClusterId) {
        self.lock().remotes.remove(cluster);
    }
}

impl Inner {
    /// Whether objects of other names are ours now.
    fn tags_changed(&mut self, changed: &[ObjectKey]) -> bool {
        let Replica { system, revision } = &self.replica;
        if !tags::are_named_by(changed, system) {
            return false;
        }
        let tags = Tags::read(&self.snapshot, system, revision);
        let differs = self.tags != tags;
        self.tags = tags;
        differs
    }

    /// The objects with a status that changed themselves, or whose namespace did.
    fn concerned(&self, changed: &[ObjectKey]) -> Vec<ObjectKey> {
        let told = |key: &&ObjectKey| self.statuses.contains_key(*key);
        let mut objects: Vec<ObjectKey> = changed.iter().filter(told).cloned().collect();
        let namespaces = changed.iter().filter(|key| key.kind == Kind::Namespace);
        let namespaces: BTreeSet<&str> = namespaces.map(|key| &*key.name.name).collect();
        if !namespaces.is_empty() {
            let all = self.statuses.keys();
            let within = all.filter(|key| namespaces.contains(&*key.name.namespace));
            objects.extend(within.cloned());
        }
        objects
    }

    /// Whether it is for this revision to write the status of an object.
    fn is_ours(&self, object: &ObjectKey) -> bool {
        if is_ingress(object) {
            return true;
        }
        let tables = &self.snapshot.tables;
        let namespace = ObjectName::new("", &*object.name.namespace);
        let namespace = tables.namespaces.get(&namespace);
        let found = tables.get_any(object.kind, &object.name);
        found.is_some_and(|found| {
            let labels = namespace.map(|namespace| &namespace.meta.labels);
            self.tags.are_of(&found.meta().labels, labels)
        })
    }

    /// Takes in statuses, and objects that changed.
    fn take_in(&mut self, changes: &[StatusChange], mut objects: Vec<ObjectKey>) {
        for StatusChange { object, status } in changes {
            match status.is_some() {
                true => _ = self.statuses.insert(object.clone(), status.clone()),
                false => _ = self.statuses.remove(object),
            }
            objects.push(object.clone());
        }
        let mut of_remotes: BTreeMap<ClusterId, Vec<ObjectKey>> = BTreeMap::new();
        let (mut ingresses, mut gateways) = (Vec::new(), Vec::new());
        for object in objects {
            match &object.name.cluster {
                Some(cluster) => of_remotes.entry(cluster.clone()).or_default().push(object),
                None if is_ingress(&object) => ingresses.push(object),
                None => gateways.push(object),
            }
        }
        if let Some(writing) = &self.writing {
            self.tell(&writing.owner, ingresses, &writing.ingresses);
            self.tell(&writing.owner, gateways, &writing.gateways);
        }
        for (cluster, objects) in of_remotes {
            if let Some((owner, to)) = self.remotes.get(&cluster) {
                self.tell(owner, objects, to);
            }
        }
    }

    /// Says what is wanted of objects of an owner.
    fn tell(&self, owner: &Owner, objects: Vec<ObjectKey>, to: &watch::Sender<Wanted>) {
        to.send_if_modified(|wanted| {
            let mut differs = false;
            for object in objects {
                differs |= self.want(owner, object, wanted);
            }
            differs
        });
    }

    /// The status of an object, as it was derived and with what of it is closed.
    fn status(&self, object: &ObjectKey, derived: &Option<Value>) -> Option<Value> {
        let mut status = derived.clone()?;
        if let Some(found) = self.refused.get(object) {
            refused::add(&self.snapshot, object, found, &mut status);
        }
        Some(status)
    }

    /// Says what is wanted of one object; returns whether that is something else.
    fn want(&self, owner: &Owner, object: ObjectKey, all: &mut Wanted) -> bool {
        let status = self.statuses.get(&object).filter(|_| self.is_ours(&object));
        let status = status.and_then(|status| self.status(&object, status));
        let wanted =
            status.and_then(|status| wanted::of_status(&self.snapshot, &object, &status, owner));
        match wanted {
            Some(wanted) if all.get(&object).is_some_and(|known| **known == wanted) => false,
            Some(wanted) => {
                all.insert_mut(object, Arc::new(wanted));
                true
            }
            None => all.remove_mut(&object),
        }
    }
}

/// Whether an object is an Ingress, whose status every revision may write, under a lock of its own.
fn is_ingress(object: &ObjectKey) -> bool {
    matches!(object.kind, Kind::Ingress | Kind::KnativeIngress)
}

#[cfg(test)]
mod tests;
