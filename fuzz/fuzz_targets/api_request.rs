//! Whatever a client of the Kubernetes API may send, read: paths, queries, selectors, bodies, managed fields, definitions.
#![no_main]

use apiserver::api::{Query, Target};
use apiserver::fields::Set;
use apiserver::selector::Selector;
use apiserver::{protobuf, resource, schema};
use libfuzzer_sys::fuzz_target;
use model::parse::{decode_json, decode_yaml};

fuzz_target!(|data: &[u8]| {
    let _ = protobuf::decode(data);
    let _ = protobuf::decode(&[b"k8s\0", data].concat());
    // A body of JSON is what it is to everybody else, and written anew it has no duplicate fields.
    let read = decode_json(data).ok();
    let plain = serde_json::from_slice::<serde_json::Value>(data).ok();
    assert_eq!(read.as_ref().map(|read| &read.value), plain.as_ref());
    if let Some(read) = read {
        let again = decode_json(read.value.to_string().as_bytes());
        assert!(again.is_ok_and(|again| again.duplicates.is_empty()));
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = Target::parse(text);
    let query = Query::parse(text);
    let _ = Selector::parse(
        query.get("labelSelector"),
        query.get("fieldSelector"),
        "pods",
        true,
    );
    let _ = Selector::parse(text, text, "services", true);
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(text) {
        let set = Set::from_json(&json);
        assert_eq!(Set::from_json(&set.to_json()), set);
        let _ = resource::accept(&json);
        let _ = resource::definition::faults(&json, None);
        let _ = schema::structural::faults(&json, "s");
        // Any JSON as a schema, and as an object of that schema.
        let mut object = json.clone();
        schema::zero_nulls(&mut object, Some(&json));
        schema::prune(&mut object, Some(&json));
        schema::default(&mut object, Some(&json));
        let _ = schema::check(&object, Some(&json), &schema::Patterns::default());
    }
    for document in decode_yaml(text).into_iter().flatten() {
        for key in &document.duplicates {
            let _ = format!("{}: {}", key.path, key.message());
        }
    }
});
