//! Schemas as OpenAPI has them, and reading, pruning, defaulting and checking by them.
//!
//! A schema is the JSON that CustomResourceDefinitions carry, with the `x-kubernetes-` extensions; those of the kinds
//! that are built in are made in the same form. Where there is no schema everything is allowed.

mod builtin;
mod check;
mod proto;
pub mod structural;

use serde_json::{Map, Value};

pub use builtin::builtin;
pub use check::check;

/// What lists and maps are to patches and to server-side apply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListType {
    /// Replaced whole.
    Atomic,
    /// Of distinct scalars.
    Set,
    /// Of maps that these fields tell apart.
    Map(Vec<String>),
}

/// The schema of a field of a map or struct.
pub fn field<'s>(schema: Option<&'s Value>, key: &str) -> Option<&'s Value> {
    let schema = schema?;
    schema["properties"]
        .get(key)
        .or_else(|| schema.get("additionalProperties").filter(|s| s.is_object()))
}

/// Whether `key` is a field that the schema names.
pub fn names_field(schema: Option<&Value>, key: &str) -> bool {
    schema.is_some_and(|s| s["properties"].get(key).is_some())
}

/// The schema of the items of a list.
pub fn items(schema: Option<&Value>) -> Option<&Value> {
    schema?.get("items")
}

/// What the list is to patches and to server-side apply.
pub fn list_type(schema: Option<&Value>) -> ListType {
    let Some(schema) = schema else {
        return ListType::Atomic;
    };
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            ListType::Map(keys.map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}

/// Whether a map is replaced whole.
pub fn is_atomic_map(schema: Option<&Value>) -> bool {
    schema.is_some_and(|s| s["x-kubernetes-map-type"].as_str() == Some("atomic"))
}

/// Whether fields that the schema does not name are kept.
fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true || schema.get("type").is_none()
}

/// Takes out what the schema does not name and returns where it stood.
pub fn prune(object: &mut Value, schema: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    let Some(schema) = schema else {
        return found;
    };
    let Value::Object(map) = object else {
        return found;
    };
    let properties = schema["properties"].as_object();
    map.retain(|key, value| match key.as_str() {
        // The API's own, which it checks by itself.
        "apiVersion" | "kind" | "metadata" => true,
        _ => {
            let within = properties.and_then(|p| p.get(key));
            if within.is_none() && !keeps_unknown(schema) {
                found.push(key.clone());
                return false;
            }
            prune_value(value, within, key, &mut found);
            true
        }
    });
    found
}

fn prune_value(value: &mut Value, schema: Option<&Value>, path: &str, found: &mut Vec<String>) {
    let Some(schema) = schema else {
        return;
    };
    match value {
        Value::Array(items) => {
            let of = schema.get("items");
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(item, of, &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(map) => {
            if schema["x-kubernetes-embedded-resource"] == true {
                return;
            }
            let properties = schema["properties"].as_object();
            let additional = schema.get("additionalProperties");
            let open = keeps_unknown(schema);
            map.retain(|key, value| {
                let at = format!("{path}.{key}");
                let within = properties.and_then(|p| p.get(key));
                match within.or(additional.filter(|a| a.is_object())) {
                    Some(within) => prune_value(value, Some(within), &at, found),
                    None if open || additional == Some(&Value::Bool(true)) => {}
                    None => {
                        found.push(at);
                        return false;
                    }
                }
                true
            });
        }
        _ => {}
    }
}

/// Sets the defaults of the schema where nothing stands.
pub fn default(value: &mut Value, schema: Option<&Value>) {
    let Some(schema) = schema else {
        return;
    };
    match value {
        Value::Array(items) => {
            let of = schema.get("items");
            for item in items {
                default(item, of);
            }
        }
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            for (key, within) in properties.into_iter().flatten() {
                default_field(map, key, within);
            }
            if let Some(additional) = schema.get("additionalProperties").filter(|a| a.is_object()) {
                for (key, value) in map.iter_mut() {
                    if properties.is_none_or(|p| !p.contains_key(key)) {
                        default(value, Some(additional));
                    }
                }
            }
        }
        _ => {}
    }
}

fn default_field(map: &mut Map<String, Value>, key: &str, schema: &Value) {
    if let Some(wanted) = schema.get("default") {
        match map.get(key) {
            None => {
                map.insert(key.to_owned(), wanted.clone());
            }
            Some(Value::Null) if schema["nullable"] != true => {
                map.insert(key.to_owned(), wanted.clone());
            }
            Some(_) => {}
        }
    } else if map.get(key).is_some_and(Value::is_null) && schema["nullable"] != true {
        // Absent and null are one where null has no meaning.
        map.remove(key);
    }
    if let Some(value) = map.get_mut(key) {
        default(value, Some(schema));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "hosts": {"type": "array", "items": {"type": "string"}},
            "http": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}})
    }

    #[test]
    fn what_the_schema_does_not_name_is_found_and_taken_out() {
        let mut object = json!({"kind": "A", "extra": 1, "spec": {"hosts": ["a"], "hots": 1,
            "http": [{"name": "n", "bad": {}}], "labels": {"x": "y"}, "any": {"z": {"q": 1}}}});
        let found = prune(&mut object, Some(&schema()));
        assert_eq!(found, ["extra", "spec.hots", "spec.http[0].bad"]);
        assert_eq!(
            object,
            json!({"kind": "A", "spec": {"hosts": ["a"], "http": [{"name": "n"}],
            "labels": {"x": "y"}, "any": {"z": {"q": 1}}}})
        );
    }

    #[test]
    fn defaults_stand_where_nothing_stood() {
        let mut object =
            json!({"spec": {"http": [{}, {"name": "n"}, {"name": null}], "hosts": null}});
        default(&mut object, Some(&schema()));
        let names = [
            &object["spec"]["http"][0]["name"],
            &object["spec"]["http"][1]["name"],
            &object["spec"]["http"][2]["name"],
        ];
        assert_eq!(names, ["x", "n", "x"]);
        assert!(object["spec"].get("hosts").is_none());
    }
}
