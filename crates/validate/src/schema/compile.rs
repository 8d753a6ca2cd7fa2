//! Schemas from the JSON of definitions.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::rule::Rule;
use super::{Bounds, DEEPEST, List, Schema, Type};
use crate::cel::Kind;

/// A schema that cannot be used; who wrote the definition can fix it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: {message}")]
pub struct BadSchema {
    /// Where in the schema.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

/// The schema of each version that a CustomResourceDefinition serves.
///
/// # Errors
///
/// When a schema has no meaning.
pub fn of_definition(definition: &Value) -> Result<Vec<(String, Schema)>, BadSchema> {
    let versions = definition["spec"]["versions"].as_array();
    let served = versions
        .into_iter()
        .flatten()
        .filter(|v| v["served"] != false);
    served
        .map(|version| {
            let name = version["name"].as_str().unwrap_or_default().to_owned();
            let schema = compile(&version["schema"]["openAPIV3Schema"])?;
            Ok((name, schema))
        })
        .collect()
}

/// A schema from its JSON.
///
/// # Errors
///
/// When the schema has no meaning.
pub fn compile(json: &Value) -> Result<Schema, BadSchema> {
    at(json, "", 0)
}

fn at(json: &Value, path: &str, depth: usize) -> Result<Schema, BadSchema> {
    let bad = |message: String| BadSchema {
        path: path.to_owned(),
        message,
    };
    if depth > DEEPEST {
        return Err(bad("is nested too deeply".to_owned()));
    }
    let inner = |key: &str, json: &Value| at(json, &format!("{path}.{key}"), depth + 1);
    let one = |key: &str| -> Result<Option<Box<Schema>>, BadSchema> {
        match &json[key] {
            Value::Object(_) => Ok(Some(Box::new(inner(key, &json[key])?))),
            _ => Ok(None),
        }
    };
    let many = |key: &str| -> Result<Vec<Schema>, BadSchema> {
        let schemas = json[key].as_array().into_iter().flatten();
        schemas.map(|json| inner(key, json)).collect()
    };
    let flag = |key: &str| json[key] == true;
    let ty = type_of(json).map_err(bad)?;
    let mut fields = std::collections::BTreeMap::new();
    for (name, json) in json["properties"].as_object().into_iter().flatten() {
        fields.insert(name.clone(), inner(name, json)?);
    }
    let number = |key: &str, exclusive: &str| json[key].as_f64().map(|n| (n, flag(exclusive)));
    let range = |least: &str, most: &str| (json[least].as_u64(), json[most].as_u64());
    let pattern = pattern(json).map_err(bad)?;
    let additional = match &json["additionalProperties"] {
        Value::Object(_) => one("additionalProperties")?,
        Value::Bool(true) => Some(Box::new(anything())),
        _ => None,
    };
    let rules = rules(json, depth == 0).map_err(bad)?;
    let items = one("items")?;
    let below = fields.values().chain(additional.as_deref());
    let tells_changes = rules.iter().any(Rule::tells_changes)
        || below
            .chain(items.as_deref())
            .any(|schema| schema.tells_changes);
    Ok(Schema {
        ty,
        tells_changes,
        nullable: flag("nullable"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        preserves_unknown: flag("x-kubernetes-preserve-unknown-fields")
            || flag("x-kubernetes-embedded-resource")
            || (ty == Some(Type::Object)
                && depth > 0
                && fields.is_empty()
                && additional.is_none()
                && path.ends_with(".metadata")),
        additional,
        fields,
        items,
        list: list_of(json),
        default: json.get("default").cloned(),
        bounds: Bounds {
            required: texts(&json["required"]),
            enumeration: json["enum"].as_array().cloned(),
            minimum: number("minimum", "exclusiveMinimum"),
            maximum: number("maximum", "exclusiveMaximum"),
            multiple_of: json["multipleOf"].as_f64(),
            length: range("minLength", "maxLength"),
            items: range("minItems", "maxItems"),
            properties: range("minProperties", "maxProperties"),
            unique: flag("uniqueItems"),
            pattern,
            format: json["format"].as_str().map(str::to_owned),
            all_of: many("allOf")?,
            any_of: many("anyOf")?,
            one_of: many("oneOf")?,
            not: one("not")?,
        },
        rules,
    })
}

fn type_of(json: &Value) -> Result<Option<Type>, String> {
    Ok(match json["type"].as_str() {
        None | Some("") => None,
        Some("object") => Some(Type::Object),
        Some("array") => Some(Type::Array),
        Some("string") => Some(Type::Text),
        Some("integer") => Some(Type::Integer),
        Some("number") => Some(Type::Number),
        Some("boolean") => Some(Type::Boolean),
        Some(other) => return Err(format!("unknown type {other:?}")),
    })
}

/// The pattern of a text, as it is written and ready to match.
fn pattern(json: &Value) -> Result<Option<(String, Regex)>, String> {
    let Some(text) = json["pattern"].as_str() else {
        return Ok(None);
    };
    let regex = RegexBuilder::new(text).size_limit(1 << 20).build();
    let regex = regex.map_err(|_| format!("{text:?} is no pattern"))?;
    Ok(Some((text.to_owned(), regex)))
}

/// A schema that every value fits.
fn anything() -> Schema {
    Schema {
        preserves_unknown: true,
        nullable: true,
        ..Schema::default()
    }
}

/// The rules of a schema; the root of an object has fields that it need not name.
fn rules(json: &Value, is_root: bool) -> Result<Vec<Rule>, String> {
    let rules = json["x-kubernetes-validations"].as_array();
    let kind = rules.filter(|rules| !rules.is_empty());
    let kind = kind.and_then(|_| Kind::of_schema(json, is_root));
    let kind = kind.map(Arc::new);
    let rules = rules.into_iter().flatten();
    rules
        .map(|rule| Rule::compile(rule, kind.clone()))
        .collect()
}

/// What tells the items of a list apart.
fn list_of(json: &Value) -> List {
    match json["x-kubernetes-list-type"].as_str() {
        Some("set") => List::Set,
        Some("map") => List::Map(texts(&json["x-kubernetes-list-map-keys"])),
        _ => List::Atomic,
    }
}

/// The texts among the items of a list; none where it is no list.
fn texts(json: &Value) -> Vec<String> {
    let texts = json.as_array().into_iter().flatten();
    let texts = texts.filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
