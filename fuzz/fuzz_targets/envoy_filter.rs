//! Any text as an EnvoyFilter: no panic, and what is told names a patch.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use model::Kinded;
use model::kinds::istio::EnvoyFilter;
use model::parse::{Validation, parse};
use policy::envoy_filter::Compiled;

/// What stands before the fuzzed part.
const HEAD: &str = "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: a, namespace: b}\nspec:\n";

fuzz_target!(|text: &str| {
    let file = Path::new("fuzz.yaml").into();
    let parsed = parse(&format!("{HEAD}{text}"), &file, Validation::Warn);
    for object in parsed.objects() {
        let Some(filter) = EnvoyFilter::of(object) else {
            continue;
        };
        for told in &Compiled::of(filter).diagnostics {
            assert!(told.path.starts_with("spec.configPatches["));
        }
    }
});
