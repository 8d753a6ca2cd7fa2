//! Objects that are there without anybody having written them: the CustomResourceDefinitions of kinds that are built in, by which
//! clients find out what is served, the service account `default` of each namespace, the control plane as a pod, and what it
//! shows of its configuration.
//!
//! They are not stored. Whoever writes one stores it in its place, and when that is deleted it is back; so it cannot be deleted
//! itself, but for the account: another one is stored in its place. Watches tell of them as if they were stored; where what is
//! shown changes, they end, so that clients list anew.
//!
//! Kubernetes: pkg/controller/serviceaccount/serviceaccounts_controller.go, 1.36, which writes the account.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Api, Call, own_pod};
use crate::definitions;
use crate::forward::OwnPod;
use crate::object::{map_mut, meta, new_uid, now, set_meta, uid_of};
use crate::resource::{Resource, conditions_of};
use crate::status::Failure;
use crate::store::{Event, EventKind, Expect, Memory, ObjectId, Op, ResourceName, Stored};

/// An object with its id.
pub(super) type Row = (ObjectId, Arc<Stored>);

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const ACCOUNTS: &str = "serviceaccounts";
const PODS: &str = "pods";
const NAMESPACES: &str = "namespaces";
/// The account of pods that name none.
const DEFAULT: &str = "default";
/// The annotation in which the Gateway API says of which release a definition is, and that release. Clients read no kind without.
const BUNDLE: (&str, &str) = ("gateway.networking.k8s.io/bundle-version", "v1.6.0");
const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// What is there without being stored.
#[derive(Clone, Default)]
pub(super) struct Implied {
    definitions: Arc<OnceLock<Vec<Row>>>,
    pod: Arc<OnceLock<(OwnPod, Row)>>,
    shown: Arc<watch::Sender<Shown>>,
}

/// What the control plane shows of its configuration, by resource, ordered by id.
pub(super) type Shown = BTreeMap<ResourceName, Arc<[Row]>>;

impl Implied {
    /// An object.
    pub(super) fn one(
        &self,
        memory: &Memory,
        resource: &ResourceName,
        id: &ObjectId,
    ) -> Option<Arc<Stored>> {
        match resource.as_str() {
            DEFINITIONS => {
                let rows = self.definitions(memory);
                let at = rows.binary_search_by(|(known, _)| known.cmp(id)).ok()?;
                rows.get(at).map(|(_, stored)| stored.clone())
            }
            ACCOUNTS if &*id.name == DEFAULT => {
                let of = ObjectId::new("", &id.namespace);
                Some(account(memory.get(&NAMESPACES.into(), &of)?))
            }
            PODS => {
                let (_, (known, stored)) = self.pod.get()?;
                (known == id).then(|| stored.clone())
            }
            _ => {
                let rows = self.shown.borrow().get(resource)?.clone();
                let at = rows.binary_search_by(|(known, _)| known.cmp(id)).ok()?;
                Some(rows[at].1.clone())
            }
        }
    }

