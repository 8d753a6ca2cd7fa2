//! Encoded messages as JSON, with the field names of the definitions, as recordings have them.

use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::Value;

/// The message under a type URL.
///
/// # Panics
///
/// When the type is not known or the bytes are not of it.
pub fn decode(type_url: &str, body: &[u8]) -> Value {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    let descriptor = descriptors::pool()
        .get_message_by_name(name)
        .unwrap_or_else(|| panic!("no message is named {name}"));
    let mut message =
        DynamicMessage::decode(descriptor, body).unwrap_or_else(|e| panic!("no {name}: {e}"));
    descriptors::json::drop_untyped(&mut message);
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(true)
        .use_proto_field_name(true)
        .skip_default_fields(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A message recorded as protobuf JSON, as [`decode`] shows it.
///
/// # Panics
///
/// When the type is not known or the value is not of it.
pub fn decode_recorded(type_url: &str, recorded: &Value) -> Value {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    let descriptor = descriptors::pool()
        .get_message_by_name(name)
        .unwrap_or_else(|| panic!("no message is named {name}"));
    let message = DynamicMessage::deserialize(descriptor, recorded)
        .unwrap_or_else(|e| panic!("no {name}: {e}: {recorded}"));
    decode(type_url, &message.encode_to_vec())
}
