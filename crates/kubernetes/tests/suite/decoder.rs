//! The decoder of watched objects, over what the fuzz target has for seeds and over parts of it.

#[path = "../decoder/property.rs"]
mod property;

use std::path::Path;

use pilothouse_kubernetes::item::Item;
use serde_json::Value;

fn read(bytes: &[u8]) -> Option<Value> {
    let item: Item = serde_json::from_slice(bytes).ok()?;
    Some(Value::Object(item.object().clone()))
}

#[test]
fn what_is_read_is_a_part_of_what_is_there() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/cluster_item");
    let mut seen = 0;
    for seed in std::fs::read_dir(seeds).unwrap() {
        let whole = std::fs::read(seed.unwrap().path()).unwrap();
        assert!(read(&whole).is_some());
        property::check(&whole, read);
        // Cut, and with each byte changed.
        for at in 0..whole.len() {
            assert!(read(&whole[..at]).is_none());
            for byte in *b"\"{}[],:1n" {
                let mut other = whole.clone();
                other[at] = byte;
                property::check(&other, read);
                seen += 1;
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}