    /// From here on there are these objects, each of a resource. What is as it was stays the same object.
    pub(super) fn show(&self, objects: Vec<(ResourceName, Value)>, revision: u64) {
        self.shown.send_if_modified(|shown| {
            let mut next: BTreeMap<ResourceName, Vec<Row>> = BTreeMap::new();
            for (resource, object) in objects {
                let id = ObjectId::new(meta(&object, "namespace"), meta(&object, "name"));
                let former = shown.get(&resource);
                let former = former.and_then(|rows| rows.iter().find(|(known, _)| *known == id));
                let stored = shown_as(object, former.map(|(_, former)| former), revision);
                next.entry(resource).or_default().push((id, stored));
            }
            let same = |resource: &ResourceName, rows: &[Row]| {
                let former = shown.get(resource)?;
                let pairs = former.iter().zip(rows);
                let mut pairs = pairs.map(|(a, b)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1));
                (former.len() == rows.len() && pairs.all(|same| same)).then(|| former.clone())
            };
            let next = next.into_iter().map(|(resource, mut rows)| {
                rows.sort_by(|(a, _), (b, _)| a.cmp(b));
                let rows = same(&resource, &rows).unwrap_or_else(|| rows.into());
                (resource, rows)
            });
            let next: Shown = next.collect();
            let changed = next.len() != shown.len()
                || next.iter().any(|(resource, rows)| {
                    let former = shown.get(resource);
                    former.is_none_or(|former| !Arc::ptr_eq(former, rows))
                });
            *shown = next;
            changed
        });
    }

    /// Tells when what is shown changes.
    pub(super) fn shows(&self) -> watch::Receiver<Shown> {
        self.shown.subscribe()
    }

    /// From here on there is this pod.
    pub(super) fn set_pod(&self, pod: OwnPod) {
        let row = own_pod::row(&pod);
        let _ = self.pod.set((pod, row));
    }

    /// The control plane's own pod.
    pub(super) fn pod(&self) -> Option<&OwnPod> {
        self.pod.get().map(|(pod, _)| pod)
    }

    /// The objects of a resource behind `after`, ordered by id; of one namespace if one is given.
    pub(super) fn all(
        &self,
        memory: &Memory,
        resource: &ResourceName,
        namespace: Option<&str>,
        after: Option<&ObjectId>,
    ) -> Vec<Row> {
        let mut rows: Vec<Row> = match (resource.as_str(), namespace) {
            (DEFINITIONS, _) => self.definitions(memory).to_vec(),
            (ACCOUNTS, Some(namespace)) => {
                let id = ObjectId::new(namespace, DEFAULT);
                let found = self.one(memory, resource, &id);
                found.map(|stored| (id, stored)).into_iter().collect()
            }
            (ACCOUNTS, None) => {
                let all = memory.list(&NAMESPACES.into(), None, None);
                all.map(|(id, stored)| (ObjectId::new(&id.name, DEFAULT), account(stored)))
                    .collect()
            }
            (PODS, namespace) => {
                let own = self.pod.get().map(|(_, row)| row.clone());
                let own = own.filter(|(id, _)| namespace.is_none_or(|n| *id.namespace == *n));
                own.into_iter().collect()
            }
            _ => {
                let shown = self.shown.borrow();
                let rows = shown.get(resource).into_iter().flat_map(|rows| rows.iter());
                let mine = |(id, _): &&Row| namespace.is_none_or(|n| *id.namespace == *n);
                rows.filter(mine).cloned().collect()
            }
        };
        rows.retain(|(id, _)| after.is_none_or(|after| id > after));
        rows
    }

    /// What an event is to those who watch a resource: none if it is of another.
    pub(super) fn seen(
        &self,
        memory: &Memory,
        resource: &ResourceName,
        event: &Event,
    ) -> Option<Event> {
        if event.resource == *resource {
            let mut event = event.clone();
            let known = self.one(memory, resource, &event.id);
            match (event.kind, known) {
                (EventKind::Added, Some(known)) => event.before = Some(known),
                (EventKind::Deleted, Some(known)) => {
                    event.kind = EventKind::Modified;
                    event.object = Arc::new(at(&known, event.object.revision));
                }
                _ => {}
            }
            return Some(event);
        }
        let comes_or_goes = event.kind != EventKind::Modified;
        if resource.as_str() != ACCOUNTS || event.resource.as_str() != NAMESPACES || !comes_or_goes
        {
            return None;
        }
        let id = ObjectId::new(&event.id.name, DEFAULT);
        let object = Arc::new(at(&account(&event.object), event.object.revision));
        Some(Event {
            kind: event.kind,
            resource: resource.clone(),
            id,
            before: (event.kind == EventKind::Deleted).then(|| object.clone()),
            object,
        })
    }

    fn definitions(&self, memory: &Memory) -> &[Row] {
        self.definitions.get_or_init(|| {
            let first = memory.list(&NAMESPACES.into(), None, None).next();
            let since =
                first.map(|(_, stored)| meta(&stored.value(), "creationTimestamp").to_owned());
            let since = since.filter(|since| !since.is_empty()).unwrap_or_else(now);
            let mut rows: Vec<Row> = definitions::of_all()
                .into_iter()
                .map(|definition| established(definition, &since))
                .map(|d| {
                    (
                        ObjectId::new("", meta(&d, "name")),
                        Arc::new(Stored::unsaved(&d)),
                    )
                })
                .collect();
            rows.sort_by(|(a, _), (b, _)| a.cmp(b));
            rows
        })
    }
}

