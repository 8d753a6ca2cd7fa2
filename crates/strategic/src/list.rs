//! Lists: merged, and put into order.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::{DIRECTIVE, Error, Shape, Strategy, merge_maps};

/// Changes a list by the list of a patch.
pub(crate) fn merge_lists<S: Shape>(
    now: Vec<Value>,
    patch: &[Value],
    shape: Option<S>,
) -> Result<Vec<Value>, Error> {
    let strategy = shape.as_ref().map(Shape::strategy).unwrap_or_default();
    match strategy {
        Strategy::Plain | Strategy::Replace => Ok(patch.to_vec()),
        _ if now.is_empty() && patch.is_empty() => Ok(now),
        Strategy::Merge => Ok(arranged(union(now.clone(), patch), patch, &now, None)),
        Strategy::MergeBy(key) => merge_by(now, patch, key, shape.and_then(Shape::items)),
    }
}

/// The items of both lists, each once.
fn union(now: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let mut seen = HashSet::new();
    let all = now.into_iter().chain(patch.iter().cloned());
    all.filter(|item| seen.insert(item.to_string())).collect()
}

fn merge_by<S: Shape>(
    mut now: Vec<Value>,
    patch: &[Value],
    key: &str,
    item: Option<S>,
) -> Result<Vec<Value>, Error> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replaced = false;
    for entry in patch {
        match entry.get(DIRECTIVE) {
            None => plain.push(entry.clone()),
            Some(directive) => match directive.as_str().unwrap_or_default() {
                "delete" => {
                    let gone = identity(entry, key)?;
                    now.retain(|known| known.get(key) != Some(gone));
                }
                "replace" => replaced = true,
                "merge" => {
                    let message = "merging lists cannot yet be specified in the patch";
                    return Err(Error::new(message));
                }
                other => return Err(Error::new(format!("unknown patch type: {other}"))),
            },
        }
    }
    if replaced {
        return Ok(plain);
    }
    let before = now.clone();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, known) in now.iter().enumerate() {
        places
            .entry(identity(known, key)?.to_string())
            .or_insert(at);
    }
    for entry in &plain {
        let Value::Object(fields) = entry else {
            return Err(Error::new("expected a map in a list of the patch"));
        };
        match places.get(&identity(entry, key)?.to_string()) {
            Some(at) => {
                if let Value::Object(known) = now[*at].take() {
                    now[*at] = Value::Object(merge_maps(known, fields, item)?);
                }
            }
            None => {
                places.insert(identity(entry, key)?.to_string(), now.len());
                now.push(entry.clone());
            }
        }
    }
    Ok(arranged(now, &plain, &before, Some(key)))
}

/// What tells an item apart from the others.
fn identity<'v>(item: &'v Value, key: &str) -> Result<&'v Value, Error> {
    item.get(key).ok_or_else(|| {
        Error::new(format!(
            "map: {item} does not contain declared merge key: {key}"
        ))
    })
}

/// The list that a patch orders, after its own items were merged in.
pub(crate) fn ordered<S: Shape>(
    now: Option<Value>,
    patch: Option<&Value>,
    order: &[Value],
    shape: Option<S>,
) -> Result<Option<Value>, Error> {
    let list = |value: &Value| match value {
        Value::Array(items) => Ok(items.clone()),
        _ => Err(Error::new("an order is set of what is no list")),
    };
    let before = now.as_ref().map(list).transpose()?;
    let patch = patch.filter(|p| !p.is_null()).map(list).transpose()?;
    let merged = match (before.clone(), patch) {
        (None, None) => return Ok(None),
        (Some(before), None) => before,
        (None, Some(patch)) => {
            let kept = patch.iter().filter(|item| item.get(DIRECTIVE).is_none());
            kept.cloned().collect()
        }
        (Some(before), Some(patch)) => merge_lists(before, &patch, shape)?,
    };
    let key = match shape.as_ref().map(Shape::strategy) {
        Some(Strategy::MergeBy(key)) => Some(key),
        _ => None,
    };
    let before = before.unwrap_or_default();
    Ok(Some(Value::Array(arranged(merged, order, &before, key))))
}

/// Items in order: those of the patch as `first` has them, the others as they stood `before`, and each of the others
/// in front of the first item of the patch that it stood before.
// Kubernetes: normalizeElementOrder, mergeSortedSlice.
fn arranged(items: Vec<Value>, first: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let of = |item: &Value| match key {
        Some(key) => item.get(key).unwrap_or(&Value::Null).to_string(),
        None => item.to_string(),
    };
    let places = |list: &[Value]| {
        let mut places: HashMap<String, usize> = HashMap::with_capacity(list.len());
        for (at, item) in list.iter().enumerate() {
            places.entry(of(item)).or_insert(at);
        }
        places
    };
    let (wanted, stood) = (places(first), places(before));
    let mut patched = Vec::new();
    let mut others = Vec::new();
    for item in items {
        let name = of(&item);
        let stood = stood.get(&name).copied();
        match wanted.get(&name) {
            Some(at) => patched.push((*at, stood, item)),
            None => others.push((stood.unwrap_or(usize::MAX), stood, item)),
        }
    }
    patched.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(at, ..)| *at);
    let mut out = Vec::with_capacity(patched.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, right, item) in patched {
        let before = |left: &Option<usize>| matches!((left, right), (Some(left), Some(right)) if *left < right);
        while let Some((_, _, other)) = others.next_if(|(_, left, _)| before(left)) {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, _, item)| item));
    out
}
