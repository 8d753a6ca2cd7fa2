//! Any text, or bytes that are none, as a manifest and as mesh config, with all rules: no panic, and a reason told for each object that is refused.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use model::Severity;
use model::parse::Validation;
use validate::{mesh, parse, parse_undecoded};

fuzz_target!(|bytes: &[u8]| {
    let text = std::str::from_utf8(bytes);
    let file = Path::new("fuzz.yaml").into();
    for validation in [Validation::Strict, Validation::Warn] {
        let parsed = match text {
            Ok(text) => parse(text, &file, validation),
            Err(_) => parse_undecoded(bytes, &file, validation),
        };
        // What is closed of a document that is refused stands beside it.
        let refused = parsed
            .documents
            .iter()
            .filter(|d| d.object.is_none() && d.substitute.is_none())
            .count();
        let errors = parsed
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error)
            .count();
        assert!(refused <= errors);
        for diagnostic in &parsed.diagnostics {
            let _ = format!("{diagnostic:#}");
        }
    }
    if let Ok(text) = text {
        let _ = mesh::read_config(text, &file);
        let _ = mesh::read_networks(text, &file);
    }
});
