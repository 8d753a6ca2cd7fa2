//! Whether values are what a schema says.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use regex::Regex;
use serde_json::{Map, Value};

use crate::status::Cause;

/// The most that is said of one object.
const MOST: usize = 50;

/// Patterns that are kept compiled for a schema. What exceeds it is compiled for each object anew.
const PATTERNS: usize = 256;
/// The bytes that a compiled pattern may have.
const PATTERN_BYTES: usize = 1 << 20;

/// The patterns of a schema, each compiled when it is first needed. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Arc<RwLock<Compiled>>);

/// By text; `None` for what this engine cannot read.
type Compiled = HashMap<Box<str>, Option<Regex>>;

impl Patterns {
    fn get(&self, pattern: &str) -> Option<Regex> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(pattern) {
            return known.clone();
        }
        drop(known);
        let compiled = regex::RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES)
            .build()
            .ok();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < PATTERNS {
            known.insert(pattern.into(), compiled.clone());
        }
        compiled
    }
}

/// What is being checked.
struct Check<'s> {
    patterns: &'s Patterns,
    /// Those that this object has met, so that none is compiled, or looked for among those of the schema, for each value.
    met: HashMap<&'s str, Option<Regex>>,
    causes: Vec<Cause>,
}

/// What is wrong with `object`, whose `apiVersion`, `kind` and `metadata` are somebody else's.
pub fn check(object: &Value, schema: Option<&Value>, patterns: &Patterns) -> Vec<Cause> {
    let (Some(schema), Some(map)) = (schema, object.as_object()) else {
        return Vec::new();
    };
    let mut check = Check {
        patterns,
        met: HashMap::new(),
        causes: Vec::new(),
    };
    for (key, value) in map {
        if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")
            && let Some(within) = schema["properties"].get(key)
        {
            check.value(value, within, key);
        }
    }
    let mut causes = check.causes;
    for key in required(schema) {
        if !map.contains_key(key) {
            causes.push(Cause::required(key, ""));
        }
    }
    causes.truncate(MOST);
    causes
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let list = schema["required"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() && n.as_f64().is_none_or(|f| f.fract() != 0.0) => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn fits(found: &str, wanted: &str) -> bool {
    found == wanted || (wanted == "number" && found == "integer")
}

impl<'s> Check<'s> {
    fn value(&mut self, value: &Value, schema: &'s Value, path: &str) {
        let causes = &mut self.causes;
        if causes.len() >= MOST || (value.is_null() && schema["nullable"] == true) {
            return;
        }
        let found = type_of(value);
        let mut say = |value: &Value, detail: String| {
            causes.push(Cause::invalid(path, value, &detail));
        };
        if schema["x-kubernetes-int-or-string"] == true {
            if !matches!(found, "integer" | "number" | "string" | "boolean") {
                say(
                    value,
                    format!("{path} in body must be of type integer,string: {found:?}"),
                );
            }
            return;
        }
        if let Some(wanted) = schema["type"].as_str()
            && !fits(found, wanted)
        {
            causes.push(Cause {
                reason: "FieldValueTypeInvalid",
                field: path.to_owned(),
                message: format!(
                    "Invalid value: {found:?}: {path} in body must be of type {wanted}: {found:?}"
                ),
            });
            return;
        }
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            let names: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            causes.push(Cause {
                reason: "FieldValueNotSupported",
                field: path.to_owned(),
                message: format!(
                    "Unsupported value: {value}: supported values: {}",
                    names.join(", ")
                ),
            });
            return;
        }
        match value {
            Value::String(text) => self.text(text, value, schema, path),
            Value::Number(number) => check_number(number.as_f64(), value, schema, path, causes),
            Value::Array(items) => self.array(items, value, schema, path),
            Value::Object(map) => self.object(map, value, schema, path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn array(&mut self, items: &[Value], value: &Value, schema: &'s Value, path: &str) {
        bounds(
            items.len(),
            value,
            schema,
            ["minItems", "maxItems"],
            "items",
            path,
            &mut self.causes,
        );
        let of = schema.get("items");
        for (index, item) in items.iter().enumerate() {
            if let Some(of) = of {
                self.value(item, of, &format!("{path}[{index}]"));
            }
        }
        duplicates(items, schema, path, &mut self.causes);
    }

    fn object(&mut self, map: &Map<String, Value>, value: &Value, schema: &'s Value, path: &str) {
        bounds(
            map.len(),
            value,
            schema,
            ["minProperties", "maxProperties"],
            "properties",
            path,
            &mut self.causes,
        );
        for key in required(schema) {
            if !map.contains_key(key) {
                self.causes
                    .push(Cause::required(format!("{path}.{key}"), ""));
            }
        }
        let additional = schema.get("additionalProperties").filter(|a| a.is_object());
        for (key, value) in map {
            if let Some(within) = schema["properties"].get(key).or(additional) {
                self.value(value, within, &format!("{path}.{key}"));
            }
        }
    }

    fn text(&mut self, text: &str, value: &Value, schema: &'s Value, path: &str) {
        let causes = &mut self.causes;
        let length = text.chars().count();
        bounds(
            length,
            value,
            schema,
            ["minLength", "maxLength"],
            "chars",
            path,
            causes,
        );
        let Some(pattern) = schema["pattern"].as_str() else {
            return;
        };
        // A pattern that this engine cannot read is no reason to refuse what the real API takes.
        let patterns = self.patterns;
        let matcher = self
            .met
            .entry(pattern)
            .or_insert_with(|| patterns.get(pattern));
        if matcher
            .as_ref()
            .is_some_and(|matcher| !matcher.is_match(text))
        {
            let detail = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(path, value, &detail));
        }
    }
}

fn check_number(
    number: Option<f64>,
    value: &Value,
    schema: &Value,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let Some(number) = number else { return };
    if let Some(least) = schema["minimum"].as_f64() {
        let open = schema["exclusiveMinimum"] == true;
        if number < least || (open && number <= least) {
            let than = if open {
                "greater than"
            } else {
                "greater than or equal to"
            };
            causes.push(Cause::invalid(
                path,
                value,
                &format!("{path} in body should be {than} {least}"),
            ));
        }
    }
    if let Some(most) = schema["maximum"].as_f64() {
        let open = schema["exclusiveMaximum"] == true;
        if number > most || (open && number >= most) {
            let than = if open {
                "less than"
            } else {
                "less than or equal to"
            };
            causes.push(Cause::invalid(
                path,
                value,
                &format!("{path} in body should be {than} {most}"),
            ));
        }
    }
}

fn bounds(
    length: usize,
    value: &Value,
    schema: &Value,
    [least, most]: [&str; 2],
    what: &str,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let length = length as u64;
    if let Some(least) = schema[least].as_u64()
        && length < least
    {
        let detail = format!("{path} in body should have at least {least} {what}");
        causes.push(Cause::invalid(path, value, &detail));
    }
    if let Some(most) = schema[most].as_u64()
        && length > most
    {
        let (reason, message) = match what {
            "chars" => (
                "FieldValueTooLong",
                format!("Too long: may not be more than {most} bytes"),
            ),
            _ => (
                "FieldValueTooMany",
                format!("Too many: {length}: must have at most {most} items"),
            ),
        };
        causes.push(Cause {
            reason,
            field: path.to_owned(),
            message,
        });
    }
}

fn duplicates(items: &[Value], schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let keys = match super::list_type(Some(schema)) {
        super::ListType::Atomic => return,
        super::ListType::Set => Vec::new(),
        super::ListType::Map(keys) => keys,
    };
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let identity = if keys.is_empty() {
            item.to_string()
        } else {
            keys.iter()
                .map(|k| item[k].to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        if !seen.insert(identity) {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                field: format!("{path}[{index}]"),
                message: format!("Duplicate value: {item}"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(value: Value, schema: Value) -> Vec<String> {
        let object = json!({"spec": value});
        let schema = json!({"properties": {"spec": schema}});
        check(&object, Some(&schema), &Patterns::default())
            .into_iter()
            .map(|c| format!("{} {}", c.field, c.reason))
            .collect()
    }

    #[test]
    fn values_are_held_against_the_schema() {
        let list = json!({"type": "array", "maxItems": 2, "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 1}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]});
        assert_eq!(
            said(json!([{"a": 1}, {"a": 2}]), list.clone()),
            Vec::<String>::new()
        );
        assert_eq!(
            said(json!([{"a": 0}, {}]), list.clone()),
            [
                "spec[0].a FieldValueInvalid",
                "spec[1].a FieldValueRequired"
            ]
        );
        assert_eq!(
            said(json!([{"a": 1}, {"a": 1}]), list.clone()),
            ["spec[1] FieldValueDuplicate"]
        );
        assert_eq!(
            said(json!([{"a": 1}, {"a": 2}, {"a": 3}]), list.clone()),
            ["spec FieldValueTooMany"]
        );
        assert_eq!(said(json!({}), list), ["spec FieldValueTypeInvalid"]);
        assert_eq!(
            said(json!("B"), json!({"type": "string", "enum": ["A"]})),
            ["spec FieldValueNotSupported"]
        );
        assert_eq!(
            said(
                json!("b"),
                json!({"type": "string", "pattern": "^a", "maxLength": 3})
            ),
            ["spec FieldValueInvalid"]
        );
        assert_eq!(
            said(json!(5), json!({"x-kubernetes-int-or-string": true})),
            Vec::<String>::new()
        );
    }
}
