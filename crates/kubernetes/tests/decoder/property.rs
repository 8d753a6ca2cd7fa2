//! What is read of an object is a part of it, and whatever JSON takes for an object is read.

use serde_json::Value;

/// Reads bytes as an object, once whole and once without what nobody reads, by `read`.
pub(crate) fn check(bytes: &[u8], read: impl Fn(&[u8]) -> Option<Value>) {
    if let Ok(whole @ Value::Object(_)) = serde_json::from_slice(bytes) {
        let part = read(bytes).expect("an object is read");
        assert!(is_part(&part, &whole), "{part} is no part of {whole}");
    }
}

fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|whole| is_part(value, whole))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(p, w)| is_part(p, w))
        }
        _ => part == whole,
    }
}
