//! The values of patches: JSON objects, read as the Envoy message that the place of the patch asks for.
//!
//! Fields that the message does not have are left out and named: they may belong to another version of Envoy.

use prost::{Message, Name};
use prost_reflect::{DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use prost_types::Struct;
use serde_json::{Map, Value, json};

use descriptors::pool;

/// What was read.
#[derive(Debug)]
pub(super) struct Read<M> {
    /// The message.
    pub(super) message: M,
    /// Paths of the fields that it does not have.
    pub(super) unknown: Vec<String>,
}

/// A value that is not one of the message.
#[derive(Debug, PartialEq)]
pub(super) struct Misfit {
    /// Path of the part at fault; empty for the whole.
    pub(super) path: String,
    /// What is wrong with it.
    pub(super) reason: String,
}

/// Reads a value.
pub(super) fn read<M: Message + Name + Default>(value: &Struct) -> Result<Read<M>, Misfit> {
    let whole = |reason: String| Misfit {
        path: String::new(),
        reason,
    };
    let json = serde_json::to_value(proto_istio::wkt::Struct(value.clone()))
        .map_err(|e| whole(e.to_string()))?;
    let descriptor = pool()
        .get_message_by_name(&M::full_name())
        .expect("the pool holds every message that has a Rust type");
    let dynamic = match parse(&descriptor, &json) {
        Ok(dynamic) => dynamic,
        Err(reason) => return Err(locate(&descriptor, &json, String::new(), reason)),
    };
    let mut unknown = Vec::new();
    note_unknown(&descriptor, &json, "", &mut unknown);
    let message = dynamic.transcode_to().map_err(|e| whole(e.to_string()))?;
    Ok(Read { message, unknown })
}

fn parse(descriptor: &MessageDescriptor, json: &Value) -> Result<DynamicMessage, String> {
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(descriptor.clone(), json, &options)
        .map_err(|e| e.to_string())
}

/// The innermost part that cannot be read by itself.
fn locate(descriptor: &MessageDescriptor, json: &Value, path: String, reason: String) -> Misfit {
    let here = Misfit { path, reason };
    let Value::Object(map) = json else {
        return here;
    };
    let Some((inner, of_any)) = inside(descriptor, map) else {
        return match map.get("@type").and_then(Value::as_str) {
            Some(url) => Misfit {
                path: join(&here.path, "@type"),
                reason: format!("no message type {url} is known"),
            },
            None => here,
        };
    };
    for (key, value) in map.iter().filter(|(key, _)| !of_any || *key != "@type") {
        let Some(field) = field(&inner, key) else {
            continue;
        };
        let path = join(&here.path, key);
        for (place, part, wrapped) in parts(&field, key, value) {
            let Err(reason) = parse(&inner, &wrapped) else {
                continue;
            };
            let path = format!("{path}{place}");
            return match message_of(&field) {
                Some(message) => locate(&message, part, path, reason),
                None => Misfit { path, reason },
            };
        }
    }
    here
}

/// The message that a JSON object stands for, and whether that is one inside an `Any`; `None` for objects that are
/// written in a way of their own, and for an `Any` of an unknown type.
fn inside(
    descriptor: &MessageDescriptor,
    map: &Map<String, Value>,
) -> Option<(MessageDescriptor, bool)> {
    match descriptor.full_name() {
        "google.protobuf.Any" => {
            let url = map.get("@type")?.as_str()?;
            let name = url.rsplit_once('/').map_or(url, |(_, name)| name);
            let inner = pool().get_message_by_name(name)?;
            is_plain(&inner).then_some((inner, true))
        }
        _ => is_plain(descriptor).then(|| (descriptor.clone(), false)),
    }
}

/// Whether the JSON of a message is an object of its fields.
fn is_plain(descriptor: &MessageDescriptor) -> bool {
    descriptor.package_name() != "google.protobuf"
}

fn field(descriptor: &MessageDescriptor, key: &str) -> Option<FieldDescriptor> {
    descriptor
        .get_field_by_json_name(key)
        .or_else(|| descriptor.get_field_by_name(key))
}

/// The message that a field, an element of it or a value of it holds.
fn message_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let value = entry.map_entry_value_field();
            value.kind().as_message().cloned()
        }
        Kind::Message(message) => Some(message),
        _ => None,
    }
}

/// The values of a field with their places, each also as an object with that value alone.
fn parts<'a>(
    field: &FieldDescriptor,
    key: &str,
    value: &'a Value,
) -> Vec<(String, &'a Value, Value)> {
    match value {
        Value::Array(items) if field.is_list() => items
            .iter()
            .enumerate()
            .map(|(at, item)| (format!("[{at}]"), item, json!({ key: [item] })))
            .collect(),
        Value::Object(entries) if field.is_map() => entries
            .iter()
            .map(|(name, item)| (format!("[{name}]"), item, json!({ key: { name: item } })))
            .collect(),
        _ => vec![(String::new(), value, json!({ key: value }))],
    }
}

fn note_unknown(
    descriptor: &MessageDescriptor,
    json: &Value,
    path: &str,
    unknown: &mut Vec<String>,
) {
    let Value::Object(map) = json else {
        return;
    };
    let Some((inner, of_any)) = inside(descriptor, map) else {
        return;
    };
    for (key, value) in map.iter().filter(|(key, _)| !of_any || *key != "@type") {
        let path = join(path, key);
        match field(&inner, key) {
            None => unknown.push(path),
            Some(field) => {
                let Some(message) = message_of(&field) else {
                    continue;
                };
                for (place, part, _) in parts(&field, key, value) {
                    note_unknown(&message, part, &format!("{path}{place}"), unknown);
                }
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_envoy::envoy::config::listener::v3::Filter;

    fn read_filter(value: Value) -> Result<Read<Filter>, Misfit> {
        let value: proto_istio::wkt::Struct = serde_json::from_value(value).unwrap();
        read(&value.0)
    }

    #[test]
    fn a_message_inside_another_is_read_by_its_type() {
        let read = read_filter(json!({
            "name": "tcp",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "statPrefix": "x",
                "idle_timeout": "5s",
                "max_connect_attempts": 3,
            }
        }))
        .unwrap();
        assert_eq!(read.message.name, "tcp");
        assert!(read.message.config_type.is_some());
        assert_eq!(read.unknown, Vec::<String>::new());
    }

    #[test]
    fn what_is_unknown_is_named_and_left_out() {
        let read = read_filter(json!({
            "name": "tcp",
            "odd": 1,
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "access_log": [{ "name": "a", "newer": {} }],
            }
        }))
        .unwrap();
        let mut unknown = read.unknown;
        unknown.sort();
        assert_eq!(unknown, ["odd", "typed_config.access_log[0].newer"]);
    }

    #[test]
    fn what_does_not_fit_is_told_by_its_path() {
        let wrong = read_filter(json!({
            "name": "tcp",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "access_log": [{}, { "name": 4 }],
            }
        }))
        .unwrap_err();
        assert_eq!(wrong.path, "typed_config.access_log[1].name");
    }

    #[test]
    fn an_unknown_type_is_told_by_its_path() {
        let wrong = read_filter(json!({
            "typed_config": { "@type": "type.googleapis.com/no.such.Filter" }
        }))
        .unwrap_err();
        assert_eq!(wrong.path, "typed_config.@type");
        assert!(wrong.reason.contains("no.such.Filter"));
    }
}
