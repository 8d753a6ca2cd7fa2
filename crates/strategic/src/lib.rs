//! Kubernetes' strategic merge patch: a merge patch that knows which lists are merged, and by which field.
//!
//! What is known of the fields comes from a [`Shape`]; where there is none, maps are merged and lists are replaced.
// Kubernetes: apimachinery/pkg/util/strategicpatch/patch.go StrategicMergeMapPatch, 1.36.

mod list;

use std::mem::discriminant;

use serde_json::{Map, Value};

use list::{merge_lists, ordered};

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// What patches need to know of a field.
pub trait Shape: Copy {
    /// That of a field of a map or struct.
    fn field(self, name: &str) -> Option<Self>;
    /// That of the items of a list.
    fn items(self) -> Option<Self>;
    /// How values of the field are patched.
    fn strategy(&self) -> Strategy<'_>;
}

/// How the values of a field are patched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strategy<'s> {
    /// Maps are merged, lists are replaced.
    #[default]
    Plain,
    /// Maps and lists are replaced.
    Replace,
    /// Lists are merged. They hold scalars.
    Merge,
    /// Lists are merged. They hold maps that a field tells apart.
    MergeBy(&'s str),
}

/// A patch that cannot be applied. Whoever wrote it can fix it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Changes `object` by `patch`.
///
/// # Errors
///
/// When the patch is no map, or a directive or list in it makes no sense. The object is then to be thrown away.
pub fn merge<S: Shape>(object: &mut Value, patch: &Value, shape: Option<S>) -> Result<(), Error> {
    let Value::Object(patch) = patch else {
        return Err(Error::new("expected a map in the patch"));
    };
    let now = match object.take() {
        Value::Object(now) => now,
        _ => Map::new(),
    };
    *object = Value::Object(merge_maps(now, patch, shape)?);
    Ok(())
}

fn merge_maps<S: Shape>(
    mut now: Map<String, Value>,
    patch: &Map<String, Value>,
    shape: Option<S>,
) -> Result<Map<String, Value>, Error> {
    match patch.get(DIRECTIVE).map(|d| d.as_str().unwrap_or_default()) {
        None => {}
        Some("replace") => {
            let mut whole = patch.clone();
            whole.remove(DIRECTIVE);
            return Ok(whole);
        }
        Some("delete") => return Ok(Map::new()),
        Some(other) => return Err(Error::new(format!("unknown patch type: {other}"))),
    }
    if let Some(retained) = patch.get(RETAIN) {
        retain(&mut now, patch, retained)?;
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (now.get_mut(list), value) {
                items.retain(|item| !gone.contains(item));
            }
        } else if key == RETAIN
            || key.starts_with(ORDER)
            || patch.contains_key(&format!("{ORDER}{key}"))
        {
            // Taken care of above and below.
        } else if value.is_null() {
            now.remove(key);
        } else {
            let shape = shape.and_then(|s| s.field(key));
            let merged = merge_values(now.remove(key), value, shape)?;
            now.extend(merged.map(|merged| (key.clone(), merged)));
        }
    }
    for (key, order) in patch {
        if let Some(list) = key.strip_prefix(ORDER) {
            let shape = shape.and_then(|s| s.field(list));
            let Value::Array(order) = order else {
                return Err(Error::new("invalid patch format of setElementOrder list"));
            };
            let merged = ordered(now.remove(list), patch.get(list), order, shape)?;
            now.extend(merged.map(|merged| (list.to_owned(), merged)));
        }
    }
    Ok(now)
}

/// Takes out the fields that `retained` does not name.
fn retain(
    now: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    retained: &Value,
) -> Result<(), Error> {
    let wrong = || Error::new("invalid patch format of retainKeys");
    let names = retained.as_array().ok_or_else(wrong)?;
    let named = |key: &str| names.iter().any(|name| name == key);
    let of_patch = patch.iter().filter(|(key, value)| {
        let directive = [RETAIN, DELETE_FROM, ORDER];
        !value.is_null() && !directive.iter().any(|d| key.starts_with(d))
    });
    for (key, _) in of_patch {
        if !named(key) {
            return Err(wrong());
        }
    }
    now.retain(|key, _| named(key));
    Ok(())
}

/// A value changed by a patch; `None` where the patch takes it out.
fn merge_values<S: Shape>(
    now: Option<Value>,
    patch: &Value,
    shape: Option<S>,
) -> Result<Option<Value>, Error> {
    let Some(now) = now.filter(|now| discriminant(now) == discriminant(patch)) else {
        return Ok(taken(patch));
    };
    let strategy = shape.as_ref().map(Shape::strategy).unwrap_or_default();
    Ok(match (now, patch) {
        (Value::Object(_), Value::Object(_)) if strategy == Strategy::Replace => {
            Some(patch.clone())
        }
        (Value::Object(now), Value::Object(patch)) => {
            Some(Value::Object(merge_maps(now, patch, shape)?))
        }
        (Value::Array(now), Value::Array(patch)) => {
            Some(Value::Array(merge_lists(now, patch, shape)?))
        }
        (_, patch) => Some(patch.clone()),
    })
}

/// A part of a patch as it is taken where there was nothing to change: without directives and `null`s in maps.
fn taken(patch: &Value) -> Option<Value> {
    Some(match patch {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return None,
        Value::Object(map) => {
            let fields = map.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.filter_map(|(key, value)| Some((key.clone(), taken(value)?)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.iter().filter_map(taken).collect()),
        scalar => scalar.clone(),
    })
}
