//! Defaults that a schema states.

use serde_json::Value;

use super::Schema;

/// Sets every field that is absent, and has a default, within objects that are there. A `null` where none may stand
/// counts as absent where there is a default.
pub fn fill_defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (name, field) in &schema.fields {
                let absent = match map.get(name) {
                    None => true,
                    Some(value) => value.is_null() && !field.nullable,
                };
                if let Some(default) = field.default.as_ref().filter(|_| absent) {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (key, value) in map {
                if let Some(inner) = schema.fields.get(key).or(schema.additional.as_deref()) {
                    fill_defaults(value, inner);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = &schema.items {
                items.iter_mut().for_each(|item| fill_defaults(item, inner));
            }
        }
        _ => {}
    }
}
