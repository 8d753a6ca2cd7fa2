//! Definitions of kinds as they are published, and what they judge.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod mutated;
mod printed;
mod schema;

use std::collections::BTreeMap;
use std::path::Path;

use pilothouse_validate::report::{At, Report};
use pilothouse_validate::schema::{Schema, fill_defaults, of_definition};
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::{Value, json};

fn json_of(yaml: &Yaml<'_>) -> Value {
    use saphyr::Scalar;
    match yaml {
        Yaml::Value(Scalar::Boolean(b)) => json!(b),
        Yaml::Value(Scalar::Integer(n)) => json!(n),
        Yaml::Value(Scalar::FloatingPoint(n)) => json!(n.into_inner()),
        Yaml::Value(Scalar::String(s)) => json!(s),
        Yaml::Sequence(items) => items.iter().map(json_of).collect(),
        Yaml::Mapping(map) => map
            .iter()
            .map(|(key, value)| {
                let key = json_of(key);
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                (key, json_of(value))
            })
            .collect(),
        _ => Value::Null,
    }
}

/// The documents of a text as JSON.
fn documents(text: &str) -> Vec<Value> {
    let all = Yaml::load_from_str(text).unwrap();
    all.iter().map(json_of).collect()
}

/// By kind and version.
fn definitions(file: &Path) -> BTreeMap<(String, String), Schema> {
    let mut all = BTreeMap::new();
    for definition in documents(&std::fs::read_to_string(file).unwrap()) {
        if definition["kind"] != "CustomResourceDefinition" {
            continue;
        }
        let spec = &definition["spec"];
        let group = spec["group"].as_str().unwrap();
        let kind = spec["names"]["kind"].as_str().unwrap();
        for (version, schema) in of_definition(&definition).unwrap() {
            all.insert((kind.to_owned(), format!("{group}/{version}")), schema);
        }
    }
    all
}

/// What the definition finds in an object once defaults are filled in.
fn judge(schema: &Schema, object: &Value) -> Report {
    let mut object = object.clone();
    fill_defaults(&mut object, schema);
    let mut report = Report::default();
    schema.check(&object, &At::TOP, &mut report);
    report
}
