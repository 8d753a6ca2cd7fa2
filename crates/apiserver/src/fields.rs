//! Sets of fields, as `metadata.managedFields` records them (FieldsV1).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

/// One step into an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// A field of a map or struct.
    Field(String),
    /// An item of a list, by the fields that tell items apart (as JSON, sorted by name).
    Key(String),
    /// An item of a set (as JSON).
    Value(String),
    /// An item of any other list.
    Index(usize),
}

impl Step {
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        Some(match kind {
            "f" => Self::Field(rest.to_owned()),
            // Read and written again, so that equal keys are equal texts.
            "k" => Self::Key(
                serde_json::from_str::<BTreeMap<String, Value>>(rest)
                    .ok()
                    .map(|m| key_text(&m))?,
            ),
            "v" => Self::Value(serde_json::from_str::<Value>(rest).ok()?.to_string()),
            "i" => Self::Index(rest.parse().ok()?),
            _ => return None,
        })
    }

    fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(key) => format!("k:{key}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// The text of a key.
pub fn key_text(key: &BTreeMap<String, Value>) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

impl fmt::Display for Step {
    /// As messages about conflicts show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(key) => {
                let map: BTreeMap<String, Value> = serde_json::from_str(key).unwrap_or_default();
                let parts: Vec<String> = map.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(f, "[{}]", parts.join(","))
            }
        }
    }
}

/// The way to a field.
pub type Path = Vec<Step>;

/// A way as messages show it.
pub fn path_text(path: &[Step]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// A set of fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Set(pub BTreeSet<Path>);

impl Set {
    /// Reads FieldsV1; what cannot be read is left out.
    pub fn from_json(value: &Value) -> Self {
        let mut set = Self::default();
        let mut path = Vec::new();
        set.read(value, &mut path, 0);
        set
    }

    fn read(&mut self, value: &Value, path: &mut Path, depth: usize) {
        let Some(map) = value.as_object() else { return };
        if depth > 64 {
            return;
        }
        if map.is_empty() && !path.is_empty() {
            self.0.insert(path.clone());
        }
        for (key, within) in map {
            if key == "." {
                self.0.insert(path.clone());
            } else if let Some(step) = Step::parse(key) {
                path.push(step);
                self.read(within, path, depth + 1);
                path.pop();
            }
        }
    }

    /// Writes FieldsV1.
    pub fn to_json(&self) -> Value {
        let mut root = Value::Object(Map::new());
        for path in &self.0 {
            let mut at = &mut root;
            for step in path {
                let map = crate::object::map_mut(at);
                at = map
                    .entry(step.text())
                    .or_insert_with(|| Value::Object(Map::new()));
            }
            // A field with fields below it says by a dot that it belongs to the set itself.
            crate::object::map_mut(at).insert(".".to_owned(), Value::Object(Map::new()));
        }
        strip_dots(&mut root);
        root
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).cloned().collect())
    }

    /// What is in this one only.
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    /// What is in either.
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    /// This one without what is in the other, or below what is in the other.
    pub fn without_below(&self, other: &Self) -> Self {
        let kept = self
            .0
            .iter()
            .filter(|path| !(1..=path.len()).any(|n| other.0.contains(&path[..n])));
        Self(kept.cloned().collect())
    }

    /// Whether the set has the path, or one below it.
    pub fn has_at_or_below(&self, path: &[Step]) -> bool {
        let from = path.to_vec();
        self.0
            .range(from..)
            .next()
            .is_some_and(|found| found.starts_with(path))
    }

    /// Takes out the fields that nobody manages: the API's own.
    pub fn strip(&mut self) {
        const META: [&str; 8] = [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let field =
            |step: Option<&Step>, name: &str| matches!(step, Some(Step::Field(f)) if f == name);
        self.0.retain(|path| {
            let first = path.first();
            if field(first, "apiVersion") || field(first, "kind") {
                return false;
            }
            !(field(first, "metadata")
                && (path.len() == 1 || META.iter().any(|name| field(path.get(1), name))))
        });
    }
}

fn strip_dots(value: &mut Value) {
    if let Value::Object(map) = value {
        if map.len() == 1 {
            map.remove(".");
        }
        for (key, within) in map.iter_mut() {
            if key != "." {
                strip_dots(within);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_what_was_read() {
        let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}, "f:hosts": {"v:\"a\"": {}}}});
        assert_eq!(Set::from_json(&fields).to_json(), fields);
        let turned = json!({"f:spec": {"f:ports": {"k:{\"protocol\":\"TCP\", \"port\":80}": {}}}});
        assert_eq!(
            Set::from_json(&turned).to_json(),
            json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}})
        );
    }

    #[test]
    fn paths_are_shown_as_conflicts_show_them() {
        let set =
            Set::from_json(&json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {"f:name": {}}}}}));
        assert_eq!(
            path_text(set.0.first().unwrap()),
            ".spec.ports[port=80].name"
        );
    }

    #[test]
    fn what_the_api_owns_is_managed_by_nobody() {
        let mut set = Set::from_json(
            &json!({"f:apiVersion": {}, "f:metadata": {".": {}, "f:name": {}, "f:labels": {}}, "f:data": {}}),
        );
        set.strip();
        assert_eq!(
            set.to_json(),
            json!({"f:metadata": {"f:labels": {}}, "f:data": {}})
        );
    }
}
