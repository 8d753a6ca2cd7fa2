//! Schemas of Istio's kinds, from the descriptors of their messages.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

/// How deep messages may stand within each other; none of Istio's comes near it.
const DEPTH: usize = 24;

/// What is said of messages and fields, written by `cargo run -p xtask -- reference` from the same definitions.
static DESCRIPTIONS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    let lines = include_str!("descriptions.txt").lines();
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// Fields that Istio's definitions have under their older names as well.
const ALIASES: [(&str, &str); 2] = [
    (
        "istio.networking.v1alpha3.HTTPRoute.mirrorPercent",
        "mirror_percent",
    ),
    ("istio.security.v1beta1.JWTRule.jwksUri", "jwks_uri"),
];

/// The schema of a message by its full name.
pub(super) fn message_schema(name: &str) -> Option<Value> {
    let message = proto_istio::descriptors().get_message_by_name(name)?;
    Some(of_message(&message, 0))
}

fn any() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn of_message(message: &MessageDescriptor, depth: usize) -> Value {
    if message.package_name() == "google.protobuf" {
        return well_known(message.name());
    }
    if depth > DEPTH {
        return any();
    }
    let mut properties = Map::new();
    for field in message.fields() {
        let mut schema = of_field(&field, depth);
        let name = format!("{}.{}", message.full_name(), field.json_name());
        if let Some(about) = DESCRIPTIONS.get(name.as_str()) {
            schema["description"] = (*about).into();
        }
        if let Some((_, alias)) = ALIASES.iter().find(|(of, _)| *of == name) {
            properties.insert((*alias).to_owned(), schema.clone());
        }
        properties.insert(field.json_name().to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if let Some(about) = DESCRIPTIONS.get(message.full_name()) {
        schema["description"] = (*about).into();
    }
    schema
}

fn of_field(field: &FieldDescriptor, depth: usize) -> Value {
    if field.is_map() {
        if let Kind::Message(entry) = field.kind() {
            let value = of_kind(&entry.map_entry_value_field().kind(), depth);
            return json!({"type": "object", "additionalProperties": value});
        }
        return any();
    }
    let one = of_kind(&field.kind(), depth);
    if field.is_list() {
        return json!({"type": "array", "items": one});
    }
    one
}

fn of_kind(kind: &Kind, depth: usize) -> Value {
    match kind {
        Kind::Message(message) => of_message(message, depth + 1),
        Kind::Enum(values) => {
            let names: Vec<String> = values.values().map(|v| v.name().to_owned()).collect();
            json!({"type": "string", "enum": names})
        }
        Kind::Bool => json!({"type": "boolean"}),
        Kind::String => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "format": "byte"}),
        Kind::Double | Kind::Float => json!({"type": "number"}),
        _ => json!({"type": "integer"}),
    }
}

fn well_known(name: &str) -> Value {
    match name {
        "Duration" | "Timestamp" | "StringValue" | "BytesValue" => json!({"type": "string"}),
        "BoolValue" => json!({"type": "boolean", "nullable": true}),
        "Struct" | "Any" | "Empty" => any(),
        "ListValue" => {
            json!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}})
        }
        "Value" => json!({"x-kubernetes-preserve-unknown-fields": true}),
        "DoubleValue" | "FloatValue" => json!({"type": "number", "nullable": true}),
        _ => json!({"type": "integer", "nullable": true}),
    }
}
