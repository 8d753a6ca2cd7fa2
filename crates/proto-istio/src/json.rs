//! Reading configuration as Istio reads it.
//!
//! The `Deserialize` implementations of the messages are strict: an unknown field is an error, and so is `null` for a
//! scalar. Istio is lenient in both, so [`from_value`] is too, but it names what it ignored. Errors carry the path of
//! the field at fault. Whether an ignored field matters is for the caller to say.

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// A message, and what its configuration held beyond it.
#[derive(Clone, Debug, PartialEq)]
pub struct Read<T> {
    /// The message.
    pub message: T,
    /// Paths of the fields that the message does not have, in the order of the input.
    pub unknown: Vec<String>,
}

/// Configuration that does not fit the message. The user who wrote it can fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Error {
    /// Path of the value at fault, as in `http[0].route[1].weight`; `.` for the message itself.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads a message from JSON.
///
/// Unknown fields are ignored and listed; `null` means that the field is absent; numbers may be quoted; fields have
/// their JSON name or their name in the `.proto` file.
///
/// # Errors
/// A field of the message has a value that does not fit.
// Istio: the UnmarshalJSON methods of istio/api, which are golang/protobuf's jsonpb with AllowUnknownFields.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<Read<T>, Error> {
    let notes = RefCell::new(Notes::default());
    let result = T::deserialize(Lenient {
        value,
        path: &Path::Root,
        notes: &notes,
    });
    let notes = notes.into_inner();
    match result {
        Ok(message) => Ok(Read {
            message,
            unknown: notes.unknown,
        }),
        Err(error) => Err(Error {
            path: notes.failed.unwrap_or_else(|| ".".to_owned()),
            reason: error.to_string(),
        }),
    }
}

/// What reading found besides the message.
#[derive(Default)]
struct Notes {
    unknown: Vec<String>,
    failed: Option<String>,
}

impl Notes {
    /// The innermost value that fails is the first to say so.
    fn fail(&mut self, path: &Path<'_>) {
        self.failed.get_or_insert_with(|| path.to_string());
    }
}

/// Where a value lies, from the inside outwards.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A JSON value that hides from messages what they would reject but Istio ignores.
#[derive(Clone, Copy)]
struct Lenient<'de, 'a> {
    value: &'de Value,
    path: &'a Path<'a>,
    notes: &'a RefCell<Notes>,
}

/// Methods for numbers, which may be quoted.
macro_rules! quoted {
    ($($method:ident $visit:ident $number:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            match self.value.as_str().and_then(|text| text.parse::<$number>().ok()) {
                Some(number) => visitor.$visit(number),
                None => self.value.$method(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Lenient<'de, '_> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.value.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.value {
            Value::Array(values) => visitor.visit_seq(Elements {
                values: values.iter().enumerate(),
                of: self,
            }),
            other => other.deserialize_seq(visitor),
        }
    }

    /// A map with keys of the user's choice.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.value {
            Value::Object(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                fields: None,
                current: None,
                of: self,
            }),
            other => other.deserialize_map(visitor),
        }
    }

    /// A message.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.value {
            Value::Object(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                fields: Some(fields),
                current: None,
                of: self,
            }),
            other => other.deserialize_struct(name, fields, visitor),
        }
    }

    quoted!(
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_f32 visit_f32 f32,
        deserialize_f64 visit_f64 f64
    );

    forward_to_deserialize_any! {
        bool i8 i16 i128 u8 u16 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
        ignored_any
    }
}

/// The values of an array.
struct Elements<'de, 'a> {
    values: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    of: Lenient<'de, 'a>,
}

impl<'de> SeqAccess<'de> for Elements<'de, '_> {
    type Error = serde_json::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Self::Error> {
        let Some((index, value)) = self.values.next() else {
            return Ok(None);
        };
        let path = Path::Index(self.of.path, index);
        let result = seed.deserialize(Lenient {
            value,
            path: &path,
            notes: self.of.notes,
        });
        result
            .map(Some)
            .inspect_err(|_| self.of.notes.borrow_mut().fail(&path))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

/// The entries of an object: of a message when `fields` lists what it has.
struct Entries<'de, 'a> {
    entries: serde_json::map::Iter<'de>,
    fields: Option<&'static [&'static str]>,
    current: Option<(&'de str, &'de Value)>,
    of: Lenient<'de, 'a>,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        for (key, value) in self.entries.by_ref() {
            if let Some(fields) = self.fields {
                if !fields.contains(&key.as_str()) {
                    self.of
                        .notes
                        .borrow_mut()
                        .unknown
                        .push(Path::Field(self.of.path, key).to_string());
                    continue;
                }
                if value.is_null() {
                    continue;
                }
            }
            self.current = Some((key, value));
            let result = seed.deserialize(StrDeserializer::new(key)).map(Some);
            return result.inspect_err(|_| {
                self.of
                    .notes
                    .borrow_mut()
                    .fail(&Path::Field(self.of.path, key))
            });
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        let (key, value) = self.current.take().unwrap_or(("", &Value::Null));
        let path = Path::Field(self.of.path, key);
        let result = seed.deserialize(Lenient {
            value,
            path: &path,
            notes: self.of.notes,
        });
        result.inspect_err(|_| self.of.notes.borrow_mut().fail(&path))
    }
}
