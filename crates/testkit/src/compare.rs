//! Where two JSON values differ.

use serde_json::Value;

/// The paths at which two values differ, with what stands there. Numbers that are equal are equal however written.
pub fn differences(wanted: &Value, got: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", wanted, got, &mut found);
    found
}

fn compare(path: &str, wanted: &Value, got: &Value, found: &mut Vec<String>) {
    match (wanted, got) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let here = format!("{path}.{key}");
                match b.get(key) {
                    Some(other) => compare(&here, value, other, found),
                    None => found.push(format!("{here}: missing {value}")),
                }
            }
            for (key, value) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                found.push(format!("{path}.{key}: more than wanted {value}"));
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}[{at}]"), a, b, found);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: wanted {a}, got {b}")),
    }
}
