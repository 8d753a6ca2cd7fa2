//! Secrets are shown without their values: how long each is, and whether it is another one than before.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// Where kubectl keeps the whole object that was applied last.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Where an object has values that are not shown, and whether they are base64.
const PLACES: [(&str, bool); 3] = [
    ("/data", true),
    ("/stringData", false),
    ("/metadata/annotations", false),
];

/// Takes the values out of an object, if it is a Secret, or a list of objects.
pub(super) fn redact(object: &mut Value) {
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(redact);
    }
    each(object, |_, _| "");
}

/// Takes the values out of two versions of an object; of the later one it is said which of them changed.
pub(super) fn redact_both(before: &mut Value, after: &mut Value) {
    let was = before.clone();
    redact(before);
    each(after, |path, value| match was.pointer(path) {
        Some(same) if same == value => "",
        Some(_) => ", changed",
        None => "",
    });
}

/// Replaces the values of a Secret by what may be shown; `note` says something of each, by its JSON pointer.
fn each(object: &mut Value, note: impl Fn(&str, &Value) -> &'static str) {
    let is = |field, wanted| object.get(field).is_some_and(|said| said == wanted);
    if !is("kind", "Secret") || !is("apiVersion", "v1") {
        return;
    }
    for (place, is_encoded) in PLACES {
        let Some(values) = object.pointer_mut(place).and_then(Value::as_object_mut) else {
            continue;
        };
        let all = values.iter_mut();
        for (key, value) in
            all.filter(|(key, _)| !place.ends_with("annotations") || *key == APPLIED)
        {
            let key = key.replace('~', "~0").replace('/', "~1");
            let note = note(&format!("{place}/{key}"), value);
            let bytes = length(value, is_encoded);
            *value = format!("<redacted, {bytes} bytes{note}>").into();
        }
    }
}

/// How many bytes a value has.
fn length(value: &Value, is_encoded: bool) -> usize {
    let text = value.as_str().unwrap_or_default();
    match is_encoded.then(|| BASE64_STANDARD.decode(text)) {
        Some(Ok(bytes)) => bytes.len(),
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(data: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a", "annotations": {"of": "me", APPLIED: "{\"data\": \"hidden\"}"}},
            "data": data, "stringData": {"plain": "hidden"},
        })
    }

    #[test]
    fn no_value_is_left_and_changes_are_told() {
        let mut before =
            secret(json!({"same": "aGlkZGVu", "edited/key": "aGlkZGVu", "gone": "aGlkZGVu"}));
        let mut after =
            secret(json!({"same": "aGlkZGVu", "edited/key": "aGlkZGVuMg==", "new": "aGlkZGVu"}));
        redact_both(&mut before, &mut after);
        for shown in [&before, &after] {
            let text = shown.to_string();
            assert!(
                !text.contains("hidden") && !text.contains("aGlkZGVu"),
                "{text}"
            );
            assert_eq!(shown["metadata"]["annotations"]["of"], "me");
        }
        assert_eq!(before["data"]["edited/key"], "<redacted, 6 bytes>");
        assert_eq!(
            after["data"],
            json!({
                "same": "<redacted, 6 bytes>",
                "edited/key": "<redacted, 7 bytes, changed>",
                "new": "<redacted, 6 bytes>",
            })
        );
    }

    #[test]
    fn lists_are_looked_through_and_other_kinds_are_shown() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "seen"}});
        let mut list =
            json!({"kind": "List", "items": [secret(json!({"k": "aGlkZGVu"})), map.clone()]});
        redact(&mut list);
        assert_eq!(list["items"][0]["data"]["k"], "<redacted, 6 bytes>");
        assert_eq!(list["items"][1], map);
        let mut nothing = Value::Null;
        redact_both(&mut nothing, &mut Value::Null);
        assert!(nothing.is_null());
    }
}
