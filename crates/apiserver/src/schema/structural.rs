//! Whether the schema of a CustomResourceDefinition is structural: each value has a type, and conditions only narrow it.
//!
//! Kubernetes: apiextensions-apiserver pkg/apiserver/schema/validation.go and
//! pkg/apis/apiextensions/validation/validation.go, 1.36.

mod conditions;
mod rules;

use serde_json::{Map, Value};
use validate::report::{At, Report};

use crate::status::Cause;

/// The most that is said of one schema.
const MOST: usize = 50;
/// How deep a schema may be nested.
const DEEPEST: usize = 100;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What is wrong with a schema that stands at `path`.
pub fn faults(schema: &Value, path: &str) -> Vec<Cause> {
    let mut walk = Walk(Vec::new());
    walk.value(schema, path, Level::Root, 0);
    if walk.0.is_empty()
        && let Err(bad) = validate::schema::compile(schema)
    {
        let detail = format!("{}: {}", bad.path.trim_start_matches('.'), bad.message);
        let detail = detail.trim_start_matches(": ");
        walk.0.push(omitted(path.to_owned(), detail));
    }
    // What a rule may look at is known of a schema that is sound.
    if walk.0.is_empty() {
        walk.0 = rules::faults(schema, path);
    }
    walk.0.truncate(MOST);
    walk.0
}

/// A refusal that does not repeat the value.
fn omitted(field: String, detail: &str) -> Cause {
    Cause {
        reason: "FieldValueInvalid",
        field,
        message: format!("Invalid value: {detail}"),
    }
}

fn forbidden(field: String, detail: &str) -> Cause {
    Cause {
        reason: "FieldValueForbidden",
        field,
        message: format!("Forbidden: {detail}"),
    }
}

struct Walk(Vec<Cause>);

impl Walk {
    fn forbid(&mut self, at: String, detail: &str) {
        self.0.push(forbidden(at, detail));
    }

    fn require(&mut self, at: String, detail: &str) {
        self.0.push(Cause::required(at, detail));
    }

    fn value(&mut self, schema: &Value, path: &str, level: Level, depth: usize) {
        if self.0.len() >= MOST {
            return;
        }
        let Some(map) = schema.as_object() else {
            return self.0.push(omitted(path.to_owned(), "must be a schema"));
        };
        if depth > DEEPEST {
            return self.forbid(path.to_owned(), "is nested too deeply");
        }
        self.unsupported(map, path);
        self.types(map, path, level);
        self.default(schema, map, path);
        if let Some(properties) = map.get("properties").and_then(Value::as_object) {
            if map.contains_key("additionalProperties") {
                let at = format!("{path}.additionalProperties");
                self.forbid(
                    at,
                    "additionalProperties and properties are mutual exclusive",
                );
            }
            for (name, inner) in properties {
                let at = format!("{path}.properties[{name}]");
                if level == Level::Root && name == "metadata" {
                    self.metadata(inner, &at);
                } else {
                    self.value(inner, &at, Level::Field, depth + 1);
                }
            }
        }
        match map.get("additionalProperties") {
            Some(_) if level == Level::Root => {
                let at = format!("{path}.additionalProperties");
                self.forbid(at, "must not be used at the root");
            }
            Some(Value::Bool(false)) => {
                let at = format!("{path}.additionalProperties");
                self.forbid(at, "additionalProperties cannot be set to false");
            }
            Some(inner @ Value::Object(_)) => {
                let at = format!("{path}.additionalProperties");
                self.value(inner, &at, Level::Field, depth + 1);
            }
            _ => {}
        }
        match map.get("items") {
            None if map.get("type").is_some_and(|t| t == "array") => {
                self.require(format!("{path}.items"), "must be specified");
            }
            Some(inner) => self.value(inner, &format!("{path}.items"), Level::Item, depth + 1),
            None => {}
        }
        self.list(map, path);
        self.rules(map, path);
        self.conditions(map, path, depth);
    }

