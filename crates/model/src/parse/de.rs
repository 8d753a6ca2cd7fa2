//! Trees to typed values, with errors that name the field.

use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess};
use serde::de::{IntoDeserializer, Unexpected, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::nearest::nearest;
use super::node::{Entry, Node, Span, Step, Value};

/// What does not fit, and where.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) problem: Problem,
    /// From the innermost step outwards.
    pub(super) steps: Vec<Step>,
    pub(super) span: Option<Span>,
}

/// What does not fit.
#[derive(Debug)]
pub(super) enum Problem {
    /// The type has no such field.
    UnknownField { help: Option<String> },
    /// A value of the wrong type or outside its range.
    Invalid {
        message: String,
        help: Option<String>,
    },
    /// A field that must be there.
    Missing(&'static str),
}

impl Error {
    fn new(problem: Problem) -> Self {
        Self {
            problem,
            steps: Vec::new(),
            span: None,
        }
    }

    fn within(mut self, step: Step, span: Span) -> Self {
        self.span.get_or_insert(span);
        self.steps.push(step);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::UnknownField { .. } => f.write_str("unknown field"),
            Problem::Invalid { message, .. } => f.write_str(message),
            Problem::Missing(field) => write!(f, "the field `{field}` is missing"),
        }
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Problem::Invalid {
            message: message.to_string(),
            help: None,
        })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string() {
            name if name.starts_with(['i', 'u']) && name[1..].parse::<u8>().is_ok() => {
                "a whole number in range".to_owned()
            }
            name if name == "a string" => "text".to_owned(),
            name if name == "a boolean" => "true or false".to_owned(),
            other => other,
        };
        Self::custom(format_args!("expected {expected}, found {}", Found(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, valid: &'static [&'static str]) -> Self {
        let list = valid.join(", ");
        Self::new(Problem::Invalid {
            message: format!("{variant:?} is none of {list}"),
            help: nearest(variant, valid.iter().copied()).map(|n| format!("did you mean `{n}`?")),
        })
    }

    fn unknown_field(field: &str, valid: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownField {
            help: super::check::field_help(field, valid.iter().copied()),
        })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Problem::Missing(field))
    }
}

struct Found<'a>(Unexpected<'a>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unexpected::Str(text) => write!(f, "the text {text:?}"),
            Unexpected::Unit => f.write_str("null"),
            Unexpected::Map => f.write_str("a map"),
            Unexpected::Seq => f.write_str("a list"),
            Unexpected::Bool(value) => write!(f, "the boolean {value}"),
            Unexpected::Signed(value) => write!(f, "the number {value}"),
            Unexpected::Unsigned(value) => write!(f, "the number {value}"),
            Unexpected::Float(value) => write!(f, "the number {value}"),
            other => write!(f, "{other}"),
        }
    }
}

impl<'de> Deserializer<'de> for &'de Node<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            Value::UInt(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Seq(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Map(entries) => visitor.visit_map(Fields {
                entries: entries.iter(),
                current: None,
                nulls: true,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// `null` is as if the field were not there, as in Go's JSON.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.value {
            Value::Map(entries) => visitor.visit_map(Fields {
                entries: entries.iter(),
                current: None,
                nulls: false,
            }),
            Value::Seq(_) => Err(serde::de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.value {
            Value::String(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
            Value::Map(entries) if entries.len() == 1 => visitor.visit_enum(Variant(&entries[0])),
            _ => Err(serde::de::Error::custom(format_args!(
                "expected a name, found {}",
                self.value
            ))),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de Node<'_> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

struct Items<'de, 'a>(std::iter::Enumerate<std::slice::Iter<'de, Node<'a>>>);

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((index, node)) = self.0.next() else {
            return Ok(None);
        };
        seed.deserialize(node)
            .map(Some)
            .map_err(|e| e.within(Step::Index(index), node.span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Fields<'de, 'a> {
    entries: std::slice::Iter<'de, Entry<'a>>,
    current: Option<&'de Entry<'a>>,
    nulls: bool,
}

impl<'de> MapAccess<'de> for Fields<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let nulls = self.nulls;
        self.current = self.entries.find(|e| nulls || !e.value.is_null());
        let Some(entry) = self.current else {
            return Ok(None);
        };
        seed.deserialize(StrDeserializer::<Error>::new(&entry.key))
            .map(Some)
            .map_err(|e| e.within(Step::Field((&*entry.key).into()), entry.at))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let entry = self.current.take().ok_or_else(|| {
            <Error as serde::de::Error>::custom("a value is asked for before its key")
        })?;
        seed.deserialize(&entry.value)
            .map_err(|e| e.within(Step::Field((&*entry.key).into()), entry.value.span))
    }
}

/// A map of one entry as an enum variant with content.
struct Variant<'de, 'a>(&'de Entry<'a>);

impl<'de, 'a> EnumAccess<'de> for Variant<'de, 'a> {
    type Error = Error;
    type Variant = &'de Node<'a>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Self::Variant), Error> {
        let variant = seed.deserialize(StrDeserializer::<Error>::new(&self.0.key))?;
        Ok((variant, &self.0.value))
    }
}

impl<'de> VariantAccess<'de> for &'de Node<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}
