//! JSON values as messages: `Struct`, `Value` and `ListValue`.

use std::collections::BTreeMap;
use std::fmt;

use prost_types::value::Kind;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ListValue, Struct, Value};

/// A borrowed value, to serialize what lies inside the types of `prost-types`.
struct Borrowed<'a>(&'a prost_types::Value);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.kind {
            None | Some(Kind::NullValue(_)) => serializer.serialize_unit(),
            Some(Kind::BoolValue(value)) => serializer.serialize_bool(*value),
            Some(Kind::StringValue(value)) => serializer.serialize_str(value),
            Some(Kind::StructValue(value)) => object(value, serializer),
            Some(Kind::ListValue(value)) => array(value, serializer),
            Some(Kind::NumberValue(value)) => number(*value, serializer),
        }
    }
}

/// Whole numbers print without a decimal point, as protobuf's JSON does.
fn number<S: Serializer>(value: f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// Every whole number up to here has an exact `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !value.is_finite() {
        return Err(S::Error::custom("a number in JSON is finite"));
    }
    if value.fract() == 0.0 && value.abs() <= EXACT {
        serializer.serialize_i64(value as i64)
    } else {
        serializer.serialize_f64(value)
    }
}

fn object<S: Serializer>(value: &prost_types::Struct, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(value.fields.len()))?;
    for (key, value) in &value.fields {
        map.serialize_entry(key, &Borrowed(value))?;
    }
    map.end()
}

fn array<S: Serializer>(value: &prost_types::ListValue, serializer: S) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(Some(value.values.len()))?;
    for value in &value.values {
        seq.serialize_element(&Borrowed(value))?;
    }
    seq.end()
}

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        object(&self.0, serializer)
    }
}

impl Serialize for ListValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        array(&self.0, serializer)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Borrowed(&self.0).serialize(serializer)
    }
}

/// Reads one value of `prost-types`.
struct Read;

impl<'de> DeserializeSeed<'de> for Read {
    type Value = prost_types::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read {
    type Value = prost_types::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok((value as f64).into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok((value as f64).into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Self::Value, E> {
        Ok(Kind::StringValue(value).into())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Kind::NullValue(0).into())
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        Ok(Kind::ListValue(ReadList.visit_seq(seq)?).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(Kind::StructValue(ReadStruct.visit_map(map)?).into())
    }
}

struct ReadStruct;

impl<'de> Visitor<'de> for ReadStruct {
    type Value = prost_types::Struct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            fields.insert(key, map.next_value_seed(Read)?);
        }
        Ok(prost_types::Struct { fields })
    }
}

struct ReadList;

impl<'de> Visitor<'de> for ReadList {
    type Value = prost_types::ListValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(1024));
        while let Some(value) = seq.next_element_seed(Read)? {
            values.push(value);
        }
        Ok(prost_types::ListValue { values })
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadStruct).map(Self)
    }
}

impl<'de> Deserialize<'de> for ListValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ReadList).map(Self)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Read.deserialize(deserializer).map(Self)
    }
}