/// A definition as one that is stored and served.
fn established(mut definition: Value, since: &str) -> Value {
    let uid = uid_of(&format!("definition/{}", meta(&definition, "name")));
    identify(&mut definition, &uid, since);
    set_meta(&mut definition, "generation", 1);
    if definition["spec"]["group"] == GATEWAY_API {
        let (name, release) = BUNDLE;
        set_meta(&mut definition, "annotations", json!({ name: release }));
    }
    let mut status = conditions_of(&definition);
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = since.into();
    }
    let spec = map_mut(&mut definition["spec"]);
    spec.insert("names".to_owned(), status["acceptedNames"].clone());
    spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    definition["status"] = status;
    definition
}

/// The account `default` of a namespace.
fn account(namespace: &Stored) -> Arc<Stored> {
    let namespace = namespace.value();
    let name = meta(&namespace, "name");
    let mut object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT, "namespace": name},
    });
    let uid = uid_of(&format!("account/{}", meta(&namespace, "uid")));
    identify(&mut object, &uid, meta(&namespace, "creationTimestamp"));
    Arc::new(Stored::unsaved(&object))
}

/// What is shown as an object: the former one where it says the same.
fn shown_as(mut object: Value, former: Option<&Arc<Stored>>, revision: u64) -> Arc<Stored> {
    let (kind, namespace) = (object["kind"].as_str(), meta(&object, "namespace"));
    let name = meta(&object, "name");
    let uid = uid_of(&format!("{}/{namespace}/{name}", kind.unwrap_or_default()));
    let before = former.map(|former| former.value());
    let since = match &before {
        Some(before) => meta(before, "creationTimestamp").to_owned(),
        None => now(),
    };
    identify(&mut object, &uid, &since);
    if let (Some(former), Some(before)) = (former, before) {
        set_meta(
            &mut object,
            "resourceVersion",
            meta(&before, "resourceVersion"),
        );
        if object == before {
            return former.clone();
        }
    }
    set_meta(&mut object, "resourceVersion", revision.max(1).to_string());
    Arc::new(Stored::unsaved(&object))
}

fn identify(object: &mut Value, uid: &str, since: &str) {
    set_meta(object, "uid", uid);
    set_meta(object, "creationTimestamp", since);
    set_meta(object, "resourceVersion", "1");
}

/// The object as of a revision.
fn at(stored: &Stored, revision: u64) -> Stored {
    let mut object = stored.value();
    set_meta(&mut object, "resourceVersion", revision.to_string());
    Stored::unsaved(&object)
}

/// What is stored with what is implied, both ordered by id: what is stored stands in the place of the other.
pub(super) fn with_implied<'a>(
    stored: impl Iterator<Item = (&'a ObjectId, &'a Arc<Stored>)>,
    implied: &'a [Row],
) -> impl Iterator<Item = (&'a ObjectId, &'a Arc<Stored>)> {
    let mut stored = stored.peekable();
    let mut implied = implied.iter().map(|(id, object)| (id, object)).peekable();
    std::iter::from_fn(move || {
        let first = stored.peek().map(|(id, _)| *id);
        let before = implied.next_if(|(id, _)| first.is_none_or(|first| *id < first));
        if before.is_some() {
            return before;
        }
        implied.next_if(|(id, _)| first == Some(*id));
        stored.next()
    })
}

impl Api {
    /// An object that is stored or implied.
    pub(super) fn found(&self, resource: &Resource, id: &ObjectId) -> Option<Arc<Stored>> {
        let memory = self.store.read();
        let stored = memory.get(resource.name(), id).cloned();
        stored.or_else(|| self.implied.one(&memory, resource.name(), id))
    }

