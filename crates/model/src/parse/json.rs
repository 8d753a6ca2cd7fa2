//! Between objects, JSON and YAML.

use std::fmt;
use std::path::Path as FilePath;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::map::{Entry, Map};

use super::node::{Node, Path, Place, Span, Value};
use super::yaml::{Duplicate, Duplicates};
use super::{Judge, Parsed, Reader, Unjudged, Validation, yaml};

/// A document as JSON.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Line of its first content, counted from 1.
    pub line: u32,
    /// The value. Of duplicate keys the last one is in it, as in Kubernetes.
    pub value: Json,
    /// Keys that the same map has twice. Of very many not all are listed.
    pub duplicates: Vec<DuplicateKey>,
}

/// A key that the same map has twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DuplicateKey {
    /// The key.
    pub path: Path,
    /// Line of the later of the two, or of the document where `first_line` is not known.
    pub line: u32,
    /// Line of the first of the two; none in JSON.
    pub first_line: Option<u32>,
}

impl DuplicateKey {
    fn of(duplicate: Duplicate<'_>) -> Self {
        Self {
            path: duplicate.path,
            line: duplicate.span.line,
            first_line: duplicate.first_line,
        }
    }

    /// What is wrong, in a sentence.
    pub fn message(&self) -> String {
        yaml::message(self.first_line)
    }
}

/// Reads JSON with the duplicate keys in it, within the limits of [`serde_json`].
///
/// # Errors
///
/// When it is not JSON, or nested too deeply.
pub fn decode_json(text: &[u8]) -> serde_json::Result<Decoded> {
    let (value, duplicates) = read(text, TOP)?;
    Ok(Decoded {
        line: TOP.line,
        value,
        duplicates: listed(duplicates.into_vec()),
    })
}

/// As [`to_json`], with the duplicate keys in each document.
pub fn decode_yaml(text: &str) -> Vec<Result<Decoded, String>> {
    let documents = yaml::documents(text);
    let read = documents.map(|d| match d.node {
        Ok(node) => Ok(Decoded {
            line: d.line,
            value: json(node),
            duplicates: listed(d.duplicates),
        }),
        Err(error) => Err(format!("line {}: {}", error.span.line, error.message)),
    });
    read.filter(|d| !matches!(d, Ok(decoded) if decoded.value.is_null()))
        .collect()
}

fn listed(duplicates: Vec<Duplicate<'_>>) -> Vec<DuplicateKey> {
    duplicates.into_iter().map(DuplicateKey::of).collect()
}

const TOP: Span = Span {
    line: 1,
    column: 0,
    length: 0,
};

/// Reads JSON with the duplicate keys in it. `span` is where it stands.
pub(super) fn read(text: &[u8], span: Span) -> serde_json::Result<(Json, Duplicates<'static>)> {
    let mut found = Duplicates::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let seed = Within {
        place: &Place::Top,
        span,
        found: &mut found,
    };
    let value = seed.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, found))
}

/// A value that is read, and where.
struct Within<'p> {
    place: &'p Place<'p>,
    span: Span,
    found: &'p mut Duplicates<'static>,
}

impl<'de> DeserializeSeed<'de> for Within<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let Self { place, span, found } = self;
        let mut items = Vec::new();
        loop {
            let seed = Within {
                place: &Place::Item(place, items.len()),
                span,
                found: &mut *found,
            };
            match access.next_element_seed(seed)? {
                Some(item) => items.push(item),
                None => return Ok(Json::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let Self { place, span, found } = self;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let seed = Within {
                place: &Place::Field(place, &key),
                span,
                found: &mut *found,
            };
            let value = access.next_value_seed(seed)?;
            match map.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(value);
                }
                Entry::Occupied(mut taken) => {
                    let earlier = taken.insert(value);
                    if found.has_room() {
                        found.push(Duplicate {
                            path: Place::Field(place, taken.key()).path(),
                            span,
                            first_line: None,
                            earlier: Node::from_json(earlier, span),
                        });
                    }
                }
            }
        }
        Ok(Json::Object(map))
    }
}

