//! Any text as Higress's ConfigMap, after any other: no panic, what is told is bounded, and what was good is read again as good.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use policy::edge::options::Document;

fuzz_target!(|text: &str| {
    let (first, second) = text.split_once('\0').unwrap_or(("", text));
    let first = Document::read(first, &BTreeMap::new());
    let second = Document::read(second, &first.good);
    assert!(second.found.len() <= 32);
    assert!(second.found.iter().all(|(_, what)| what.to_string().len() < 400));
    let kept = Document::read("[", &second.good);
    assert_eq!(kept.options, second.options);
    assert_eq!(kept.good, second.good);
});
