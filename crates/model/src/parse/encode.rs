//! A checked tree as the bytes of its message.
//!
//! Encoding by descriptor and decoding the bytes is one piece of code for every kind, where a deserializer would be
//! compiled anew for each message.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost::Message as _;
use prost::bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{Cardinality, Kind, MessageDescriptor};
use proto_istio::wkt;

use super::node::{Node, Value};

/// Encodes `node`, which [`super::check::message`] found no fault in, as `message`.
pub(super) fn encode(node: &Node<'_>, message: &MessageDescriptor) -> Vec<u8> {
    let mut out = Vec::new();
    fields(node, message, &mut out);
    out
}

fn fields(node: &Node<'_>, message: &MessageDescriptor, out: &mut Vec<u8>) {
    if message.package_name() == "google.protobuf" {
        return well_known(node, message, out);
    }
    for entry in node.entries().unwrap_or_default() {
        let Some(field) = message.get_field_by_json_name(&entry.key) else {
            continue;
        };
        let (number, kind) = (field.number(), field.kind());
        match (&entry.value.value, &kind) {
            (Value::Map(pairs), Kind::Message(pair)) if field.is_map() => {
                let (key, value) = (pair.map_entry_key_field(), pair.map_entry_value_field());
                for entry in pairs {
                    let mut body = Vec::new();
                    let text = Node {
                        value: Value::String(entry.key.clone()),
                        span: entry.at,
                    };
                    one(&text, &key.kind(), key.number(), &mut body);
                    one(&entry.value, &value.kind(), value.number(), &mut body);
                    delimited(number, &body, out);
                }
            }
            (Value::Seq(items), _) if field.cardinality() == Cardinality::Repeated => {
                for item in items {
                    one(item, &kind, number, out);
                }
            }
            _ => one(&entry.value, &kind, number, out),
        }
    }
}

/// One value under its key. Repeated numbers are not packed; decoders take both.
fn one(node: &Node<'_>, kind: &Kind, number: u32, out: &mut Vec<u8>) {
    match kind {
        Kind::Message(message) => {
            let mut body = Vec::new();
            fields(node, message, &mut body);
            delimited(number, &body, out);
        }
        Kind::String => delimited(number, node.as_str().unwrap_or_default().as_bytes(), out),
        Kind::Bytes => delimited(number, &base64(node.as_str().unwrap_or_default()), out),
        Kind::Double => {
            encode_key(number, WireType::SixtyFourBit, out);
            out.put_f64_le(float(node));
        }
        Kind::Float => {
            encode_key(number, WireType::ThirtyTwoBit, out);
            #[allow(clippy::cast_possible_truncation)] // What a float is.
            out.put_f32_le(float(node) as f32);
        }
        Kind::Fixed32 | Kind::Sfixed32 => {
            encode_key(number, WireType::ThirtyTwoBit, out);
            #[allow(clippy::cast_possible_truncation)] // Checked to fit.
            out.put_i32_le(integer(node) as i32);
        }
        Kind::Fixed64 | Kind::Sfixed64 => {
            encode_key(number, WireType::SixtyFourBit, out);
            out.put_i64_le(integer(node));
        }
        Kind::Sint32 | Kind::Sint64 => {
            let value = integer(node);
            varint(number, ((value << 1) ^ (value >> 63)).cast_unsigned(), out);
        }
        Kind::Bool => varint(
            number,
            u64::from(matches!(node.value, Value::Bool(true))),
            out,
        ),
        Kind::Enum(values) => {
            let value = node
                .as_str()
                .and_then(|name| values.get_value_by_name(name));
            let number_of_value = value.map_or(0, |v| v.number());
            varint(number, i64::from(number_of_value).cast_unsigned(), out);
        }
        Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 => {
            varint(number, integer(node).cast_unsigned(), out);
        }
    }
}

fn varint(number: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

fn delimited(number: u32, body: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(body.len() as u64, out);
    out.extend_from_slice(body);
}

/// A whole number; those beyond `i64` keep their bits.
fn integer(node: &Node<'_>) -> i64 {
    match &node.value {
        Value::Int(value) => *value,
        Value::UInt(value) => value.cast_signed(),
        Value::String(text) => text
            .parse::<i64>()
            .or_else(|_| text.parse::<u64>().map(u64::cast_signed))
            .unwrap_or(0),
        _ => 0,
    }
}

fn float(node: &Node<'_>) -> f64 {
    match &node.value {
        #[allow(clippy::cast_precision_loss)] // What a float is.
        Value::Int(value) => *value as f64,
        #[allow(clippy::cast_precision_loss)] // What a float is.
        Value::UInt(value) => *value as f64,
        Value::Float(value) => *value,
        Value::String(text) => text.parse().unwrap_or(0.0),
        _ => 0.0,
    }
}

fn base64(text: &str) -> Vec<u8> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if text.contains(['-', '_']) {
        &alphabet::URL_SAFE
    } else {
        &alphabet::STANDARD
    };
    GeneralPurpose::new(alphabet, LENIENT)
        .decode(text)
        .unwrap_or_default()
}

fn well_known(node: &Node<'_>, message: &MessageDescriptor, out: &mut Vec<u8>) {
    match message.name() {
        "Duration" => {
            if let Some(Ok(duration)) = node.as_str().map(str::parse::<wkt::Duration>) {
                out.extend(duration.encode_to_vec());
            }
        }
        "Timestamp" => {
            if let Some(at) = node.as_str().and_then(super::meta::timestamp) {
                varint(1, at.0.cast_unsigned(), out);
            }
        }
        "Struct" => structure(node, out),
        "Value" => value(node, out),
        "ListValue" => list(node, out),
        "Any" | "Empty" => {}
        _ => {
            // The wrappers: one field, number 1.
            if let Some(field) = message.get_field(1) {
                one(node, &field.kind(), 1, out);
            }
        }
    }
}

fn structure(node: &Node<'_>, out: &mut Vec<u8>) {
    for entry in node.entries().unwrap_or_default() {
        let (mut pair, mut body) = (Vec::new(), Vec::new());
        delimited(1, entry.key.as_bytes(), &mut pair);
        value(&entry.value, &mut body);
        delimited(2, &body, &mut pair);
        delimited(1, &pair, out);
    }
}

fn list(node: &Node<'_>, out: &mut Vec<u8>) {
    if let Value::Seq(items) = &node.value {
        for item in items {
            let mut body = Vec::new();
            value(item, &mut body);
            delimited(1, &body, out);
        }
    }
}

fn value(node: &Node<'_>, out: &mut Vec<u8>) {
    match &node.value {
        Value::Null => varint(1, 0, out),
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
            encode_key(2, WireType::SixtyFourBit, out);
            out.put_f64_le(float(node));
        }
        Value::String(text) => delimited(3, text.as_bytes(), out),
        Value::Bool(flag) => varint(4, u64::from(*flag), out),
        Value::Map(_) => {
            let mut body = Vec::new();
            structure(node, &mut body);
            delimited(5, &body, out);
        }
        Value::Seq(_) => {
            let mut body = Vec::new();
            list(node, &mut body);
            delimited(6, &body, out);
        }
    }
}
