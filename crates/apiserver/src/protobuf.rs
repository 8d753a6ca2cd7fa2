//! Bodies in Kubernetes' protobuf encoding, which clients written in Go send for Kubernetes' own kinds.
//!
//! Only reading: every client that sends protobuf reads JSON as well. A field that the table below does not have refuses
//! the body, so that nothing is lost unseen.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::object::time_text;

/// The media type.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Messages: a line per field, `number name type`. Types: string bytes int bool time micro-time int-or-string quantity
/// fields-v1, a message of this table; `[]` and `map:` before them as in `schema/kinds.txt`. A `flag` is a bool that JSON
/// leaves out where it is false, `?` stands before what JSON has even where it is zero or empty, and `inline:` before
/// messages whose fields stand among those of the outer one.
const MESSAGES: [&str; 3] = [
    include_str!("protobuf/messages.txt"),
    include_str!("protobuf/stored.txt"),
    include_str!("protobuf/workloads.txt"),
];
/// What every such body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may stand within each other.
const DEPTH: usize = 24;

type Message = HashMap<u64, (&'static str, &'static str)>;

static TABLE: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let mut table: HashMap<&str, Message> = HashMap::new();
    let mut current = "";
    for line in MESSAGES.iter().flat_map(|text| text.lines()) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("message"), Some(name), _) => {
                current = name;
                table.entry(name).or_default();
            }
            (Some(number), Some(name), Some(kind)) => {
                if let (Ok(number), Some(fields)) = (number.parse(), table.get_mut(current)) {
                    fields.insert(number, (name, kind));
                }
            }
            _ => {}
        }
    }
    table
});

/// Why a body cannot be read. The client's to settle: it may send JSON.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not in this encoding, or cut off.
    #[error("the body is not a Kubernetes protobuf message")]
    Malformed,
    /// A kind or field that is not in the table.
    #[error("{0} is not accepted as protobuf; send JSON")]
    Unknown(String),
}

