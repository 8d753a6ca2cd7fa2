//! Any text as an expression, and as a rule of a schema over any value: no panic, and an end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use validate::report::{At, Report};
use validate::{cel, schema};

fuzz_target!(|input: (&str, Vec<&str>)| {
    let (rule, words) = input;
    let reads = cel::parse(rule).is_ok();
    let definition = json!({
        "type": "object",
        "properties": { "words": { "type": "array", "items": { "type": "string" } } },
        "x-kubernetes-validations": [{ "rule": rule }],
    });
    let schema = schema::compile(&definition);
    assert_eq!(schema.is_ok(), reads);
    if let Ok(schema) = schema {
        let mut report = Report::default();
        schema.check(&json!({ "words": words }), &At::TOP, &mut report);
        assert!(report.0.len() <= 1);
    }
});