    fn unsupported(&mut self, map: &Map<String, Value>, path: &str) {
        const NEVER: [&str; 6] = [
            "id",
            "additionalItems",
            "patternProperties",
            "definitions",
            "dependencies",
            "$ref",
        ];
        for word in NEVER.into_iter().filter(|word| map.contains_key(*word)) {
            self.forbid(
                format!("{path}.{word}"),
                &format!("{word} is not supported"),
            );
        }
        if map.get("uniqueItems").is_some_and(|v| *v == true) {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(format!("{path}.uniqueItems"), detail);
        }
        if map
            .get("x-kubernetes-preserve-unknown-fields")
            .is_some_and(|v| *v == false)
        {
            let at = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.0.push(Cause::invalid(
                at,
                &false.into(),
                "must be true or undefined",
            ));
        }
    }

    fn types(&mut self, map: &Map<String, Value>, path: &str, level: Level) {
        let flag = |word: &str| map.get(word).is_some_and(|v| *v == true);
        let at = format!("{path}.type");
        let ty = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let known = [
            "", "object", "array", "string", "integer", "number", "boolean",
        ];
        if !known.contains(&ty) {
            self.0.push(Cause {
                reason: "FieldValueNotSupported",
                field: at,
                message: format!("Unsupported value: {ty:?}"),
            });
            return;
        }
        let is_open =
            flag("x-kubernetes-int-or-string") || flag("x-kubernetes-preserve-unknown-fields");
        if flag("x-kubernetes-embedded-resource") && ty != "object" {
            self.require(
                at,
                "must be object if x-kubernetes-embedded-resource is true",
            );
        } else if level == Level::Root && !ty.is_empty() && ty != "object" {
            self.0
                .push(Cause::invalid(at, &ty.into(), "must be object at the root"));
        } else if ty.is_empty() && (!is_open || level == Level::Root) {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.require(at, detail);
        }
        if level == Level::Root && flag("nullable") {
            self.forbid(
                format!("{path}.nullable"),
                "nullable cannot be true at the root",
            );
        }
    }

    /// Metadata is what it is for every object: only its name may be narrowed.
    fn metadata(&mut self, schema: &Value, path: &str) {
        let only_names = schema["properties"]
            .as_object()
            .is_none_or(|p| p.keys().all(|k| k == "name" || k == "generateName"));
        let only_type = schema.as_object().is_some_and(|map| {
            map.keys()
                .all(|key| ["type", "properties", "description"].contains(&key.as_str()))
        });
        if schema["type"] != "object" {
            let at = format!("{path}.type");
            self.0
                .push(Cause::invalid(at, &schema["type"], "must be object"));
        } else if !only_names || !only_type {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbid(path.to_owned(), detail);
        }
    }

    fn default(&mut self, schema: &Value, map: &Map<String, Value>, path: &str) {
        let Some(default) = map.get("default") else {
            return;
        };
        let Ok(judge) = validate::schema::compile(schema) else {
            // What is wrong with the schema is told elsewhere.
            return;
        };
        let mut value = default.clone();
        validate::schema::fill_defaults(&mut value, &judge);
        let mut report = Report::default();
        judge.check(&value, &At::TOP, &mut report);
        for fault in report.into_errors() {
            let within = match fault.path.to_string() {
                within if within.is_empty() => String::new(),
                within => format!(".{within}"),
            };
            let at = format!("{path}.default{within}");
            self.0.push(Cause::invalid(at, default, &fault.message));
        }
    }

    fn list(&mut self, map: &Map<String, Value>, path: &str) {
        let text = |word: &str| map.get(word).and_then(Value::as_str);
        let keys = map.get("x-kubernetes-list-map-keys");
        let keys = keys.and_then(Value::as_array);
        let keys: Vec<&str> = keys
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let at = |word: &str| format!("{path}.{word}");
        match text("x-kubernetes-map-type") {
            None | Some("atomic" | "granular") => {}
            Some(other) => self.0.push(Cause {
                reason: "FieldValueNotSupported",
                field: at("x-kubernetes-map-type"),
                message: format!(
                    "Unsupported value: {other:?}: supported values: \"atomic\", \"granular\""
                ),
            }),
        }
        let list = text("x-kubernetes-list-type");
        if list.is_some() && text("type") != Some("array") {
            let detail = "must be array if x-kubernetes-list-type is specified";
            self.require(at("type"), detail);
        }
        match list {
            Some("map") if keys.is_empty() => {
                let detail = "must not be empty if x-kubernetes-list-type is map";
                self.require(at("x-kubernetes-list-map-keys"), detail);
            }
            Some("map") => self.keys(map, &keys, path),
            None | Some("atomic" | "set") => {
                if !keys.is_empty() {
                    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
                    self.require(at("x-kubernetes-list-type"), detail);
                }
            }
            Some(other) => self.0.push(Cause {
                reason: "FieldValueNotSupported",
                field: at("x-kubernetes-list-type"),
                message: format!(
                    "Unsupported value: {other:?}: supported values: \"atomic\", \"map\", \"set\""
                ),
            }),
        }
    }

