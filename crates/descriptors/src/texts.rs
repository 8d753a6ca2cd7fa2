//! Texts of encoded messages, replaced where they stand.
//!
//! Everything else keeps its bytes and its order: reading a message and writing it anew would put maps in another order
//! each time.

use prost::encoding::{DecodeContext, encode_key};
use prost::encoding::{WireType, decode_key, decode_varint, encode_varint, skip_field};
use prost_reflect::{Kind, MessageDescriptor};

use crate::pool;

/// Messages within messages are looked into so far.
const DEEPEST: usize = 64;

/// A text of a message.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The full name of the message that has it.
    pub message: &'a str,
    /// The text.
    pub text: &'a str,
}

/// What becomes of texts, and of the messages that have them.
pub trait Edit {
    /// Whether encoded bytes may have a text to edit.
    fn looks(&self, bytes: &[u8]) -> bool;

    /// What becomes of a text; `None` leaves it as it is.
    fn text(&mut self, text: Text<'_>) -> Option<String>;

    /// The texts of a message, and of those within it, are about to be edited.
    fn enter(&mut self) {}

    /// What becomes of a message of that full name whose texts have been edited.
    fn leave(&mut self, _message: &str, edited: Vec<u8>) -> Vec<u8> {
        edited
    }
}

/// The encoded message with its texts edited, also those of messages in an `Any` of a known type. `None` where the type is
/// not known or the bytes are no message of it.
pub fn edit(type_url: &str, body: &[u8], edit: &mut dyn Edit) -> Option<Vec<u8>> {
    Editor { edit }.of_type(type_url, body, 0)
}

struct Editor<'e> {
    edit: &'e mut dyn Edit,
}

