//! Any text as an expression, and as a rule of a schema over any value: no panic, and an end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use validate::cel::{Kind, Wanted};
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
    // What is known before there is a value; its cost is counted by the same walk as below.
    if let Some(kind) = Kind::of_schema(&definition, false) {
        let variables = [("self", kind.clone()), ("oldSelf", kind.optional())];
        for wanted in [Wanted::Bool, Wanted::Text] {
            assert!(cel::judge(rule, &variables, wanted).is_err() || reads);
        }
    }
    let schema = schema::compile(&definition);
    assert_eq!(schema.is_ok(), reads);
    if let Ok(schema) = schema {
        let mut report = Report::default();
        schema.check(&json!({ "words": words }), &At::TOP, &mut report);
        assert!(report.0.len() <= 1);
    }
});
