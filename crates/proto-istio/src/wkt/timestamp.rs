//! Text of points in time, RFC 3339.

use std::borrow::Cow;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Timestamp;

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let expected = "a time such as 2006-01-02T15:04:05Z";
        let time = text
            .parse()
            .map_err(|_| Error::invalid_value(Unexpected::Str(&text), &expected))?;
        Ok(Self(time))
    }
}
