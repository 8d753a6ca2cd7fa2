//! Messages of other control planes as JSON, with the fields that this program's messages lack.

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use proto_istio::wkt;
use serde_json::Value as Json;

/// A message as JSON.
pub(crate) struct Read {
    /// Its fields, by the names of JSON.
    pub(crate) json: Json,
    /// Fields that the message of this program does not have, by number, as `http[0].#100`. Of very many not all are
    /// listed.
    pub(crate) unknown: Vec<String>,
}

/// How many unknown fields are listed.
const MOST_UNKNOWN: usize = 20;

/// Reads a message.
pub(crate) fn read(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<Read, String> {
    let message = DynamicMessage::decode(descriptor, bytes).map_err(|e| e.to_string())?;
    let mut unknown = Vec::new();
    find(&message, &mut String::new(), &mut unknown);
    let json = serde_json::to_value(&message).map_err(|e| e.to_string())?;
    Ok(Read { json, unknown })
}

/// Reads JSON that travels as a message. Whole numbers are whole, which a number of the message does not say.
pub(crate) fn read_json(bytes: &[u8]) -> Result<Read, String> {
    let message = wkt::Struct::decode(bytes).map_err(|e| e.to_string())?;
    let json = serde_json::to_value(&message).map_err(|e| e.to_string())?;
    Ok(Read {
        json,
        unknown: Vec::new(),
    })
}

/// Lists the unknown fields of a message that stands at `path`, and of those in it.
fn find(message: &DynamicMessage, path: &mut String, found: &mut Vec<String>) {
    for field in message.unknown_fields() {
        if found.len() == MOST_UNKNOWN {
            return;
        }
        let dot = if path.is_empty() { "" } else { "." };
        found.push(format!("{path}{dot}#{}", field.number()));
    }
    for (field, value) in message.fields() {
        within(path, field.json_name(), |path| {
            find_in(value, path, found);
        });
    }
}

/// Lists the unknown fields of the messages of a value.
fn find_in(value: &Value, path: &mut String, found: &mut Vec<String>) {
    match value {
        Value::Message(message) => find(message, path, found),
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let end = path.len();
                path.push_str(&format!("[{index}]"));
                find_in(item, path, found);
                path.truncate(end);
            }
        }
        Value::Map(entries) => {
            for value in entries.values() {
                within(path, "*", |path| find_in(value, path, found));
            }
        }
        _ => {}
    }
}

/// Calls `look` with the path of a field.
fn within(path: &mut String, field: &str, look: impl FnOnce(&mut String)) {
    let end = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(field);
    look(path);
    path.truncate(end);
}
