//! A place in memory that is slow, fails, and remembers who wrote what: for tests.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::place::{ObjectRef, Page, Part, Place, WriteError};

/// What goes wrong on the way to a place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// How long a request takes at most, on the way there and on the way back.
    pub delay: Duration,
    /// Of 1000 requests, how many are lost on the way there.
    pub lost: u64,
    /// Of 1000 requests, the answers of how many are lost.
    pub unanswered: u64,
}

/// A write that was done.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    /// Who did it.
    pub by: Arc<str>,
    /// When.
    pub at: Instant,
    /// What was written.
    pub object: ObjectRef,
    /// The object as it was before; null for one that was not there.
    pub before: Value,
    /// The object as it is since; null for one that was deleted.
    pub after: Value,
}

#[derive(Default)]
struct Objects {
    revision: u64,
    all: BTreeMap<ObjectRef, Value>,
    written: Vec<Written>,
}

/// Objects in memory, which clients of their own names and faults read and write.
#[derive(Clone, Default)]
pub struct FakePlace(Arc<Mutex<Objects>>);

impl FakePlace {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A way to it. `seed` decides what goes wrong when.
    pub fn client(&self, name: &str, seed: u64, faults: Faults) -> Arc<FakeClient> {
        Arc::new(FakeClient {
            place: self.clone(),
            name: name.into(),
            seed,
            faults: Mutex::new(faults),
            requests: Mutex::new(0),
        })
    }

    /// Everything that was written, in turn.
    pub fn written(&self) -> Vec<Written> {
        self.objects().written.clone()
    }

    /// The object as it is; null where it is not there.
    pub fn object(&self, object: &ObjectRef) -> Value {
        self.objects().all.get(object).cloned().unwrap_or_default()
    }

    /// Puts an object there, as if somebody had applied it.
    pub fn put(&self, by: &str, object: &ObjectRef, value: Value) {
        let exists = !self.object(object).is_null();
        let part = match exists {
            true => Change::Replace(Part::Object),
            false => Change::Create,
        };
        let done = self.change(by, object, part, value);
        debug_assert!(done.is_ok(), "{done:?}");
    }

    /// Replaces the status of an object, as if another controller had done it.
    pub fn put_status(&self, by: &str, object: &ObjectRef, status: Value) {
        let value = json!({ "status": status });
        let done = self.change(by, object, Change::Replace(Part::Status), value);
        debug_assert!(done.is_ok(), "{done:?}");
    }

    /// Deletes an object.
    pub fn remove(&self, by: &str, object: &ObjectRef) {
        let done = self.change(by, object, Change::Delete, Value::Null);
        debug_assert!(done.is_ok(), "{done:?}");
    }

