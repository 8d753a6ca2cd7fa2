//! Strategic merge patch: a merge patch that knows which lists are merged, and by which field.

use serde_json::{Map, Value};

use crate::schema;
use crate::status::Failure;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

/// How a list is merged.
enum Merging<'s> {
    Replace,
    Primitives,
    By(&'s str),
}

fn merging(schema: Option<&Value>) -> Merging<'_> {
    let Some(schema) = schema else {
        return Merging::Replace;
    };
    let strategy = schema["x-kubernetes-patch-strategy"]
        .as_str()
        .unwrap_or_default();
    match schema["x-kubernetes-patch-merge-key"].as_str() {
        _ if !strategy.split(',').any(|s| s == "merge") => Merging::Replace,
        Some(key) => Merging::By(key),
        None => Merging::Primitives,
    }
}

/// The schema of `metadata`, as far as patches need it.
fn field_schema<'s>(within: Option<&'s Value>, key: &str, top: bool) -> Option<&'s Value> {
    if top && key == "metadata" {
        return Some(&METADATA);
    }
    schema::field(within, key)
}

static METADATA: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| {
    serde_json::json!({"properties": {
        "finalizers": {"type": "array", "x-kubernetes-patch-strategy": "merge"},
        "ownerReferences": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "uid"},
    }})
});

/// Changes `object` by `patch`.
pub(super) fn merge(
    object: &mut Value,
    patch: &Value,
    schema: Option<&Value>,
) -> Result<(), Failure> {
    merge_map(object, patch, schema, true)
}

fn bad(message: String) -> Failure {
    Failure::bad_request(message)
}

fn merge_map(
    object: &mut Value,
    patch: &Value,
    schema: Option<&Value>,
    top: bool,
) -> Result<(), Failure> {
    let Some(patch) = patch.as_object() else {
        return Err(bad("expected a map in the patch".to_owned()));
    };
    match patch.get(DIRECTIVE).map(|d| d.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            let mut whole = patch.clone();
            whole.remove(DIRECTIVE);
            *object = Value::Object(whole);
            return Ok(());
        }
        Some("delete") => {
            *object = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(bad(format!("unknown patch type {other:?}"))),
    }
    let map = crate::object::map_mut(object);
    if let Some(retain) = patch.get(RETAIN) {
        let names: Vec<&str> = retain
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        map.retain(|key, _| names.contains(&key.as_str()));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (map.get_mut(list), value) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if key == DIRECTIVE || key == RETAIN || key.starts_with(ORDER) {
            continue;
        }
        let within = field_schema(schema, key, top);
        if value.is_null() {
            map.remove(key);
            continue;
        }
        let now = map.entry(key.clone()).or_insert(Value::Null);
        merge_value(now, value, within)?;
    }
    for (key, order) in patch {
        let Some(list) = key.strip_prefix(ORDER) else {
            continue;
        };
        let within = field_schema(schema, list, top);
        if let (Some(Value::Array(items)), Value::Array(order)) = (map.get_mut(list), order) {
            set_order(items, order, &merging(within));
        }
    }
    Ok(())
}

fn merge_value(now: &mut Value, patch: &Value, schema: Option<&Value>) -> Result<(), Failure> {
    match patch {
        Value::Object(_) => {
            let strategy = schema.and_then(|s| s["x-kubernetes-patch-strategy"].as_str());
            if strategy == Some("replace") || !now.is_object() {
                *now = Value::Object(Map::new());
            }
            merge_map(now, patch, schema, false)
        }
        Value::Array(items) => match merging(schema) {
            Merging::Replace => {
                *now = patch.clone();
                Ok(())
            }
            Merging::Primitives => {
                let list = list_mut(now);
                for item in items {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
                Ok(())
            }
            Merging::By(key) => merge_list(list_mut(now), items, key, schema::items(schema)),
        },
        other => {
            *now = other.clone();
            Ok(())
        }
    }
}

fn list_mut(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(items) => items,
        // It was made a list above.
        _ => unreachable!("a value that was made a list is one"),
    }
}

