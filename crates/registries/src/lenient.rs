//! JSON of registries, whose writers are many: texts that may be numbers, and metadata that holds anything.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// More pairs of metadata of one instance than this are not read.
const MOST_PAIRS: usize = 500;

/// A text, number or truth value as text; anything else is none.
pub(crate) struct Scalar(pub(crate) Option<Arc<str>>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(Some(text.into())))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }
}

/// Metadata. What is no text is not there.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Pairs(pub(crate) BTreeMap<Arc<str>, Arc<str>>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Pairs, E> {
        Ok(Pairs::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<Arc<str>, Scalar>()? {
            if pairs.len() == MOST_PAIRS {
                return Err(Error::custom("too many pairs of metadata"));
            }
            if let Some(value) = value.0 {
                pairs.insert(key, value);
            }
        }
        Ok(Pairs(pairs))
    }
}

/// Reads a text, or what is written in place of one.
pub(crate) fn text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<str>>, D::Error> {
    Ok(Scalar::deserialize(deserializer)?.0)
}
