//! Comparing, merging and taking apart objects, field by field as their schema says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::fields::{Path, Set, Step, key_text};
use crate::schema::{self, ListType};

/// What differs between two objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// In the first only.
    pub removed: Set,
    /// In both, with other values.
    pub modified: Set,
    /// In the second only.
    pub added: Set,
}

static METADATA: LazyLock<Value> = LazyLock::new(|| {
    json!({"type": "object", "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "items": {"type": "object", "x-kubernetes-map-type": "atomic"}},
        "generateName": {"type": "string"}, "deletionTimestamp": {"type": "string"}, "deletionGracePeriodSeconds": {"type": "integer"},
    }})
});

/// The schema of a field; that of `metadata` is the same for every kind.
fn within<'s>(schema: Option<&'s Value>, key: &str, path: &[Step]) -> Option<&'s Value> {
    if path.is_empty() && key == "metadata" {
        return Some(&METADATA);
    }
    schema::field(schema, key)
}

/// Whether the schema tells `key` as a field of its own, as opposed to an entry of a map.
fn is_field(schema: Option<&Value>, key: &str, path: &[Step]) -> bool {
    (path.is_empty() && matches!(key, "metadata" | "apiVersion" | "kind"))
        || schema::names_field(schema, key)
}

/// The list as items by identity, in order; `None` where it is replaced whole.
fn items<'v>(list: &'v [Value], schema: Option<&Value>) -> Option<Vec<(Step, &'v Value)>> {
    let of = schema::items(schema);
    let identity = |item: &Value| match schema::list_type(schema) {
        ListType::Atomic => None,
        ListType::Set => Some(Step::Value(item.to_string())),
        ListType::Map(keys) => {
            let mut key = BTreeMap::new();
            for name in keys {
                let default = || of.and_then(|s| s["properties"][&name].get("default"));
                if let Some(value) = item.get(&name).or_else(default) {
                    key.insert(name, value.clone());
                }
            }
            Some(Step::Key(key_text(&key)))
        }
    };
    if schema::list_type(schema) == ListType::Atomic {
        return None;
    }
    list.iter()
        .map(|item| Some((identity(item)?, item)))
        .collect()
}

