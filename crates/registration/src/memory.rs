//! Entries of this process alone, where there is no API to write them to: they end with it, and workloads that connect again
//! register again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use model::object::{ObjectKey, ObjectName, Origin};
use model::parse::{Validation, from_json};
use model::{Change, Kind, Owner};
use serde_json::Value;
use writeback::{ObjectRef, Page, Part, Place, WriteError};

/// Takes changes of the configuration.
pub(crate) type Tell = Box<dyn Fn(Vec<Change>) -> BoxFuture<'static, ()> + Send + Sync>;

#[derive(Default)]
struct Objects {
    by_name: BTreeMap<ObjectName, Value>,
    version: u64,
}

impl Objects {
    fn put(&mut self, name: ObjectName, mut value: Value) -> Value {
        self.version += 1;
        value["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.by_name.insert(name, value.clone());
        value
    }

    /// The object that is to be changed.
    fn expect(&self, name: &ObjectName, version: Option<&str>) -> Result<&Value, WriteError> {
        let object = self.by_name.get(name).ok_or(WriteError::Missing)?;
        let now = object["metadata"]["resourceVersion"].as_str();
        match version {
            Some(version) if Some(version) != now => Err(WriteError::Conflict),
            _ => Ok(object),
        }
    }
}

/// A place in memory, for WorkloadEntries only.
pub struct MemoryPlace {
    owner: Owner,
    tell: Tell,
    objects: Mutex<Objects>,
}

impl MemoryPlace {
    /// An empty place, whose objects become part of the configuration as those of an owner.
    pub fn new(owner: Owner, tell: Tell) -> Self {
        Self {
            owner,
            tell,
            objects: Mutex::default(),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn put(&self, value: Value) -> Result<Value, WriteError> {
        let read = from_json(
            value.clone(),
            &Path::new("registration").into(),
            Validation::Warn,
        );
        let object = read.documents.into_iter().find_map(|d| d.object);
        if let Some(mut object) = object {
            object.set_origin(Origin::Source(self.owner.source.clone()));
            (self.tell)(vec![Change::Put(self.owner.clone(), object)]).await;
        }
        Ok(value)
    }
}

/// Only WorkloadEntries are here.
fn name_of(object: &ObjectRef) -> Result<ObjectName, WriteError> {
    if *object.kind != *Kind::WorkloadEntry.name() {
        return Err(WriteError::Refused(format!("{object} cannot be written")));
    }
    Ok(ObjectName::new(&*object.namespace, &*object.name))
}

impl Place for MemoryPlace {
    fn name(&self) -> &str {
        "memory"
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, WriteError>> {
        Box::pin(async move {
            let name = name_of(object)?;
            Ok(self.change(|objects| objects.by_name.get(&name).cloned()))
        })
    }

    fn list<'a>(
        &'a self,
        object: &'a ObjectRef,
        _next: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page, WriteError>> {
        Box::pin(async move {
            name_of(object)?;
            let items = self.change(|objects| objects.by_name.values().cloned().collect());
            Ok(Page { items, next: None })
        })
    }

    fn create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(async move {
            let name = name_of(object)?;
            let made = self.change(|objects| match objects.by_name.contains_key(&name) {
                true => Err(WriteError::Exists),
                false => Ok(objects.put(name, value)),
            });
            self.put(made?).await
        })
    }

    fn replace<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(async move {
            let name = name_of(object)?;
            let replaced = self.change(|objects| {
                let version = value["metadata"]["resourceVersion"].as_str();
                let before = objects.expect(&name, version)?;
                let (mut next, status) = match part {
                    Part::Object => (value.clone(), &before["status"]),
                    Part::Status | Part::Approval => (before.clone(), &value["status"]),
                };
                next["status"] = status.clone();
                if next["status"].is_null()
                    && let Some(object) = next.as_object_mut()
                {
                    object.remove("status");
                }
                Ok(objects.put(name, next))
            });
            self.put(replaced?).await
        })
    }

    fn delete<'a>(
        &'a self,
        object: &'a ObjectRef,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let name = name_of(object)?;
            self.change(|objects| {
                objects.expect(&name, version)?;
                objects.by_name.remove(&name);
                Ok(())
            })?;
            let kind = Kind::WorkloadEntry;
            let key = ObjectKey { kind, name };
            (self.tell)(vec![Change::Delete(self.owner.clone(), key)]).await;
            Ok(())
        })
    }
}

impl std::fmt::Debug for MemoryPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryPlace").finish_non_exhaustive()
    }
}
