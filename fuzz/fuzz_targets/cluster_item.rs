//! Any bytes as an object of a watched cluster: what is read is a part of what is there.
#![no_main]

#[path = "../../crates/kubernetes/tests/decoder/property.rs"]
mod property;

use kubernetes::item::Item;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    property::check(bytes, |bytes| {
        let item: Item = serde_json::from_slice(bytes).ok()?;
        Some(Value::Object(item.object().clone()))
    });
});
