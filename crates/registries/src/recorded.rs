//! What Higress's own tests say of its registries, where the recordings are at hand.

use serde_json::Value;

/// The cases of all tests of a name; none where there are no recordings.
pub(crate) fn cases(test: &str) -> Vec<Value> {
    let Some(path) = testkit::recording("higress-tables/registry.json") else {
        return Vec::new();
    };
    let tables: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let tables = tables.iter().filter(|table| table["test"] == *test);
    let cases = tables.flat_map(|table| table["cases"].as_array().unwrap());
    let cases: Vec<Value> = cases.cloned().collect();
    assert!(!cases.is_empty(), "the table has {test}");
    cases
}
