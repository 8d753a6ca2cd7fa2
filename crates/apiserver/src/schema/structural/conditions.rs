//! Schemas within `allOf`, `anyOf`, `oneOf` and `not`: they narrow what is there, and describe nothing.

use serde_json::{Map, Value};

use super::{DEEPEST, MOST, Walk, omitted};

impl Walk {
    /// Judges the conditions of a schema.
    pub(super) fn conditions(&mut self, map: &Map<String, Value>, path: &str, depth: usize) {
        // The form in which definitions say that a value is a number or a text.
        let skips_types = map
            .get("x-kubernetes-int-or-string")
            .is_some_and(|v| *v == true);
        self.conditions_of(map, path, skips_types, depth);
    }

    fn conditions_of(
        &mut self,
        map: &Map<String, Value>,
        path: &str,
        skips_types: bool,
        depth: usize,
    ) {
        for word in ["allOf", "anyOf", "oneOf"] {
            let all = map.get(word).and_then(Value::as_array);
            for (index, inner) in all.into_iter().flatten().enumerate() {
                let at = format!("{path}.{word}[{index}]");
                self.condition(inner, &at, skips_types, depth + 1);
            }
        }
        if let Some(inner) = map.get("not") {
            self.condition(inner, &format!("{path}.not"), false, depth + 1);
        }
    }

    fn condition(&mut self, schema: &Value, path: &str, skips_types: bool, depth: usize) {
        let Some(map) = schema.as_object() else {
            return self.0.push(omitted(path.to_owned(), "must be a schema"));
        };
        if self.0.len() >= MOST {
            return;
        }
        if depth > DEEPEST {
            return self.forbid(path.to_owned(), "is nested too deeply");
        }
        const DESCRIBING: [(&str, &str); 12] = [
            ("type", "must be empty to be structural"),
            ("additionalProperties", "must be undefined to be structural"),
            ("default", "must be undefined to be structural"),
            ("title", "must be empty to be structural"),
            ("description", "must be empty to be structural"),
            ("nullable", "must be false to be structural"),
            (
                "x-kubernetes-preserve-unknown-fields",
                "must be false to be structural",
            ),
            (
                "x-kubernetes-embedded-resource",
                "must be false to be structural",
            ),
            (
                "x-kubernetes-int-or-string",
                "must be false to be structural",
            ),
            (
                "x-kubernetes-list-map-keys",
                "must be empty to be structural",
            ),
            (
                "x-kubernetes-list-type",
                "must be undefined to be structural",
            ),
            (
                "x-kubernetes-map-type",
                "must be undefined to be structural",
            ),
        ];
        for (word, detail) in DESCRIBING {
            let is_there = map
                .get(word)
                .is_some_and(|v| !v.is_null() && *v != false && *v != "");
            if is_there && !(word == "type" && skips_types) {
                self.forbid(format!("{path}.{word}"), detail);
            }
        }
        let properties = map.get("properties").and_then(Value::as_object);
        for (name, inner) in properties.into_iter().flatten() {
            let at = format!("{path}.properties[{name}]");
            self.condition(inner, &at, false, depth + 1);
        }
        if let Some(inner) = map.get("items") {
            self.condition(inner, &format!("{path}.items"), false, depth + 1);
        }
        self.conditions_of(map, path, skips_types, depth);
    }
}