impl Editor<'_> {
    fn of_type(&mut self, type_url: &str, body: &[u8], depth: usize) -> Option<Vec<u8>> {
        let name = type_url.rsplit_once('/').map_or(type_url, |(_, name)| name);
        let descriptor = pool().get_message_by_name(name)?;
        self.message(&descriptor, body, depth)
    }

    fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        body: &[u8],
        depth: usize,
    ) -> Option<Vec<u8>> {
        if depth > DEEPEST || !self.edit.looks(body) {
            return Some(body.to_vec());
        }
        self.edit.enter();
        let edited = self.fields(descriptor, body, depth);
        let is_read = edited.is_some();
        // What was entered is left, whatever became of it.
        let left = edited.unwrap_or_default();
        let left = self.edit.leave(descriptor.full_name(), left);
        is_read.then_some(left)
    }

    fn fields(
        &mut self,
        descriptor: &MessageDescriptor,
        body: &[u8],
        depth: usize,
    ) -> Option<Vec<u8>> {
        let is_any = descriptor.full_name() == "google.protobuf.Any";
        let mut type_url = "";
        let mut out = Vec::with_capacity(body.len());
        let mut rest = body;
        while !rest.is_empty() {
            let before = rest;
            let (number, wire) = decode_key(&mut rest).ok()?;
            if wire != WireType::LengthDelimited {
                skip_field(wire, number, &mut rest, DecodeContext::default()).ok()?;
                out.extend_from_slice(&before[..before.len() - rest.len()]);
                continue;
            }
            let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
            let (value, after) = rest.split_at_checked(length)?;
            rest = after;
            let whole = &before[..before.len() - rest.len()];
            let edited = match (is_any, number) {
                // The type is written first.
                (true, 1) => {
                    type_url = std::str::from_utf8(value).ok()?;
                    None
                }
                (true, 2) => self.of_type(type_url, value, depth + 1),
                (true, _) => None,
                (false, _) => {
                    let kind = descriptor.get_field(number).map(|field| field.kind());
                    self.field(descriptor, kind, value, depth)
                }
            };
            match edited {
                Some(value) => {
                    encode_key(number, WireType::LengthDelimited, &mut out);
                    encode_varint(value.len() as u64, &mut out);
                    out.extend_from_slice(&value);
                }
                None => out.extend_from_slice(whole),
            }
        }
        Some(out)
    }

    fn field(
        &mut self,
        of: &MessageDescriptor,
        kind: Option<Kind>,
        value: &[u8],
        depth: usize,
    ) -> Option<Vec<u8>> {
        match kind? {
            Kind::String => {
                let text = std::str::from_utf8(value).ok()?;
                let message = of.full_name();
                self.edit
                    .text(Text { message, text })
                    .map(String::into_bytes)
            }
            Kind::Message(inner) => self.message(&inner, value, depth + 1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::{Message, Name};
    use prost_types::{Any, Struct, Value, value::Kind as ValueKind};
    use proto_envoy::envoy::config::core::v3::{Metadata, TypedExtensionConfig};

    /// Edits every text.
    struct Each<'f>(&'f mut dyn FnMut(Text<'_>) -> Option<String>);

    impl Edit for Each<'_> {
        fn looks(&self, _: &[u8]) -> bool {
            true
        }

        fn text(&mut self, text: Text<'_>) -> Option<String> {
            (self.0)(text)
        }
    }

    fn each(
        url: &str,
        body: &[u8],
        new: &mut dyn FnMut(Text<'_>) -> Option<String>,
    ) -> Option<Vec<u8>> {
        edit(url, body, &mut Each(new))
    }

    fn metadata(text: &str) -> Metadata {
        let value = Value {
            kind: Some(ValueKind::StringValue(text.to_owned())),
        };
        let fields = ["a", "b", "c", "d"].map(|key| (key.to_owned(), value.clone()));
        let fields = Struct {
            fields: fields.into(),
        };
        Metadata {
            filter_metadata: [("f".to_owned(), fields)].into(),
            ..Metadata::default()
        }
    }

    fn nested(text: &str) -> TypedExtensionConfig {
        TypedExtensionConfig {
            name: text.to_owned(),
            typed_config: Some(Any {
                type_url: Metadata::type_url(),
                value: metadata(text).encode_to_vec(),
            }),
        }
    }

    #[test]
    fn texts_are_replaced_at_every_depth_and_nothing_else() {
        let url = TypedExtensionConfig::type_url();
        let body = nested("old").encode_to_vec();
        let mut seen = Vec::new();
        let edited = each(&url, &body, &mut |text: Text<'_>| {
            seen.push(format!("{} {}", text.message, text.text));
            (text.text == "old").then(|| "a longer text".repeat(20))
        });
        let edited = TypedExtensionConfig::decode(&*edited.unwrap()).unwrap();
        assert_eq!(edited.name, "a longer text".repeat(20));
        let inner = edited.typed_config.unwrap();
        let inner = Metadata::decode(&*inner.value).unwrap();
        assert_eq!(inner, metadata(&"a longer text".repeat(20)));
        assert!(
            seen.contains(&"google.protobuf.Value old".to_owned()),
            "{seen:?}"
        );
        let same = each(&url, &body, &mut |_| None);
        assert_eq!(same.unwrap(), body);
    }

    /// Replaces the innermost `Any` that has a text.
    #[derive(Default)]
    struct Replacing(Vec<bool>);

    impl Edit for Replacing {
        fn looks(&self, bytes: &[u8]) -> bool {
            bytes.windows(3).any(|part| part == b"old")
        }

        fn text(&mut self, text: Text<'_>) -> Option<String> {
            (text.text == "old").then(|| *self.0.last_mut().unwrap() = true)?;
            None
        }

        fn enter(&mut self) {
            self.0.push(false);
        }

        fn leave(&mut self, message: &str, edited: Vec<u8>) -> Vec<u8> {
            let has = self.0.pop().unwrap();
            if has && message == "google.protobuf.Any" {
                return Vec::new();
            }
            if let Some(outer) = self.0.last_mut() {
                *outer |= has;
            }
            edited
        }
    }

    #[test]
    fn messages_are_replaced_once_their_texts_are_edited() {
        let url = TypedExtensionConfig::type_url();
        let mut message = nested("old");
        message.name = "new".to_owned();
        let mut replacing = Replacing::default();
        let edited = edit(&url, &message.encode_to_vec(), &mut replacing).unwrap();
        assert!(replacing.0.is_empty());
        let edited = TypedExtensionConfig::decode(&*edited).unwrap();
        let expected = TypedExtensionConfig {
            name: "new".to_owned(),
            typed_config: Some(Any::default()),
        };
        assert_eq!(edited, expected);
    }

    #[test]
    fn what_is_no_message_is_none() {
        let url = TypedExtensionConfig::type_url();
        for body in [&[0x0a][..], &[0x0a, 5, 1], &[0xff; 12], &[0x0b]] {
            assert_eq!(each(&url, body, &mut |_| None), None, "{body:?}");
        }
        assert_eq!(each("no.such", &[], &mut |_| None), None);
        // Of an unknown type within, nothing is looked at.
        let unknown = TypedExtensionConfig {
            name: "n".to_owned(),
            typed_config: Some(Any {
                type_url: "no.such".to_owned(),
                value: vec![0xff; 3],
            }),
        };
        let body = unknown.encode_to_vec();
        let same = each(&url, &body, &mut |_| None);
        assert_eq!(same.unwrap(), body);
    }
}
