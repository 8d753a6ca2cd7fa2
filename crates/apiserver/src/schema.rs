//! Schemas as OpenAPI has them, and reading, pruning, defaulting and checking by them.
//!
//! A schema is the JSON that CustomResourceDefinitions carry, with the `x-kubernetes-` extensions; those of the kinds
//! that are built in are made in the same form. Where there is no schema everything is allowed.

mod builtin;
mod check;
mod metadata;
mod proto;
pub mod structural;

use model::parse::{Path, Place, Step};
use serde_json::{Map, Value};

pub use builtin::builtin;
pub use check::{Patterns, check};
pub(crate) use metadata::OBJECT_META;

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

/// The most unknown fields of one object that are reported.
const MOST_UNKNOWN: usize = 1000;
/// What their paths may take, in bytes; beyond it no more are reported. A key may be as long as the object, and stands in the path
/// of every field below it.
const MOST_UNKNOWN_BYTES: usize = 1 << 16;

/// Where fields stood that the schema does not name, as far as they are reported: the first always is.
#[derive(Default)]
struct Unknown {
    paths: Vec<String>,
    bytes: usize,
}

impl Unknown {
    fn add(&mut self, place: Place<'_>) {
        if self.paths.len() < MOST_UNKNOWN && self.bytes < MOST_UNKNOWN_BYTES {
            let path = dotted(&place.path());
            self.bytes += path.len();
            self.paths.push(path);
        }
    }
}

/// A path as Kubernetes writes it: `spec.http[0].route`, without quotes around any key.
pub(crate) fn dotted(path: &Path) -> String {
    let mut text = String::new();
    for step in &path.0 {
        match step {
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Field(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
        }
    }
    text
}

/// Takes out what the schema does not name and returns where it stood. Of very many fields not all are named.
///
/// The schema of `metadata` is the same for every kind, whatever that of the object says.
pub fn prune(object: &mut Value, schema: Option<&Value>) -> Vec<String> {
    let mut found = Unknown::default();
    let Value::Object(map) = object else {
        return found.paths;
    };
    let properties = schema.and_then(|s| s["properties"].as_object());
    let open = schema.is_none_or(keeps_unknown);
    map.retain(|key, value| {
        let at = Place::Field(&Place::Top, key);
        let within = match key.as_str() {
            // The API's own, which it checks by itself.
            "apiVersion" | "kind" => return true,
            "metadata" => Some(&*OBJECT_META),
            _ => properties.and_then(|p| p.get(key)),
        };
        if within.is_none() && !open {
            found.add(at);
            return false;
        }
        prune_value(value, within, at, &mut found);
        true
    });
    found.paths
}

fn prune_value(value: &mut Value, schema: Option<&Value>, at: Place<'_>, found: &mut Unknown) {
    let Some(schema) = schema else {
        return;
    };
    match value {
        Value::Array(items) => {
            let of = schema.get("items");
            for (index, item) in items.iter_mut().enumerate() {
                prune_value(item, of, Place::Item(&at, index), found);
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
                let at = Place::Field(&at, key);
                let within = properties.and_then(|p| p.get(key));
                match within.or(additional.filter(|a| a.is_object())) {
                    Some(within) => prune_value(value, Some(within), at, found),
                    None if open || additional == Some(&Value::Bool(true)) => {}
                    None => {
                        found.add(at);
                        return false;
                    }
                }
                true
            });
        }
        _ => {}
    }
}

/// Makes of a `null` within a map or a list what Go's types hold there: the zero value of what the schema says.
///
/// Kubernetes' own kinds are read into such types, so that `data: {key: null}` is an empty text. Of a Secret's bytes the
/// decoder makes `nil`, and etcd's encoding knows no difference between that and none: `""` is what is read back.
// Go: encoding/json Decoder, `null` into maps and slices; Kubernetes: core/v1 generated.pb.go Secret.Unmarshal, 1.36.
pub fn zero_nulls(value: &mut Value, schema: Option<&Value>) {
    let Some(schema) = schema else {
        return;
    };
    match value {
        Value::Array(list) => {
            let of = schema.get("items");
            for item in list {
                zero_or_within(item, of);
            }
        }
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            let additional = schema.get("additionalProperties").filter(|a| a.is_object());
            for (key, value) in map {
                match properties.and_then(|p| p.get(key)) {
                    // A field that is `null` is absent.
                    Some(within) => zero_nulls(value, Some(within)),
                    None => zero_or_within(value, additional),
                }
            }
        }
        _ => {}
    }
}

