//! Encoded messages as JSON, for people: debug pages, command lines, comparisons.
//!
//! Nothing here is part of generation.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::{Value, json};

/// Descriptors of Envoy's and Istio's messages together, so that every `Any` we send can be read.
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let mut pool = proto_envoy::descriptors().clone();
        pool.decode_file_descriptor_set(proto_istio::descriptor_set())
            .expect("the two descriptor sets have no file of one name with different content");
        pool
    });
    &POOL
}

/// The message under a type URL as protobuf JSON, with `@type` first in meaning (keys are sorted in text).
///
/// A message that cannot be read becomes `{"@type": ..., "value": <hexadecimal>}`, so that nothing is hidden.
pub fn from_bytes(type_url: &str, body: &[u8]) -> Value {
    match read(type_url, body) {
        Some(Value::Object(mut map)) => {
            map.insert("@type".into(), type_url.into());
            Value::Object(map)
        }
        Some(value) => json!({ "@type": type_url, "value": value }),
        None => json!({ "@type": type_url, "value": hex(body) }),
    }
}

fn read(type_url: &str, body: &[u8]) -> Option<Value> {
    let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
    let descriptor = pool().get_message_by_name(name)?;
    let message = DynamicMessage::decode(descriptor, body).ok()?;
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(true)
        .skip_default_fields(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .ok()
}

fn hex(body: &[u8]) -> String {
    body.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::{Message, Name};
    use proto_envoy::envoy::config::cluster::v3::Cluster;

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
    fn an_unknown_type_is_shown_as_bytes() {
        assert_eq!(
            from_bytes("type.googleapis.com/no.such", &[0xab])["value"],
            "ab"
        );
    }
}