    /// An object that can be written over. The control plane's own pod can not.
    pub(super) fn writable(&self, resource: &Resource, id: &ObjectId) -> Option<Arc<Stored>> {
        match resource.name().as_str() {
            PODS => self.stored(resource, id),
            _ => self.found(resource, id),
        }
    }

    /// Shows these objects from here on, each with the name of its resource, in place of those before. A stored one stands in the
    /// place of one that is shown, and webhook configurations count as if they were stored.
    pub fn show(&self, objects: Vec<(&str, Value)>) {
        let objects = objects.into_iter();
        let objects = objects.map(|(resource, object)| (resource.into(), object));
        let revision = self.store.read().revision();
        self.implied.show(objects.collect(), revision);
    }

    /// What must be so for a write over an object: one that is implied is not stored yet.
    pub(super) fn expected(&self, call: &Call<'_>, old: &Stored) -> Expect {
        let value = old.value();
        let id = ObjectId::new(meta(&value, "namespace"), meta(&value, "name"));
        let memory = self.store.read();
        let name = call.resource.name();
        if memory.get(name, &id).is_none() && self.implied.one(&memory, name, &id).is_some() {
            return Expect::Absent;
        }
        Expect::Revision(old.revision)
    }

    /// The answer to the deletion of an object that is not stored. An account that is deleted is back at once, as in Kubernetes.
    pub(super) fn deleted_unstored(
        &self,
        call: &Call<'_>,
        name: &str,
    ) -> Result<Arc<Stored>, Failure> {
        let found = self.found(&call.resource, &call.id(name));
        let found = found.ok_or_else(|| Failure::not_found(&call.resource, name))?;
        if call.resource.name().as_str() == ACCOUNTS {
            return Ok(found);
        }
        let why = "it is not stored, and is there as long as what it belongs to";
        Err(Failure::forbidden(&call.resource, name, why))
    }

    /// Where the account `default` of a namespace was deleted, stores another one in its place, as Kubernetes' controller does: what
    /// was issued to the former is valid no longer.
    pub(super) async fn renew_account(&self, call: &Call<'_>, name: &str) -> Result<(), Failure> {
        if call.dry_run || call.resource.name().as_str() != ACCOUNTS || name != DEFAULT {
            return Ok(());
        }
        let id = call.id(name);
        let former = self
            .implied
            .one(&self.store.read(), call.resource.name(), &id);
        let Some(former) = former else {
            return Ok(());
        };
        let mut object = former.value();
        let uid = new_uid().map_err(|error| Failure::internal(error.to_string()))?;
        identify(&mut object, &uid, &now());
        let op = Op {
            resource: call.resource.name().clone(),
            id,
            expect: Expect::Absent,
            put: Some(object),
        };
        match self.write(call, op).await {
            // Somebody else has written one meanwhile.
            Err(failure) if matches!(failure.reason, "Conflict" | "AlreadyExists") => Ok(()),
            written => written.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, revision: u64) -> Row {
        let object = json!({"metadata": {"name": name, "resourceVersion": revision.to_string()}});
        (ObjectId::new("", name), Arc::new(Stored::unsaved(&object)))
    }

    #[test]
    fn what_is_stored_stands_in_the_place_of_what_is_implied() {
        let implied = [row("a", 1), row("c", 1), row("e", 1)];
        for (stored, expected) in [
            (&[][..], &[("a", 1), ("c", 1), ("e", 1)][..]),
            (&["c"], &[("a", 1), ("c", 7), ("e", 1)]),
            (
                &["b", "f"],
                &[("a", 1), ("b", 7), ("c", 1), ("e", 1), ("f", 7)],
            ),
            (&["a", "c", "e"], &[("a", 7), ("c", 7), ("e", 7)]),
        ] {
            let stored: Vec<Row> = stored.iter().map(|name| row(name, 7)).collect();
            let stored = stored.iter().map(|(id, object)| (id, object));
            let merged: Vec<_> = with_implied(stored, &implied)
                .map(|(id, object)| (&*id.name, object.revision))
                .collect();
            assert_eq!(merged, expected);
        }
    }
}