/// Reads a body.
///
/// # Errors
///
/// When it is malformed, or holds what is not known.
pub fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(DecodeError::Malformed)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Fields(envelope) {
        match field? {
            (1, Wire::Bytes(meta)) => {
                for field in Fields(meta) {
                    match field? {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    if !TABLE.contains_key(kind.as_str()) {
        return Err(DecodeError::Unknown(format!("the kind {kind:?}")));
    }
    let mut object = message(&kind, raw, 0)?;
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Ok(object)
}

enum Wire<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// The fields of a message, in the order of the wire.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(DecodeError::Malformed)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed)
    }

    fn take(&mut self, length: u64) -> Result<&'b [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| DecodeError::Malformed)?;
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(DecodeError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Wire<'b>), DecodeError> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            _ => return Err(DecodeError::Malformed),
        };
        Ok((tag >> 3, wire))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Wire<'b>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn utf8(bytes: &[u8]) -> Result<String, DecodeError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::Malformed)
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    if depth > DEPTH {
        return Err(DecodeError::Malformed);
    }
    let table = TABLE
        .get(name)
        .ok_or_else(|| DecodeError::Unknown(name.to_owned()))?;
    let mut object = Map::new();
    for field in Fields(bytes) {
        let (number, wire) = field?;
        let (field, kind) = table
            .get(&number)
            .ok_or_else(|| DecodeError::Unknown(format!("field {number} of {name}")))?;
        if let Some(item) = kind.strip_prefix("[]") {
            let list = object.entry(*field).or_insert_with(|| json!([]));
            // An item stands where it stands, also one that JSON would leave out as a field.
            let value = value(item, wire, depth)?.unwrap_or_else(|| zero(item));
            if let Value::Array(list) = list {
                list.push(value);
            }
        } else if let Some(of) = kind.strip_prefix("map:") {
            let map = object.entry(*field).or_insert_with(|| json!({}));
            if let (Value::Object(map), Wire::Bytes(entry)) = (map, wire) {
                let (mut key, mut held) = (String::new(), zero(of));
                for field in Fields(entry) {
                    match field? {
                        (1, Wire::Bytes(text)) => key = utf8(text)?,
                        (2, wire) => held = value(of, wire, depth)?.unwrap_or_else(|| zero(of)),
                        _ => return Err(DecodeError::Malformed),
                    }
                }
                map.insert(key, held);
            }
        } else if let Some(of) = kind.strip_prefix("inline:") {
            if let Some(Value::Object(inner)) = value(of, wire, depth)? {
                object.extend(inner);
            }
        } else if let Some(of) = kind.strip_prefix('?') {
            let value = value(of, wire, depth)?.unwrap_or_else(|| zero(of));
            object.insert((*field).to_owned(), value);
        } else if let Some(value) = value(kind, wire, depth)? {
            object.insert((*field).to_owned(), value);
        }
    }
    Ok(Value::Object(object))
}

/// What a value is that the wire has as nothing.
fn zero(kind: &str) -> Value {
    match kind {
        "string" | "bytes" | "quantity" => "".into(),
        "int" | "int-or-string" => 0.into(),
        "bool" | "flag" => false.into(),
        "time" | "micro-time" | "fields-v1" => Value::Null,
        _ => json!({}),
    }
}

/// A value; `None` where the wire has what JSON leaves out.
fn value(kind: &str, wire: Wire<'_>, depth: usize) -> Result<Option<Value>, DecodeError> {
    Ok(Some(match (kind, wire) {
        ("string", Wire::Bytes(text)) => {
            // Go writes texts that are empty, and leaves them out of JSON.
            let text = utf8(text)?;
            if text.is_empty() {
                return Ok(None);
            }
            text.into()
        }
        ("bytes", Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        ("int", Wire::Number(number)) => {
            #[allow(clippy::cast_possible_wrap)] // The wire has negative numbers in this form.
            let number = number as i64;
            if number == 0 {
                return Ok(None);
            }
            number.into()
        }
        ("bool", Wire::Number(number)) => (number != 0).into(),
        ("flag", Wire::Number(0)) => return Ok(None),
        ("flag", Wire::Number(_)) => true.into(),
        ("quantity", Wire::Bytes(bytes)) => quantity(bytes)?.into(),
        ("time", Wire::Bytes(bytes)) => return Ok(time(bytes)?.map(Value::from)),
        ("micro-time", Wire::Bytes(bytes)) => {
            let text = time(bytes)?.map(|text| text.replace('Z', ".000000Z"));
            return Ok(text.map(Value::from));
        }
        ("int-or-string", Wire::Bytes(bytes)) => return int_or_string(bytes),
        ("fields-v1", Wire::Bytes(bytes)) => {
            let mut fields = Value::Null;
            for field in Fields(bytes) {
                if let (1, Wire::Bytes(text)) = field? {
                    fields = serde_json::from_slice(text).map_err(|_| DecodeError::Malformed)?;
                }
            }
            fields
        }
        (name, Wire::Bytes(bytes)) => {
            let value = message(name, bytes, depth + 1)?;
            if value.as_object().is_some_and(Map::is_empty) {
                return Ok(None);
            }
            value
        }
        _ => return Err(DecodeError::Malformed),
    }))
}

/// A quantity as it is written.
fn quantity(bytes: &[u8]) -> Result<String, DecodeError> {
    let mut text = String::new();
    for field in Fields(bytes) {
        if let (1, Wire::Bytes(found)) = field? {
            text = utf8(found)?;
        }
    }
    Ok(text)
}

/// A time in whole seconds; `None` for the zero of Go's time, which lies before the epoch.
fn time(bytes: &[u8]) -> Result<Option<String>, DecodeError> {
    let mut seconds = 0;
    for field in Fields(bytes) {
        if let (1, Wire::Number(number)) = field? {
            seconds = number;
        }
    }
    let is_set = seconds != 0 && seconds <= i64::MAX as u64;
    Ok(is_set.then(|| time_text(seconds)))
}

/// A number or a text; `None` for the number 0.
fn int_or_string(bytes: &[u8]) -> Result<Option<Value>, DecodeError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in Fields(bytes) {
        match field? {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(found)) => number = found,
            (3, Wire::Bytes(found)) => text = utf8(found)?,
            _ => return Err(DecodeError::Malformed),
        }
    }
    Ok(match (is_text, number) {
        (true, _) => Some(text.into()),
        (false, 0) => None,
        (false, number) => Some(number.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
    }

    #[test]
    fn what_kubectl_sends_is_read() {
        let meta = [
            field(1, b"a"),
            field(2, b""),
            field(8, b""),
            field(11, &[field(1, b"x"), field(2, b"y")].concat()),
        ]
        .concat();
        let entry = [field(1, b"k"), field(2, b"v")].concat();
        let raw = [field(1, &meta), field(2, &entry)].concat();
        let read = decode(&envelope("ConfigMap", &raw)).unwrap();
        assert_eq!(
            read,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}})
        );
        let read = decode(&envelope(
            "Secret",
            &[field(1, &meta), field(2, &entry)].concat(),
        ))
        .unwrap();
        assert_eq!(read["data"], json!({"k": "dg=="}));
    }

    #[test]
    fn a_question_who_asks_is_read_with_its_empty_answer() {
        // As `kubectl auth whoami` sends it.
        let raw = [
            field(1, &field(1, b"")),
            field(2, &field(1, &field(1, b""))),
        ]
        .concat();
        let read = decode(&envelope("SelfSubjectReview", &raw)).unwrap();
        assert_eq!(read["kind"], "SelfSubjectReview");
    }

    #[test]
    fn a_zero_that_means_something_stays() {
        // replicas: 0; a template with a container and an empty volume; minReadySeconds: 0, which means nothing.
        let container = [field(1, b"web"), field(2, b"nginx")].concat();
        let volume = [field(1, b"v"), field(2, &field(2, b""))].concat();
        let pod = [field(1, &volume), field(2, &container)].concat();
        let spec = [vec![8, 0], field(3, &field(2, &pod)), vec![5 << 3, 0]].concat();
        let read = decode(&envelope("Deployment", &field(2, &spec))).unwrap();
        let wanted = json!({"replicas": 0, "template": {"spec": {
            "volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "web", "image": "nginx"}]}}});
        assert_eq!(read["spec"], wanted);
    }

    #[test]
    fn entries_and_items_that_are_empty_are_there() {
        // `v: ""` as Go writes it, and a key whose bytes are nil.
        let empty = [field(1, b"k"), field(2, b"")].concat();
        let read = decode(&envelope("ConfigMap", &field(2, &empty))).unwrap();
        assert_eq!(read["data"], json!({"k": ""}));
        let read = decode(&envelope("Secret", &field(2, &field(1, b"k")))).unwrap();
        assert_eq!(read["data"], json!({"k": ""}));
        let container = [field(3, b""), field(3, b"x")].concat();
        let pod = field(2, &field(2, &container));
        let read = decode(&envelope("Pod", &pod)).unwrap();
        assert_eq!(read["spec"]["containers"][0]["command"], json!(["", "x"]));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(matches!(
            decode(&envelope("Bike", b"")),
            Err(DecodeError::Unknown(_))
        ));
        assert!(matches!(
            decode(&envelope("ConfigMap", &field(9, b"x"))),
            Err(DecodeError::Unknown(_))
        ));
        for bad in [
            &b"k8s"[..],
            b"k8s\0\x0a",
            b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"{}",
        ] {
            assert!(decode(bad).is_err());
        }
    }

    #[test]
    fn every_message_that_is_named_is_there() {
        let known = [
            "string",
            "bytes",
            "int",
            "bool",
            "time",
            "micro-time",
            "int-or-string",
            "flag",
            "quantity",
            "fields-v1",
        ];
        for (name, fields) in TABLE.iter() {
            for (field, kind) in fields.values() {
                let kind = ["[]", "map:", "?", "inline:"]
                    .iter()
                    .fold(*kind, |kind, before| kind.trim_start_matches(before));
                assert!(
                    known.contains(&kind) || TABLE.contains_key(kind),
                    "{name}.{field}: {kind}"
                );
            }
        }
    }
}