/// The fields that a configuration sets.
pub fn field_set(value: &Value, schema: Option<&Value>) -> Set {
    let mut set = Set::default();
    collect(value, schema, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, schema: Option<&Value>, path: &mut Path, set: &mut Set) {
    match value {
        Value::Object(map) if !schema::is_atomic_map(schema) => {
            for (key, value) in map {
                let field = is_field(schema, key, path);
                let of = within(schema, key, path);
                path.push(Step::Field(key.clone()));
                collect(value, of, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !field {
                    set.0.insert(path.clone());
                }
                path.pop();
            }
        }
        Value::Array(list) => match items(list, schema) {
            None => {
                set.0.insert(path.clone());
            }
            Some(items) => {
                let of = schema::items(schema);
                for (step, item) in items {
                    path.push(step);
                    collect(item, of, path, set);
                    set.0.insert(path.clone());
                    path.pop();
                }
            }
        },
        _ => {
            set.0.insert(path.clone());
        }
    }
}

/// Where a configuration has two items of the same identity in a list: which of them is meant cannot be told.
pub fn doubled(config: &Value, schema: Option<&Value>) -> Option<Path> {
    doubled_at(config, schema, &mut Vec::new())
}

fn doubled_at(value: &Value, schema: Option<&Value>, path: &mut Path) -> Option<Path> {
    match value {
        Value::Object(map) if !schema::is_atomic_map(schema) => {
            map.iter().find_map(|(key, value)| {
                let of = within(schema, key, path);
                path.push(Step::Field(key.clone()));
                let found = doubled_at(value, of, path);
                path.pop();
                found
            })
        }
        Value::Array(list) => {
            let of = schema::items(schema);
            let mut seen = BTreeSet::new();
            items(list, schema)?.into_iter().find_map(|(step, item)| {
                let first = seen.insert(step.clone());
                path.push(step);
                let found = match first {
                    true => doubled_at(item, of, path),
                    false => Some(path.clone()),
                };
                path.pop();
                found
            })
        }
        _ => None,
    }
}

/// What differs between two objects.
pub fn compare(old: &Value, new: &Value, schema: Option<&Value>) -> Compared {
    let mut compared = Compared::default();
    walk(Some(old), Some(new), schema, &mut Vec::new(), &mut compared);
    compared
}

fn walk(
    old: Option<&Value>,
    new: Option<&Value>,
    schema: Option<&Value>,
    path: &mut Path,
    out: &mut Compared,
) {
    if old == new {
        return;
    }
    let is_empty = |v: Option<&Value>| match v {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => false,
    };
    let shape = |v: Option<&Value>| match v {
        Some(Value::Object(_)) => 1,
        Some(Value::Array(_)) => 2,
        Some(Value::Null) | None => 0,
        Some(_) => 3,
    };
    let (a, b) = (shape(old), shape(new));
    let same_shape = a == b || a == 0 || b == 0;
    let kind = a.max(b);
    let leaf = |out: &mut Compared, path: &Path| {
        let set = match (old, new) {
            (None, _) => &mut out.added,
            (_, None) => &mut out.removed,
            _ => &mut out.modified,
        };
        set.0.insert(path.clone());
    };
    if !same_shape || kind == 3 || kind == 0 || (is_empty(old) && is_empty(new)) {
        return leaf(out, path);
    }
    if kind == 1 {
        if schema::is_atomic_map(schema) {
            return leaf(out, path);
        }
        let (old, new) = (
            old.and_then(Value::as_object),
            new.and_then(Value::as_object),
        );
        walk_map(old, new, schema, path, out);
    } else {
        let list = |v: Option<&Value>| v.and_then(Value::as_array).cloned().unwrap_or_default();
        let (old, new) = (list(old), list(new));
        let (Some(old), Some(new)) = (items(&old, schema), items(&new, schema)) else {
            return leaf(out, path);
        };
        walk_list(&old, &new, schema::items(schema), path, out);
    }
    // A container that came or went is a member besides what is in it.
    match (old, new) {
        (None, _) => out.added.0.insert(path.clone()),
        (_, None) => out.removed.0.insert(path.clone()),
        _ => false,
    };
}

/// Compares the entries of two maps.
fn walk_map(
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    schema: Option<&Value>,
    path: &mut Path,
    out: &mut Compared,
) {
    let keys: BTreeSet<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
    for key in keys {
        let of = within(schema, key, path);
        path.push(Step::Field(key.clone()));
        walk(
            old.and_then(|m| m.get(key)),
            new.and_then(|m| m.get(key)),
            of,
            path,
            out,
        );
        path.pop();
    }
}

/// Compares the items of two lists by their identity; `of` is the schema of an item.
fn walk_list(
    old: &[(Step, &Value)],
    new: &[(Step, &Value)],
    of: Option<&Value>,
    path: &mut Path,
    out: &mut Compared,
) {
    let find = |list: &[(Step, &Value)], step: &Step| {
        list.iter()
            .find(|(s, _)| s == step)
            .map(|(_, v)| (*v).clone())
    };
    let steps: BTreeSet<&Step> = old.iter().chain(new).map(|(s, _)| s).collect();
    for step in steps {
        path.push(step.clone());
        walk(
            find(old, step).as_ref(),
            find(new, step).as_ref(),
            of,
            path,
            out,
        );
        path.pop();
    }
}

/// Lays a configuration over an object.
pub fn merge(object: &mut Value, config: &Value, schema: Option<&Value>) {
    merge_at(object, config, schema, &mut Vec::new());
}

fn merge_at(object: &mut Value, config: &Value, schema: Option<&Value>, path: &mut Path) {
    match (&mut *object, config) {
        (Value::Object(map), Value::Object(over)) if !schema::is_atomic_map(schema) => {
            for (key, value) in over {
                let of = within(schema, key, path);
                if path.len() == 1 && key == "managedFields" {
                    continue;
                }
                path.push(Step::Field(key.clone()));
                match map.get_mut(key) {
                    Some(known) => merge_at(known, value, of, path),
                    None => {
                        map.insert(key.clone(), value.clone());
                    }
                }
                path.pop();
            }
        }
        (Value::Array(list), Value::Array(over)) => {
            let Some(new) = items(over, schema) else {
                *object = config.clone();
                return;
            };
            let known = list.clone();
            let Some(known) = items(&known, schema) else {
                return;
            };
            let of = schema::items(schema);
            let mut merged: Vec<(Step, Value)> =
                known.into_iter().map(|(s, v)| (s, v.clone())).collect();
            let covers = merged
                .iter()
                .all(|(step, _)| new.iter().any(|(s, _)| s == step));
            for (step, value) in &new {
                path.push(step.clone());
                match merged.iter_mut().find(|(s, _)| s == step) {
                    Some((_, known)) => merge_at(known, value, of, path),
                    None => merged.push((step.clone(), (*value).clone())),
                }
                path.pop();
            }
            if covers {
                // The configuration names every item, so its order counts.
                merged.sort_by_key(|(step, _)| new.iter().position(|(s, _)| s == step));
            }
            *list = merged.into_iter().map(|(_, v)| v).collect();
        }
        _ => *object = config.clone(),
    }
}

/// Takes fields out of an object.
pub fn remove(object: &mut Value, schema: Option<&Value>, fields: &Set) {
    if !fields.is_empty() {
        remove_at(object, schema, fields, &mut Vec::new());
    }
}

fn remove_at(value: &mut Value, schema: Option<&Value>, fields: &Set, path: &mut Path) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let of = within(schema, key, path);
            path.push(Step::Field(key.clone()));
            let keep = keep(value, of, fields, path);
            path.pop();
            keep
        }),
        Value::Array(list) => {
            let copy = list.clone();
            let Some(steps) = items(&copy, schema) else {
                return;
            };
            let of = schema::items(schema);
            let mut steps = steps.into_iter().map(|(step, _)| step);
            list.retain_mut(|item| {
                let Some(step) = steps.next() else {
                    return true;
                };
                path.push(step);
                let keep = keep(item, of, fields, path);
                path.pop();
                keep
            });
        }
        _ => {}
    }
}

fn keep(value: &mut Value, schema: Option<&Value>, fields: &Set, path: &mut Path) -> bool {
    if fields.0.contains(path) {
        return false;
    }
    if fields.has_at_or_below(path) {
        remove_at(value, schema, fields, path);
        // A container that only what was taken out kept alive goes with it.
        return !matches!(value, Value::Object(map) if map.is_empty())
            && !matches!(value, Value::Array(list) if list.is_empty());
    }
    true
}