fn zero_or_within(value: &mut Value, schema: Option<&Value>) {
    if !value.is_null() {
        return zero_nulls(value, schema);
    }
    *value = match schema.and_then(|s| s["type"].as_str()) {
        Some("string") => "".into(),
        Some("integer" | "number") => 0.into(),
        Some("boolean") => false.into(),
        Some("object") => Value::Object(Map::new()),
        _ => return,
    };
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
                default_field(map, key, within, true);
            }
            if let Some(additional) = schema.get("additionalProperties").filter(|a| a.is_object()) {
                let is_entry = |key: &String| properties.is_none_or(|p| !p.contains_key(key));
                let entries: Vec<String> = map.keys().filter(|k| is_entry(k)).cloned().collect();
                for key in entries {
                    default_field(map, &key, additional, false);
                }
            }
        }
        _ => {}
    }
}

/// Sets the default of a field, or of the entry of a map, which is none where it is absent.
// Kubernetes: apiextensions-apiserver pkg/apiserver/schema/defaulting, 1.36.
fn default_field(map: &mut Map<String, Value>, key: &str, schema: &Value, is_field: bool) {
    if let Some(wanted) = schema.get("default") {
        match map.get(key) {
            None if is_field => {
                map.insert(key.to_owned(), wanted.clone());
            }
            None => {}
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
    fn metadata_has_the_same_fields_for_every_kind() {
        let known = json!({"name": "a", "generateName": "a-", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1,
            "selfLink": "s", "labels": {"any": "x"}, "annotations": {"any": "y"}, "finalizers": ["f"], "creationTimestamp": null,
            "deletionTimestamp": "t", "deletionGracePeriodSeconds": 0,
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{}, {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "t", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {".": {}}}, "subresource": "status"}]});
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        for schema in [None, Some(&schema()), Some(&open)] {
            let mut object = json!({"metadata": known});
            assert_eq!(prune(&mut object, schema), Vec::<String>::new());
            assert_eq!(object["metadata"], known);
            object["metadata"]["namespce"] = "x".into();
            object["metadata"]["ownerReferences"][0]["owner"] = true.into();
            let mut found = prune(&mut object, schema);
            found.sort();
            assert_eq!(
                found,
                ["metadata.namespce", "metadata.ownerReferences[0].owner"]
            );
            assert_eq!(object["metadata"], known);
        }
    }

    #[test]
    fn unknown_fields_below_a_long_key_are_all_taken_out_and_few_of_them_are_named() {
        let fields: Map<String, Value> = (0..5_000).map(|n| (format!("f{n}"), n.into())).collect();
        let key = "k".repeat(30_000);
        let mut object = json!({"spec": {"labels": {key.clone(): fields}}});
        let found = prune(&mut object, Some(&schema()));
        assert_eq!(found.len(), 3, "as many as 64 KiB hold");
        assert_eq!(object, json!({"spec": {"labels": {key: {}}}}));
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

    #[test]
    fn a_null_in_a_map_or_list_is_what_go_makes_of_it() {
        let schema = json!({"type": "object", "properties": {
            "texts": {"type": "object", "additionalProperties": {"type": "string"}},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "things": {"type": "array", "items": {"type": "object", "properties": {
                "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        let mut object = json!({"texts": {"a": null, "b": "x"}, "numbers": [null, 1],
            "things": [null, {"labels": {"c": null}}], "any": {"d": null}, "other": null});
        zero_nulls(&mut object, Some(&schema));
        let wanted = json!({"texts": {"a": "", "b": "x"}, "numbers": [0, 1],
            "things": [{}, {"labels": {"c": ""}}], "any": {"d": null}, "other": null});
        assert_eq!(object, wanted);
    }

    #[test]
    fn a_null_in_a_map_of_a_definition_is_no_entry() {
        let mut object = json!({"spec": {"labels": {"a": null, "b": "x"}}});
        default(&mut object, Some(&schema()));
        assert_eq!(object, json!({"spec": {"labels": {"b": "x"}}}));
        let mut defaulted = schema();
        defaulted["properties"]["spec"]["properties"]["labels"]["additionalProperties"]["default"] =
            "y".into();
        let mut object = json!({"spec": {"labels": {"a": null}}});
        default(&mut object, Some(&defaulted));
        assert_eq!(object, json!({"spec": {"labels": {"a": "y"}}}));
    }
}
