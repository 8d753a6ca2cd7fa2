//! What the statuses of objects are to hold, and how that is put into what they hold.
//!
//! Whoever derives statuses owns some of their fields, and says what those are to hold. Everything else in a status belongs
//! to others and is written back as it was read. A field may be a list that others write as well: see [`Merge`].

mod merge;
mod writer;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use model::ObjectKey;
use rpds::RedBlackTreeMapSync;
use serde_json::{Value, json};

pub use merge::Merge;
pub use writer::{Event, Listener, Options, StatusWriter};

/// Statuses by object; clones share them, and one that differs in a few shares the rest.
pub type Statuses = RedBlackTreeMapSync<ObjectKey, Arc<Wanted>>;

/// The field with the generation that a status was derived from.
const OBSERVED: &str = "observedGeneration";

/// What the status of an object is to hold.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// The identity of the object that it was derived from; empty where that is not known.
    pub uid: Arc<str>,
    /// The generation of the object that it was derived from; 0 where that is not known. It is written over no other.
    pub generation: i64,
    /// Whether the status says what generation it was derived from.
    pub observed: bool,
    /// The fields that are ours.
    pub fields: Vec<Field>,
}

/// A field of a status.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it is to hold; null where it is not to be there.
    pub value: Value,
    /// What it must hold for it to be written: what the value was derived from. `None` where it was derived from other things.
    pub over: Option<Value>,
    /// How the value goes into what is there.
    pub merge: Merge,
}

impl Field {
    /// What of the field is ours, as it is held.
    fn part_of(&self, held: &Value, namespace: &str) -> Value {
        self.merge.part(held, &self.value, namespace)
    }

    /// What of the field is ours, as it is wanted.
    fn part(&self, namespace: &str) -> Value {
        self.part_of(&self.value, namespace)
    }
}

/// What is to be done with an object.
#[derive(Clone, PartialEq, Debug)]
enum Step {
    /// Nothing: it holds what is wanted.
    Keep,
    /// Nothing yet: it is newer than what the status was derived from.
    Wait,
    /// It is to be replaced by this.
    Write(Value),
}

impl Wanted {
    /// What is to be done with an object as it was read, at a time (RFC 3339).
    fn step(&self, object: &Value, now: &str) -> Step {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        if !self.uid.is_empty() && metadata["uid"] != *self.uid {
            return Step::Wait;
        }
        if self.generation != 0 && metadata["generation"] != self.generation {
            return Step::Wait;
        }
        let held = &object["status"];
        let mut differs = false;
        for field in &self.fields {
            let there = &held[field.name];
            if means_the_same(&field.part_of(there, namespace), &field.part(namespace)) {
                continue;
            }
            differs = true;
            if field
                .over
                .as_ref()
                .is_some_and(|over| !means_the_same(over, there))
            {
                return Step::Wait;
            }
        }
        if !differs
            && self
                .says()
                .is_none_or(|generation| observed(held) == Some(generation))
        {
            return Step::Keep;
        }
        let merged = self.fields.iter().map(|field| {
            let there = &held[field.name];
            let value = field.merge.merged(there, &field.value, namespace, now);
            (field.name, value)
        });
        let merged: Vec<(&str, Value)> = merged.collect();
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        if !object["status"].is_object() {
            object["status"] = json!({});
        }
        if let Some(status) = object["status"].as_object_mut() {
            for (name, value) in merged {
                match value.is_null() {
                    true => _ = status.remove(name),
                    false => _ = status.insert(name.to_owned(), value),
                }
            }
            if self.observed && self.generation != 0 {
                // As the JSON of protobuf has numbers of 64 bits.
                status.insert(OBSERVED.to_owned(), self.generation.to_string().into());
            }
        }
        Step::Write(object)
    }

    /// The generation that the status has to name. One without a word of ours need not name any.
    fn says(&self) -> Option<i64> {
        let any = self.fields.iter().any(|f| !is_empty(&f.value));
        (any && self.observed && self.generation != 0).then_some(self.generation)
    }
}

fn observed(status: &Value) -> Option<i64> {
    match &status[OBSERVED] {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

/// Whether two values tell the same: what is empty may as well be absent.
fn means_the_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let within = |a: &serde_json::Map<String, Value>,
                          b: &serde_json::Map<String, Value>| {
                let none = Value::Null;
                a.iter()
                    .all(|(k, v)| means_the_same(v, b.get(k).unwrap_or(&none)))
            };
            within(a, b) && within(b, a)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| means_the_same(a, b))
        }
        _ => one == other || (is_empty(one) && is_empty(other)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// What of an object's status is remembered: enough to know whether it holds what is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    uid: Arc<str>,
    observed: Option<i64>,
    fields: Vec<(&'static str, u64)>,
}

impl Known {
    /// What a status is known to hold of the fields of `wanted`.
    fn of(object: &Value, wanted: &Wanted) -> Self {
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let fields = wanted.fields.iter().map(|field| {
            let part = field.part_of(&status[field.name], namespace);
            (field.name, digest(&part))
        });
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            observed: observed(status),
            fields: fields.collect(),
        }
    }

    /// Whether the status of an object in `namespace` holds what is wanted, as far as is known.
    fn holds(&self, wanted: &Wanted, namespace: &str) -> bool {
        let holds = |field: &Field| {
            let known = self.fields.iter().find(|(name, _)| *name == field.name);
            known.is_some_and(|(_, known)| *known == digest(&field.part(namespace)))
        };
        let says = wanted.says();
        (wanted.uid.is_empty() || wanted.uid == self.uid)
            && wanted.fields.iter().all(holds)
            && (says.is_none() || says == self.observed)
    }
}

/// A number that is the same for values that mean the same.
fn digest(value: &Value) -> u64 {
    fn add(value: &Value, to: &mut DefaultHasher) {
        match value {
            _ if is_empty(value) => 0u8.hash(to),
            Value::Object(map) => {
                let mut all: Vec<_> = map.iter().filter(|(_, v)| !is_empty(v)).collect();
                all.sort_unstable_by_key(|(k, _)| *k);
                (1u8, all.len()).hash(to);
                for (key, value) in all {
                    key.hash(to);
                    add(value, to);
                }
            }
            Value::Array(list) => {
                (2u8, list.len()).hash(to);
                list.iter().for_each(|v| add(v, to));
            }
            plain => (3u8, plain.to_string()).hash(to),
        }
    }
    let mut hasher = DefaultHasher::new();
    add(value, &mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
