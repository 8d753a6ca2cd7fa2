//! The difference of two documents as a JSON patch.
// Go: gomodules.xyz/jsonpatch/v2 CreatePatch, 2.5.

use serde_json::{Map, Value, json};

/// Operations of RFC 6902 that make `after` of `before`. Lists are compared item by item: of two lengths, the shorter is
/// kept and the rest is added or removed at the end.
pub(crate) fn difference(before: &Value, after: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    values(before, after, &mut String::new(), &mut out);
    out
}

/// Operations that add what `typed` has beyond `raw`, so that a patch of the one fits the other: Kubernetes' API server
/// sends objects as its types hold them, another may leave out what is empty.
pub(crate) fn completion(raw: &Value, typed: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    complete(raw, typed, &mut String::new(), &mut out);
    out
}

fn complete(raw: &Value, typed: &Value, path: &mut String, out: &mut Vec<Value>) {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            for (key, value) in typed {
                below(path, key, |path| match raw.get(key) {
                    None | Some(Value::Null) if value.is_null() => {}
                    None | Some(Value::Null) => {
                        out.push(json!({"op": "add", "path": path, "value": value}));
                    }
                    Some(known) => complete(known, value, path, out),
                });
            }
        }
        (Value::Array(raw), Value::Array(typed)) => {
            for (at, (raw, typed)) in raw.iter().zip(typed).enumerate() {
                below(path, &at.to_string(), |path| {
                    complete(raw, typed, path, out)
                });
            }
        }
        _ => {}
    }
}

fn values(before: &Value, after: &Value, path: &mut String, out: &mut Vec<Value>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => maps(before, after, path, out),
        (Value::Array(before), Value::Array(after)) => lists(before, after, path, out),
        _ if before == after => {}
        _ => out.push(json!({"op": "replace", "path": path, "value": after})),
    }
}

fn below<T>(path: &mut String, key: &str, then: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push('/');
    for c in key.chars() {
        match c {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            c => path.push(c),
        }
    }
    let done = then(path);
    path.truncate(length);
    done
}

fn maps(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &mut String,
    out: &mut Vec<Value>,
) {
    for (key, value) in after {
        below(path, key, |path| match before.get(key) {
            Some(known) => values(known, value, path, out),
            None => out.push(json!({"op": "add", "path": path, "value": value})),
        });
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        below(path, key, |path| {
            out.push(json!({"op": "remove", "path": path}))
        });
    }
}

fn lists(before: &[Value], after: &[Value], path: &mut String, out: &mut Vec<Value>) {
    let both = before.len().min(after.len());
    for at in (both..before.len()).rev() {
        below(path, &at.to_string(), |path| {
            out.push(json!({"op": "remove", "path": path}));
        });
    }
    for (at, value) in after.iter().enumerate().skip(both) {
        below(path, &at.to_string(), |path| {
            out.push(json!({"op": "add", "path": path, "value": value}));
        });
    }
    for (at, (before, after)) in before.iter().zip(after).enumerate() {
        below(path, &at.to_string(), |path| {
            values(before, after, path, out)
        });
    }
}
