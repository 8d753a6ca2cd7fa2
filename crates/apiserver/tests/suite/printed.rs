//! Definitions of kinds that are built in: each is one that an API server takes.

use std::collections::BTreeSet;

use apiserver::definitions::{definitions, kinds};
use apiserver::resource::definition::faults;
use serde_json::Value;

/// What etcd takes by default, with room for a status and for who owns which field.
const MOST_BYTES: usize = 1 << 20;

#[test]
fn every_printed_definition_is_sound() {
    let kinds = kinds();
    let printed = definitions(&kinds);
    assert_eq!(printed, definitions(&kinds), "the same each time");
    let mut names = BTreeSet::new();
    for definition in &printed {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let found = faults(definition, None);
        let told: Vec<_> = found.iter().map(|f| (&f.field, &f.message)).collect();
        assert!(told.is_empty(), "{name}: {told:#?}");
        let size = definition.to_string().len();
        assert!(size < MOST_BYTES, "{name} has {size} bytes");
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let stored = versions.iter().filter(|v| v["storage"] == true);
        assert_eq!(stored.count(), 1, "{name}");
        assert!(names.insert(name), "{name} twice");
    }
}

#[test]
fn printed_definitions_say_what_fields_are_and_which_must_be_there() {
    let kinds = kinds();
    let printed = definitions(&kinds);
    let find = |name: &str| -> &Value {
        let mut all = printed.iter();
        let found = all.find(|d| d["metadata"]["name"] == name).unwrap();
        &found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    };
    let entry = find("serviceentries.networking.istio.io");
    assert_eq!(entry["required"], serde_json::json!(["hosts"]));
    assert_eq!(entry["properties"]["hosts"]["maxItems"], 256);
    assert!(entry["properties"]["hosts"]["description"].is_string());
    assert!(entry["x-kubernetes-validations"].as_array().unwrap().len() >= 2);
    let matched = &find("virtualservices.networking.istio.io")["properties"]["http"]["items"]["properties"]
        ["match"]["items"]["properties"]["uri"];
    // One way to match a text, in whatever pair.
    assert_eq!(
        matched["allOf"][0]["not"]["anyOf"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let bridge = find("mcpbridges.networking.higress.io");
    let registry = &bridge["properties"]["registries"]["items"];
    assert_eq!(
        registry["required"],
        serde_json::json!(["type", "name", "domain"])
    );
}
