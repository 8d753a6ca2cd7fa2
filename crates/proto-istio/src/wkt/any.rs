//! JSON of messages whose type is known only at run time.

use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Any;
use crate::descriptors;

/// The descriptor of `Any` in the pool of this crate, in which prost-reflect looks for the type inside.
fn any() -> MessageDescriptor {
    descriptors()
        .get_message_by_name("google.protobuf.Any")
        .expect("the resource envelope imports it")
}

impl Serialize for Any {
    /// Fails on types that this crate does not have.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = DynamicMessage::new(any());
        message.transcode_from(&self.0).map_err(S::Error::custom)?;
        message.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Any {
    /// Fails on types that this crate does not have.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = DynamicMessage::deserialize(any(), deserializer)?;
        prost_types::Any::decode(message.encode_to_vec().as_slice())
            .map(Self)
            .map_err(D::Error::custom)
    }
}