fn merge_list(
    list: &mut Vec<Value>,
    patch: &[Value],
    key: &str,
    schema: Option<&Value>,
) -> Result<(), Failure> {
    if patch.iter().any(|p| p[DIRECTIVE] == "replace") {
        let kept = patch.iter().filter(|p| p[DIRECTIVE] != "replace");
        *list = kept.cloned().collect();
        return Ok(());
    }
    for item in patch {
        let identity = item.get(key).ok_or_else(|| {
            bad(format!(
                "map: {item} does not contain declared merge key: {key}"
            ))
        })?;
        if item[DIRECTIVE] == "delete" {
            list.retain(|known| known.get(key) != Some(identity));
            continue;
        }
        match list
            .iter_mut()
            .find(|known| known.get(key) == Some(identity))
        {
            Some(known) => merge_map(known, item, schema, false)?,
            None => {
                let mut fresh = Value::Object(Map::new());
                merge_map(&mut fresh, item, schema, false)?;
                list.push(fresh);
            }
        }
    }
    Ok(())
}

/// Puts items in the order of `order`; those it does not name stay behind the item they stood behind.
fn set_order(items: &mut Vec<Value>, order: &[Value], merging: &Merging<'_>) {
    let identity = |item: &Value| match merging {
        Merging::By(key) => item.get(*key).cloned().unwrap_or(Value::Null),
        _ => item.clone(),
    };
    let place = |item: &Value| {
        let wanted = identity(item);
        order.iter().position(|o| identity(o) == wanted)
    };
    let mut groups: Vec<(usize, Vec<Value>)> = Vec::new();
    let mut first = Vec::new();
    for item in std::mem::take(items) {
        match (place(&item), groups.last_mut()) {
            (Some(at), _) => groups.push((at, vec![item])),
            (None, Some((_, group))) => group.push(item),
            (None, None) => first.push(item),
        }
    }
    groups.sort_by_key(|(at, _)| *at);
    items.extend(first);
    items.extend(groups.into_iter().flat_map(|(_, group)| group));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> Value {
        json!({"kind": "Service", "metadata": {"finalizers": ["a"]}, "spec": {"selector": {"app": "a"},
            "ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}})
    }

    fn patched(patch: Value) -> Value {
        let schema = schema::builtin("Service").unwrap();
        let mut object = service();
        merge(&mut object, &patch, Some(&schema)).unwrap();
        object
    }

    #[test]
    fn ports_are_merged_by_their_number() {
        let after =
            patched(json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 90}]}}));
        assert_eq!(
            after["spec"]["ports"],
            json!([{"port": 80, "name": "http", "targetPort": 8080}, {"port": 443, "name": "https"}, {"port": 90}])
        );
    }

    #[test]
    fn directives_delete_replace_and_order() {
        let after = patched(json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}));
        assert_eq!(
            after["spec"]["ports"],
            json!([{"port": 443, "name": "https"}])
        );
        let after = patched(json!({"spec": {"ports": [{"$patch": "replace"}, {"port": 1}]}}));
        assert_eq!(after["spec"]["ports"], json!([{"port": 1}]));
        let after =
            patched(json!({"spec": {"$setElementOrder/ports": [{"port": 443}, {"port": 80}]}}));
        assert_eq!(
            after["spec"]["ports"],
            json!([{"port": 443, "name": "https"}, {"port": 80, "name": "http"}])
        );
        let after = patched(
            json!({"spec": {"$retainKeys": ["selector"], "selector": {"$patch": "replace", "x": "y"}}}),
        );
        assert_eq!(after["spec"], json!({"selector": {"x": "y"}}));
    }

    #[test]
    fn finalizers_are_merged_and_taken_out_by_value() {
        let after = patched(json!({"metadata": {"finalizers": ["b"]}}));
        assert_eq!(after["metadata"]["finalizers"], json!(["a", "b"]));
        let after = patched(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}));
        assert_eq!(after["metadata"]["finalizers"], json!([]));
    }

    #[test]
    fn an_item_without_its_key_is_refused() {
        let mut object = service();
        let schema = schema::builtin("Service").unwrap();
        assert!(
            merge(
                &mut object,
                &json!({"spec": {"ports": [{"name": "x"}]}}),
                Some(&schema)
            )
            .is_err()
        );
    }
}