    fn change(
        &self,
        by: &str,
        object: &ObjectRef,
        change: Change,
        value: Value,
    ) -> Result<Value, WriteError> {
        let mut objects = self.objects();
        let before = objects.all.get(object).cloned().unwrap_or_default();
        let asked = value["metadata"]["resourceVersion"].as_str();
        match (change, before.is_null()) {
            (Change::Create, false) => return Err(WriteError::Exists),
            (Change::Replace(_) | Change::Delete, true) => return Err(WriteError::Missing),
            _ => {}
        }
        if asked.is_some_and(|v| before["metadata"]["resourceVersion"] != v) {
            return Err(WriteError::Conflict);
        }
        let revision = objects.revision + 1;
        let mut after = match change {
            Change::Delete => Value::Null,
            Change::Replace(Part::Status | Part::Approval) => {
                let mut after = before.clone();
                after["status"] = value["status"].clone();
                after
            }
            Change::Create | Change::Replace(Part::Object) | Change::Apply => {
                let mut after = match change {
                    Change::Apply => laid_over(before.clone(), value),
                    _ => value,
                };
                if after["metadata"].is_null() {
                    after["metadata"] = json!({});
                }
                if change != Change::Create || after["status"].is_null() {
                    after["status"] = before["status"].clone();
                }
                let differs = after["spec"] != before["spec"];
                let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
                after["metadata"]["generation"] = (generation + i64::from(differs)).into();
                after["metadata"]["uid"] = match &before["metadata"]["uid"] {
                    Value::Null => format!("uid-{revision}").into(),
                    uid => uid.clone(),
                };
                after
            }
        };
        if !after.is_null() {
            // As an API does: what changes nothing is no new version.
            if after == before {
                return Ok(after);
            }
            after["metadata"]["name"] = Value::from(&*object.name);
            after["metadata"]["namespace"] = Value::from(&*object.namespace);
            after["metadata"]["resourceVersion"] = revision.to_string().into();
        }
        objects.revision = revision;
        match after.is_null() {
            true => _ = objects.all.remove(object),
            false => _ = objects.all.insert(object.clone(), after.clone()),
        }
        objects.written.push(Written {
            by: by.into(),
            at: Instant::now(),
            object: object.clone(),
            before,
            after: after.clone(),
        });
        Ok(after)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Create,
    Replace(Part),
    /// As if one manager had all fields: none goes that is not applied any more.
    Apply,
    Delete,
}

fn laid_over(before: Value, value: Value) -> Value {
    match (before, value) {
        (Value::Object(mut before), Value::Object(value)) => {
            for (key, value) in value {
                let now = before.remove(&key).unwrap_or_default();
                before.insert(key, laid_over(now, value));
            }
            Value::Object(before)
        }
        (_, value) => value,
    }
}

/// A way to a [`FakePlace`].
pub struct FakeClient {
    place: FakePlace,
    name: Arc<str>,
    seed: u64,
    faults: Mutex<Faults>,
    requests: Mutex<u64>,
}

impl FakeClient {
    /// What goes wrong from here on.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// How many requests there have been.
    pub fn requests(&self) -> u64 {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask<T>(
        &self,
        doing: impl FnOnce() -> Result<T, WriteError> + Send,
    ) -> Result<T, WriteError> {
        let number = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            *requests += 1;
            *requests
        };
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let draw = |what: u64, below: u64| {
            let hasher = BuildHasherDefault::<DefaultHasher>::default();
            hasher.hash_one((self.seed, number, what)) % below.max(1)
        };
        let most = u64::try_from(faults.delay.as_micros()).unwrap_or(u64::MAX);
        let delay = |what| tokio::time::sleep(Duration::from_micros(draw(what, most)));
        delay(0).await;
        if draw(1, 1000) < faults.lost {
            return Err(WriteError::Unavailable("lost".to_owned()));
        }
        let done = doing();
        delay(2).await;
        match draw(3, 1000) < faults.unanswered {
            true => Err(WriteError::Unavailable("unanswered".to_owned())),
            false => done,
        }
    }
}

impl Place for FakeClient {
    fn name(&self) -> &str {
        &self.name
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, WriteError>> {
        Box::pin(self.ask(|| Ok(self.place.objects().all.get(object).cloned())))
    }

    fn list<'a>(
        &'a self,
        object: &'a ObjectRef,
        _next: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page, WriteError>> {
        Box::pin(self.ask(|| {
            let objects = self.place.objects();
            let kind = |of: &ObjectRef| (of.group.clone(), of.kind.clone());
            let wanted = kind(object);
            let all = objects.all.iter().filter(|(of, _)| kind(of) == wanted);
            Ok(Page {
                items: all.map(|(_, value)| value.clone()).collect(),
                next: None,
            })
        }))
    }

    fn create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(self.ask(move || self.place.change(&self.name, object, Change::Create, value)))
    }

    fn replace<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        let change = Change::Replace(part);
        Box::pin(self.ask(move || self.place.change(&self.name, object, change, value)))
    }

    fn apply<'a>(
        &'a self,
        object: &'a ObjectRef,
        _part: Part,
        value: Value,
        _manager: &'a str,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(self.ask(move || self.place.change(&self.name, object, Change::Apply, value)))
    }

    fn delete<'a>(
        &'a self,
        object: &'a ObjectRef,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        let value = version.map_or(Value::Null, |v| json!({"metadata": {"resourceVersion": v}}));
        Box::pin(self.ask(move || {
            let done = self.place.change(&self.name, object, Change::Delete, value);
            done.map(|_| ())
        }))
    }
}
