//! `ConfigMap` and `Secret`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Named texts.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMap {
    /// Texts by name.
    #[serde(deserialize_with = "entries")]
    pub data: BTreeMap<Arc<str>, Arc<str>>,
    /// Bytes by name.
    #[serde(deserialize_with = "entries")]
    pub binary_data: BTreeMap<Arc<str>, Base64>,
}

/// Named secret values. Their contents never show in `Debug`.
#[derive(Clone, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[serde(default, from = "RawSecret")]
pub struct Secret {
    /// `kubernetes.io/tls`, `Opaque`, ...
    #[serde(rename = "type")]
    pub secret_type: Arc<str>,
    /// Values by name; what was written under `stringData` stands among them and wins.
    pub data: BTreeMap<Arc<str>, Base64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSecret {
    #[serde(rename = "type")]
    secret_type: Arc<str>,
    #[serde(deserialize_with = "entries")]
    data: BTreeMap<Arc<str>, Base64>,
    #[serde(deserialize_with = "entries")]
    string_data: BTreeMap<Arc<str>, Arc<str>>,
}

/// Values by name; `null` is an empty one, as for an API server.
fn entries<'de, D, V>(deserializer: D) -> Result<BTreeMap<Arc<str>, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de> + Default,
{
    let read = BTreeMap::<Arc<str>, Option<V>>::deserialize(deserializer)?;
    let entries = read.into_iter();
    Ok(entries.map(|(k, v)| (k, v.unwrap_or_default())).collect())
}

impl From<RawSecret> for Secret {
    fn from(raw: RawSecret) -> Self {
        let mut data = raw.data;
        data.extend(
            raw.string_data
                .into_iter()
                .map(|(name, text)| (name, Base64(text.as_bytes().into()))),
        );
        Self {
            secret_type: raw.secret_type,
            data,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("secret_type", &self.secret_type)
            .field("data", &self.data.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// Bytes that are written in base64. `Debug` and `Serialize` show their length only.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Base64(pub Arc<[u8]>);

impl std::ops::Deref for Base64 {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// Shows the length only: what serializes objects are pages for people.
impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const BASE64: GeneralPurpose = GeneralPurpose::new(
            &alphabet::STANDARD,
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let mut text = String::deserialize(deserializer)?;
        // Folded texts carry line breaks, which Go's decoder skips as well.
        text.retain(|c| c != '\n' && c != '\r');
        let bytes = BASE64
            .decode(text)
            .map_err(|_| D::Error::custom("not base64"))?;
        Ok(Self(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_a_secret_shows_names_and_no_values() {
        let secret: Secret = serde_json::from_str(
            r#"{"type": "T", "data": {"a": "b3BhcXVl"}, "stringData": {"b": "hidden"}}"#,
        )
        .unwrap();
        assert_eq!(&*secret.data["a"], b"opaque");
        assert_eq!(&*secret.data["b"], b"hidden");
        let debug = format!("{secret:?}");
        assert!(debug.contains("\"a\"") && !debug.contains("hidden") && !debug.contains("opaque"));
    }

    #[test]
    fn a_value_that_is_null_is_empty() {
        let secret = r#"{"data": {"a": null, "b": "eA=="}, "stringData": {"c": null}}"#;
        let secret: Secret = serde_json::from_str(secret).unwrap();
        let values: Vec<(&str, &[u8])> = secret.data.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(values, [("a", &b""[..]), ("b", b"x"), ("c", b"")]);
        let map = r#"{"data": {"a": null}, "binaryData": {"b": null}}"#;
        let map: ConfigMap = serde_json::from_str(map).unwrap();
        assert!(map.data["a"].is_empty() && map.binary_data["b"].is_empty());
    }
}
