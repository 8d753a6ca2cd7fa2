//! The well-known types of `google.protobuf` with the JSON mapping that Istio's configuration needs.
//!
//! Each wraps the type of `prost-types`, which the Envoy messages use: `.0` moves a value across without a copy.
//! The wrappers of scalars (`BoolValue`, …) are absent, since prost maps them to Rust's own types.

mod any;
mod duration;
mod structure;
mod timestamp;

use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message, Name};
use serde::{Deserialize, Serialize};

pub use duration::ParseDurationError;

/// A length of time. Its JSON is what Go's `time.ParseDuration` reads: `1.5s`, `100ms`, `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Duration(pub prost_types::Duration);

/// A point in time. Its JSON is RFC 3339.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamp(pub prost_types::Timestamp);

/// A JSON object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct(pub prost_types::Struct);

/// Any JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value(pub prost_types::Value);

/// A JSON array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListValue(pub prost_types::ListValue);

/// A message of any type, encoded. Its JSON carries the type in `@type`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Any(pub prost_types::Any);

/// The message without fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

macro_rules! wrap {
    ($($name:ident),*) => {$(
        impl Message for $name {
            fn encode_raw(&self, buf: &mut impl BufMut) {
                self.0.encode_raw(buf);
            }

            fn merge_field(
                &mut self,
                tag: u32,
                wire_type: WireType,
                buf: &mut impl Buf,
                ctx: DecodeContext,
            ) -> Result<(), DecodeError> {
                self.0.merge_field(tag, wire_type, buf, ctx)
            }

            fn encoded_len(&self) -> usize {
                self.0.encoded_len()
            }

            fn clear(&mut self) {
                self.0.clear();
            }
        }

        impl Name for $name {
            const NAME: &'static str = stringify!($name);
            const PACKAGE: &'static str = "google.protobuf";

            fn type_url() -> String {
                concat!("type.googleapis.com/google.protobuf.", stringify!($name)).to_owned()
            }
        }

        impl From<prost_types::$name> for $name {
            fn from(inner: prost_types::$name) -> Self {
                Self(inner)
            }
        }

        impl From<$name> for prost_types::$name {
            fn from(wrapped: $name) -> Self {
                wrapped.0
            }
        }
    )*};
}

wrap!(Any, Duration, ListValue, Struct, Timestamp, Value);

impl Message for Empty {
    fn encode_raw(&self, _: &mut impl BufMut) {}

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buf, ctx)
    }

    fn encoded_len(&self) -> usize {
        0
    }

    fn clear(&mut self) {}
}
