//! Limits that are written in Rust judge as the definitions they stand for: documents that are changed in every place,
//! judged by both.
//!
//! Each value of a document is taken out, replaced by others of its type and of other types, repeated; each field that
//! the definition has and the document has not is put in. No chance is involved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::parse::Validation;
use model::{Kind, Severity};
use pilothouse_validate as validate;
use pilothouse_validate::schema::{Schema, compile};
use serde_json::{Value, json};
use testkit::{Score, recordings};

use super::{documents, judge};

/// Documents of one kind that are changed.
const DOCUMENTS: usize = 2;
/// Changes of one document.
pub(crate) const CHANGES: usize = 100;

/// The definition of a kind, in its preferred version.
pub(crate) struct Defined {
    pub(crate) kind: Kind,
    /// As it is written, to know fields and their types.
    pub(crate) written: Value,
    pub(crate) schema: Schema,
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml") {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

pub(crate) fn defined(file: &Path, group: impl Fn(&str) -> bool) -> Vec<Defined> {
    let all = documents(&std::fs::read_to_string(file).unwrap());
    let mut found = Vec::new();
    for definition in all {
        let spec = &definition["spec"];
        let of = spec["group"].as_str().unwrap_or_default();
        if definition["kind"] != "CustomResourceDefinition" || !group(of) {
            continue;
        }
        let name = spec["names"]["kind"].as_str().unwrap();
        let kind = Kind::find(of, name).unwrap_or_else(|| panic!("{name} of {of} is no kind"));
        let mut versions = spec["versions"].as_array().unwrap().iter();
        for version in versions.clone().filter(|v| v["served"] == true) {
            let version = version["name"].as_str().unwrap();
            assert!(
                kind.versions().contains(&version),
                "{name} of {of} is served as {version}"
            );
        }
        let preferred = versions.find(|v| v["name"] == kind.versions()[0]).unwrap();
        let written = preferred["schema"]["openAPIV3Schema"].clone();
        found.push(Defined {
            kind,
            schema: compile(&written).unwrap(),
            written,
        });
    }
    found
}

/// Documents to change: the example of the reference, and recorded ones that both judges take.
pub(crate) fn bases(
    defined: &Defined,
    recorded: &BTreeMap<(String, String), Vec<Value>>,
) -> Vec<Value> {
    let kind = defined.kind;
    let name = format!("{}.{}.yaml", kind.group(), kind.name());
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference/examples")
        .join(name);
    let mut all = documents(&std::fs::read_to_string(example).unwrap());
    let key = (kind.group().to_owned(), kind.name().to_owned());
    let mut more: Vec<&Value> = recorded.get(&key).into_iter().flatten().collect();
    // Those with the most in them.
    more.sort_by_key(|d| std::cmp::Reverse(d["spec"].to_string().len()));
    all.extend(more.into_iter().take(DOCUMENTS - 1).cloned());
    for document in &mut all {
        document["apiVersion"] = kind.api_version().into();
        document["metadata"] = json!({ "name": "x", "namespace": "y" });
        document.as_object_mut().unwrap().remove("status");
    }
    all.retain(|d| !judge(&defined.schema, d).has_errors());
    all
}

fn recorded(folder: &Path) -> BTreeMap<(String, String), Vec<Value>> {
    let mut all: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for file in files(folder) {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains("{{") {
            continue;
        }
        for document in documents(&text) {
            let (Some(api), Some(kind)) =
                (document["apiVersion"].as_str(), document["kind"].as_str())
            else {
                continue;
            };
            let group = api.split_once('/').map_or("", |(group, _)| group);
            let key = (group.to_owned(), kind.to_owned());
            all.entry(key).or_default().push(document);
        }
    }
    all
}

/// Values that fit a schema as far as its type goes, to put where there was none.
fn some_value(schema: &Value, depth: usize) -> Option<Value> {
    // What is no operator is refused here, and by controllers; definitions do not list them.
    if let Some(mut made) = selector_requirement(schema) {
        if schema["type"] == "array" {
            made = json!([made]);
        }
        return Some(made);
    }
    if let Some(value) = schema["enum"].as_array().and_then(|v| v.first()) {
        return Some(value.clone());
    }
    Some(match schema["type"].as_str() {
        Some("string") => json!("a"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") if depth > 0 => json!([some_value(&schema["items"], depth - 1)?]),
        Some("object") if depth > 0 => {
            let mut map = serde_json::Map::new();
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str()?;
                let value = some_value(&schema["properties"][name], depth - 1)?;
                map.insert(name.to_owned(), value);
            }
            Value::Object(map)
        }
        _ if schema["x-kubernetes-int-or-string"] == true => json!(1),
        _ => return None,
    })
}

/// A condition on labels, where a schema is that of one or of a list of them.
fn selector_requirement(schema: &Value) -> Option<Value> {
    let of = match schema["type"].as_str() {
        Some("array") => &schema["items"],
        _ => schema,
    };
    let is = of["properties"]["operator"].is_object() && of["properties"]["values"].is_object();
    is.then(|| json!({ "key": "a", "operator": "In", "values": ["a"] }))
}

/// What a value may be replaced by.
fn instead(value: &Value, schema: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    // An API server takes null for absent where there is a default; here it is a fault that is told.
    if schema.get("default").is_none() {
        all.push(Value::Null);
    }
    for other in schema["enum"].as_array().into_iter().flatten() {
        all.push(other.clone());
    }
    match value {
        Value::String(_) => {
            all.extend(
                [
                    "",
                    "a",
                    "A",
                    "a.b",
                    "*",
                    "*.a.b",
                    "a..b",
                    "-a",
                    "a_b",
                    "a b",
                    "a/b",
                    "/a",
                    "//",
                    "/a/../b",
                    "10.0.0.1",
                    "::1",
                    "1s",
                    "0s",
                    "2h",
                    "1.5s",
                    "100000s",
                    "https://a.b/c",
                    "a.cluster.local",
                    "(",
                    "é",
                ]
                .map(Value::from),
            );
            all.extend([64, 254, 257, 1025, 4097].map(|n| Value::from("a".repeat(n))));
            all.push(json!(1));
            all.push(json!({}));
        }
        Value::Number(_) => {
            all.extend(
                [-1, 0, 1, 80, 101, 399, 400, 600, 65_535, 65_536, 1_000_001].map(Value::from),
            );
            all.push(json!("x"));
            all.push(json!([]));
        }
        Value::Bool(b) => all.extend([json!(!b), json!("true"), json!(1)]),
        Value::Array(items) => {
            all.extend([json!([]), json!({}), json!("x")]);
            if let Some(first) = items.first() {
                all.push(json!([first, first]));
                for many in [9, 17, 65, 129] {
                    all.push(Value::Array(vec![first.clone(); many]));
                }
            }
        }
        Value::Object(_) => all.extend([json!({}), json!([]), json!("x"), json!(1)]),
        Value::Null => {}
    }
    all
}

/// One change: where, as a JSON pointer, and what stands there then; nothing takes it out.
pub(crate) type Edit = (String, Option<Value>);

pub(crate) fn edits(value: &Value, schema: &Value, at: &str, all: &mut Vec<Edit>) {
    for other in instead(value, schema) {
        all.push((at.to_owned(), Some(other)));
    }
    match value {
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            for (key, inner) in map.iter().filter(|(key, _)| *key != "operator") {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                all.push((at.clone(), None));
                let of_field = properties.and_then(|p| p.get(key));
                edits(
                    inner,
                    of_field.unwrap_or(&schema["additionalProperties"]),
                    &at,
                    all,
                );
            }
            for (key, of_field) in properties.into_iter().flatten() {
                if !map.contains_key(key)
                    && let Some(value) = some_value(of_field, 6)
                {
                    let at = format!("{at}/{key}");
                    all.push((at.clone(), Some(value.clone())));
                    for inside in one_level(&value, of_field) {
                        all.push((at.clone(), Some(inside)));
                    }
                }
            }
            if schema["x-kubernetes-preserve-unknown-fields"] != true {
                all.push((format!("{at}/nobodyKnows"), Some(json!("x"))));
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                edits(inner, &schema["items"], &format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
}

/// Variants of a value that was made up: each of its fields, and those it may have, set to something.
fn one_level(value: &Value, schema: &Value) -> Vec<Value> {
    match value {
        Value::Object(map) => {
            let mut all = Vec::new();
            for (key, of_field) in schema["properties"].as_object().into_iter().flatten() {
                let Some(made) = some_value(of_field, 4) else {
                    continue;
                };
                let mut values = instead(&made, of_field);
                values.push(made);
                for made in values {
                    let mut map = map.clone();
                    map.insert(key.clone(), made);
                    all.push(Value::Object(map));
                }
            }
            all
        }
        Value::Array(items) => match items.first() {
            Some(first) => {
                let inner = one_level(first, &schema["items"]);
                inner.into_iter().map(|v| json!([v])).collect()
            }
            None => Vec::new(),
        },
        _ => instead(value, schema),
    }
}

pub(crate) fn changed(document: &Value, (at, to): &Edit) -> Value {
    let mut document = document.clone();
    let (parent, key) = at.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (document.pointer_mut(parent), to) {
        (Some(Value::Object(map)), Some(value)) => {
            map.insert(key, value.clone());
        }
        (Some(Value::Object(map)), None) => {
            map.remove(&key);
        }
        (Some(Value::Array(items)), Some(value)) => {
            items[key.parse::<usize>().unwrap()] = value.clone();
        }
        _ => {}
    }
    document
}

/// Whether the rules refuse a document, with what they say; each error names its field.
fn refused(document: &Value) -> (bool, String) {
    let file = Path::new("case.json").into();
    let parsed = validate::parse(&document.to_string(), &file, Validation::Strict);
    let errors = parsed
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error);
    let errors: Vec<_> = errors.collect();
    for error in &errors {
        let named = !error.path.is_empty() || error.message.ends_with("are left out");
        assert!(named, "an error names no field: {error}");
    }
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    (!told.is_empty(), told.join("; "))
}

/// Judges changed documents of a kind by both; whether what the rules refuse, the definition must refuse as well.
pub(crate) fn compare(defined: &Defined, bases: &[Value], both_ways: bool, score: &mut Score) {
    for document in bases {
        let mut all = Vec::new();
        edits(
            &document["spec"],
            &defined.written["properties"]["spec"],
            "/spec",
            &mut all,
        );
        let step = all.len().div_ceil(CHANGES).max(1);
        for edit in all.iter().step_by(step) {
            let document = changed(document, edit);
            let found = judge(&defined.schema, &document);
            let (refuses, told) = refused(&document);
            let wanted = found.has_errors();
            let differences = if refuses == wanted || (refuses && !both_ways) {
                Vec::new()
            } else {
                let of_definition: Vec<String> = found
                    .0
                    .iter()
                    .map(|r| format!("{}: {}", r.path, r.message))
                    .collect();
                vec![format!(
                    "definition says {of_definition:?}, rules say {told:?}"
                )]
            };
            let value = edit.1.as_ref().map_or("-".to_owned(), ToString::to_string);
            let value: String = value.chars().take(60).collect();
            let case = format!("{} {}: {value}", defined.kind.name(), edit.0);
            score.count(&case, &differences);
        }
    }
}

#[test]
fn kinds_of_the_gateway_api_are_judged_as_by_their_definitions() {
    let Some(recordings) = recordings() else {
        return;
    };
    let folder = recordings.join("crds/gateway-api/config/crd/experimental");
    let recorded = recorded(&recordings.join("gateway-api-conformance"));
    let mut score = Score::default();
    let mut kinds = 0;
    for file in files(&folder) {
        let ours = |group: &str| Kind::ALL.iter().any(|k| k.group() == group);
        for defined in defined(&file, ours) {
            let bases = bases(&defined, &recorded);
            assert!(!bases.is_empty(), "{:?}", defined.kind);
            compare(&defined, &bases, true, &mut score);
            kinds += 1;
        }
    }
    assert_eq!(kinds, 13);
    score.as_listed(include_str!(
        "../../differences/definitions-of-gateway-api.txt"
    ));
}

#[test]
fn what_the_definitions_of_istio_and_higress_refuse_is_refused() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut score = Score::default();
    for file in [
        "crds/istio-charts.crd-all.gen.yaml",
        "crds/higress/customresourcedefinitions.gen.yaml",
    ] {
        for defined in defined(&recordings.join(file), |_| true) {
            let bases = bases(&defined, &BTreeMap::new());
            assert!(!bases.is_empty(), "{:?}", defined.kind);
            compare(&defined, &bases, false, &mut score);
        }
    }
    score.as_listed(include_str!("../../differences/definitions-of-istio.txt"));
}
