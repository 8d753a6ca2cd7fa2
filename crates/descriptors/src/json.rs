//! Encoded messages as JSON, for people: debug pages, command lines, comparisons.
//!
//! Of this, generation uses the descriptors alone.

use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage, SerializeOptions, Value};
use serde_json::{Value as Json, json};

use crate::pool;

/// The message under a type URL as protobuf JSON, with `@type` first in meaning (keys are sorted in text).
///
/// A message that cannot be read becomes `{"@type": ..., "value": <hexadecimal>}`, so that nothing is hidden.
pub fn from_bytes(type_url: &str, body: &[u8]) -> Json {
    match read(type_url, body) {
        Some(Json::Object(mut map)) => {
            map.insert("@type".into(), type_url.into());
            Json::Object(map)
        }
        Some(value) => json!({ "@type": type_url, "value": value }),
        None => json!({ "@type": type_url, "value": hex(body) }),
    }
}

/// What stands before hashes of passwords.
const HASHED: [&str; 2] = ["{SHA}", "$apr1$"];

/// Fields with tokens, as JSON names them: of SkyWalking's collector.
const TOKENS: [&str; 2] = ["backendToken", "backend_token"];

/// The same for people to see: tokens, and texts with hashes of passwords, show their length alone.
pub fn shown(type_url: &str, body: &[u8]) -> Json {
    let mut json = from_bytes(type_url, body);
    conceal(&mut json);
    json
}

fn conceal(json: &mut Json) {
    match json {
        Json::String(text) if HASHED.iter().any(|mark| text.contains(mark)) => {
            *text = not_shown(text);
        }
        Json::Array(items) => items.iter_mut().for_each(conceal),
        Json::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Json::String(text) if TOKENS.contains(&&**name) && !text.is_empty() => {
                        *text = not_shown(text);
                    }
                    value => conceal(value),
                }
            }
        }
        _ => {}
    }
}

fn not_shown(text: &str) -> String {
    format!("<{} bytes, not shown>", text.len())
}

fn read(type_url: &str, body: &[u8]) -> Option<Json> {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    let descriptor = pool().get_message_by_name(name)?;
    let mut message = DynamicMessage::decode(descriptor, body).ok()?;
    drop_untyped(&mut message);
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(true)
        .skip_default_fields(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .ok()
}

/// Takes out every `Any` without a type, which JSON has no way to write; it holds nothing.
pub fn drop_untyped(message: &mut DynamicMessage) {
    let mut empty = Vec::new();
    for (field, value) in message.fields_mut() {
        match value {
            Value::Message(inner) if is_untyped(inner) => empty.push(field),
            Value::Message(inner) => descend(inner),
            Value::List(items) => {
                items.retain(|item| !item.as_message().is_some_and(is_untyped));
                items
                    .iter_mut()
                    .filter_map(|item| item.as_message_mut())
                    .for_each(descend);
            }
            Value::Map(entries) => {
                entries.retain(|_, item| !item.as_message().is_some_and(is_untyped));
                entries
                    .values_mut()
                    .filter_map(|item| item.as_message_mut())
                    .for_each(descend);
            }
            _ => {}
        }
    }
    for field in empty {
        message.clear_field(&field);
    }
}

fn is_any(message: &DynamicMessage) -> bool {
    message.descriptor().full_name() == "google.protobuf.Any"
}

fn is_untyped(message: &DynamicMessage) -> bool {
    is_any(message) && message.fields().next().is_none()
}

fn descend(message: &mut DynamicMessage) {
    if !is_any(message) {
        return drop_untyped(message);
    }
    let Ok(any) = message.transcode_to::<prost_types::Any>() else {
        return;
    };
    let url = any.type_url.as_str();
    let name = url.rsplit_once('/').map_or(url, |(_, name)| name);
    let inner = pool()
        .get_message_by_name(name)
        .and_then(|descriptor| DynamicMessage::decode(descriptor, any.value.as_slice()).ok());
    if let Some(mut inner) = inner {
        drop_untyped(&mut inner);
        let bytes = inner.encode_to_vec().into();
        message.set_field_by_name("value", Value::Bytes(bytes));
    }
}

/// The encoded message of protobuf JSON, as [`from_bytes`] gives it; `None` where it is none of the type.
pub fn to_bytes(type_url: &str, json: &Json) -> Option<Vec<u8>> {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    let descriptor = pool().get_message_by_name(name)?;
    let mut json = json.clone();
    json.as_object_mut()?.remove("@type");
    let message = DynamicMessage::deserialize(descriptor, json).ok()?;
    Some(message.encode_to_vec())
}

fn hex(body: &[u8]) -> String {
    body.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Name;
    use proto_envoy::envoy::config::cluster::v3::Cluster;

    #[test]
    fn tokens_of_collectors_are_not_shown() {
        use proto_envoy::envoy::config::trace::v3::client_config::BackendTokenSpecifier;
        use proto_envoy::envoy::config::trace::v3::{ClientConfig, SkyWalkingConfig};
        let config = SkyWalkingConfig {
            client_config: Some(ClientConfig {
                backend_token_specifier: Some(BackendTokenSpecifier::BackendToken(
                    "hunter2".to_owned(),
                )),
                ..ClientConfig::default()
            }),
            ..SkyWalkingConfig::default()
        };
        let value = shown(&SkyWalkingConfig::type_url(), &config.encode_to_vec());
        assert_eq!(
            value["clientConfig"]["backendToken"],
            "<7 bytes, not shown>"
        );
    }

    #[test]
    fn hashes_of_passwords_are_not_shown() {
        use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
        use proto_envoy::envoy::extensions::filters::http::basic_auth::v3::BasicAuthPerRoute;
        let users = BasicAuthPerRoute {
            users: Some(DataSource {
                specifier: Some(data_source::Specifier::InlineString("a:{SHA}b".into())),
                ..DataSource::default()
            }),
        };
        let value = shown(&BasicAuthPerRoute::type_url(), &users.encode_to_vec());
        assert_eq!(value["users"]["inlineString"], "<8 bytes, not shown>");
    }

    #[test]
    fn a_message_is_shown_by_its_fields() {
        let cluster = Cluster {
            name: "a".into(),
            ..Cluster::default()
        };
        let value = from_bytes(&Cluster::type_url(), &cluster.encode_to_vec());
        assert_eq!(value["name"], "a");
        assert_eq!(
            value["@type"],
            "type.googleapis.com/envoy.config.cluster.v3.Cluster"
        );
    }

    #[test]
    fn a_configuration_without_type_is_left_out_wherever_it_stands() {
        use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
        let inner = TypedExtensionConfig {
            name: "inner".into(),
            typed_config: Some(prost_types::Any::default()),
        };
        let outer = TypedExtensionConfig {
            name: "outer".into(),
            typed_config: prost_types::Any::from_msg(&inner).ok(),
        };
        let value = from_bytes(&TypedExtensionConfig::type_url(), &outer.encode_to_vec());
        assert_eq!(value["typedConfig"]["name"], "inner");
        assert_eq!(value["typedConfig"].get("typedConfig"), None);
    }

    #[test]
    fn an_unknown_type_is_shown_as_bytes() {
        assert_eq!(
            from_bytes("type.googleapis.com/no.such", &[0xab])["value"],
            "ab"
        );
    }
}
