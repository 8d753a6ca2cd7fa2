//! How the YAML of recordings is read.

use std::path::Path;

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::Value;

/// The YAML documents of a file, without empty ones.
pub(crate) fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let documents =
        Yaml::load_from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    documents
        .iter()
        .map(json)
        .filter(|d| !d.is_null())
        .collect()
}

fn json(node: &Yaml<'_>) -> Value {
    match node {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => (*value).into(),
        Yaml::Value(Scalar::Integer(value)) => (*value).into(),
        Yaml::Value(Scalar::FloatingPoint(value)) => value.into_inner().into(),
        Yaml::Value(Scalar::String(value)) => value.as_ref().into(),
        Yaml::Sequence(values) => values.iter().map(json).collect(),
        Yaml::Mapping(entries) => entries
            .iter()
            .map(|(key, value)| {
                let key = json(key);
                (
                    key.as_str().map_or_else(|| key.to_string(), str::to_owned),
                    json(value),
                )
            })
            .collect(),
        Yaml::Tagged(_, value) => json(value),
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => {
            panic!("{node:?} in recorded YAML")
        }
    }
}