    /// The fields that tell items of a list apart are there in every item.
    fn keys(&mut self, map: &Map<String, Value>, keys: &[&str], path: &str) {
        let Some(items) = map.get("items") else {
            return;
        };
        let needed: Vec<&str> = items["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for key in keys {
            let Some(field) = items["properties"].get(*key) else {
                let at = format!("{path}.x-kubernetes-list-map-keys");
                let detail = "entries must all be names of item properties";
                self.0.push(omitted(at, detail));
                continue;
            };
            if field.get("default").is_none() && !needed.contains(key) {
                let at = format!("{path}.items.properties[{key}].default");
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.require(at, detail);
            }
        }
    }

    fn rules(&mut self, map: &Map<String, Value>, path: &str) {
        let rules = map
            .get("x-kubernetes-validations")
            .and_then(Value::as_array);
        for (index, rule) in rules.into_iter().flatten().enumerate() {
            let at = |word: &str| format!("{path}.x-kubernetes-validations[{index}].{word}");
            let source = rule["rule"].as_str().unwrap_or_default().trim();
            if source.is_empty() {
                self.require(at("rule"), "rule is not specified");
                continue;
            }
            for (word, text) in [
                ("rule", rule["rule"].as_str()),
                ("messageExpression", rule["messageExpression"].as_str()),
            ] {
                if let Some(Err(fault)) = text.map(validate::cel::parse) {
                    let detail = format!("compilation failed: {fault}");
                    self.0.push(omitted(at(word), &detail));
                }
            }
            if source.contains('\n') && rule["message"].as_str().is_none_or(str::is_empty) {
                let detail = "message must be specified if rule contains line breaks";
                self.require(at("message"), detail);
            }
            if rule["message"].as_str().is_some_and(|m| m.contains('\n')) {
                let detail = "must not contain line breaks";
                self.0
                    .push(Cause::invalid(at("message"), &rule["message"], detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(schema: Value) -> Vec<String> {
        let faults = faults(&schema, "s");
        faults.into_iter().map(|c| c.field).collect()
    }

    #[test]
    fn a_schema_that_is_structural_has_no_faults() {
        let schema = json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}},
            "spec": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {
                "a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "b": {"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
                "c": {"type": "string", "default": "x", "enum": ["x", "y"]},
                "d": {"type": "object", "additionalProperties": {"type": "string"}},
                "e": {"x-kubernetes-preserve-unknown-fields": true},
            }, "x-kubernetes-validations": [{"rule": "!has(self.c) || self.c == oldSelf.c", "message": "fixed"}]},
        }});
        assert_eq!(said(schema), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_structural_is_told_with_its_place() {
        for (schema, wanted) in [
            (json!({}), "s.type"),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                "s.type",
            ),
            (
                json!({"type": "object", "properties": {"a": {}}}),
                "s.properties[a].type",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                "s.properties[a].items",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "text"}}}),
                "s.properties[a].type",
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/b", "type": "object"}}}),
                "s.properties[a].$ref",
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]}),
                "s.anyOf[0].properties[a].type",
            ),
            (
                json!({"type": "object", "not": {"description": "x"}}),
                "s.not.description",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "default": 5}}}),
                "s.properties[a].default",
            ),
            (
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
                "s.properties[metadata]",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
                "s",
            ),
            (
                json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}),
                "s.x-kubernetes-validations[0].rule",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}}),
                "s.properties[a].items.properties[k].default",
            ),
        ] {
            assert_eq!(said(schema.clone()), [wanted], "{schema}");
        }
    }
}