/// Reads an object that is JSON already. `file` is where it comes from, for people to find it.
pub fn from_json(json: serde_json::Value, file: &Arc<FilePath>, validation: Validation) -> Parsed {
    from_json_judged(json, file, validation, &Unjudged)
}

/// As [`from_json`], with what `judge` has to say about the object. Its errors refuse an object as
/// [`Validation::Strict`] says.
pub fn from_json_judged(
    json: serde_json::Value,
    file: &Arc<FilePath>,
    validation: Validation,
    judge: &dyn Judge,
) -> Parsed {
    let mut reader = Reader::new("", file, validation);
    reader.judge = judge;
    reader.node(Node::from_json(json, TOP), TOP.line, Vec::new());
    reader.parsed
}

/// The documents of a YAML text as JSON, with the scalars that Kubernetes takes them for; those without content are
/// left out. What cannot be read says why.
pub fn to_json(text: &str) -> Vec<Result<serde_json::Value, String>> {
    let read = decode_yaml(text).into_iter();
    read.map(|d| d.map(|decoded| decoded.value)).collect()
}

fn json(node: Node<'_>) -> serde_json::Value {
    match node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => value.into(),
        Value::Int(value) => value.into(),
        Value::UInt(value) => value.into(),
        Value::Float(value) => value.into(),
        Value::String(text) => text.into_owned().into(),
        Value::Seq(items) => items.into_iter().map(json).collect(),
        Value::Map(entries) => {
            let fields = entries.into_iter();
            fields
                .map(|e| (e.key.into_owned(), json(e.value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_becomes_the_json_that_kubernetes_reads() {
        let read = to_json("a: 1\nb: [x, yes, 1.5, ~]\n---\n# nothing\n---\nc: \"2\"\n");
        let wanted = [
            serde_json::json!({"a": 1, "b": ["x", true, 1.5, null]}),
            serde_json::json!({"c": "2"}),
        ];
        let read: Result<Vec<_>, _> = read.into_iter().collect();
        assert_eq!(read.unwrap(), wanted);
        assert!(to_json("a: [")[0].is_err());
    }

    #[test]
    fn json_is_read_as_serde_json_reads_it_with_the_keys_that_stand_twice() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        for text in [
            r#"{"a": [null, true, -1, 18446744073709551615, 1.5, -0.0, "x\n"], "b": {"": {}}}"#,
            r#" {"a": 1, "a": {"b": 2, "b": 3}} "#,
            "1e400",
            r#"{"a": 1} x"#,
            r#"{"a": "\ud800"}"#,
            "",
            &deep(127),
            &deep(200),
        ] {
            let wanted: Option<Json> = serde_json::from_str(text).ok();
            let read = decode_json(text.as_bytes()).ok();
            assert_eq!(read.map(|decoded| decoded.value), wanted, "{text}");
        }
        let text =
            r#"[{"s": {"a": 1, "b": 2, "a": 3}}, {"s": 1}, {"s": 2, "s": {"x": 1, "x": 2}}]"#;
        let read = decode_json(text.as_bytes()).unwrap();
        let found: Vec<String> = read.duplicates.iter().map(|d| d.path.to_string()).collect();
        assert_eq!(found, ["[0].s.a", "[2].s.x", "[2].s"]);
        assert_eq!(read.value[0]["s"]["a"], 3);
    }

    #[test]
    fn duplicate_keys_of_yaml_come_with_their_lines() {
        let read = decode_yaml("a: 1\n---\nb:\n  k: 1\n  k: 2\n")
            .remove(1)
            .unwrap();
        assert_eq!(read.line, 3);
        let wanted = DuplicateKey {
            path: Path::of("b").with("k"),
            line: 5,
            first_line: Some(4),
        };
        assert_eq!(read.duplicates, [wanted]);
    }

    #[test]
    fn an_object_of_json_is_read_as_one_of_yaml() {
        let json = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let parsed = from_json(json, &FilePath::new("api").into(), Validation::Strict);
        assert_eq!(parsed.objects().count(), 1);
        assert!(parsed.diagnostics.is_empty());
    }
}
