//! The examples of the reference: every kind has one, and it is valid.

use std::path::Path;

use model::Kind;
use model::parse::{Validation, parse};

#[test]
fn every_kind_has_an_example_that_is_read_without_a_finding() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/examples");
    for kind in Kind::ALL {
        let group = match kind.group() {
            "" => "core",
            group => group,
        };
        let name = format!("{group}.{}.yaml", kind.name());
        let path = folder.join(&name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let parsed = parse(&text, &path.as_path().into(), Validation::Strict);
        assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
        let kinds: Vec<Kind> = parsed.objects().map(|o| o.key().kind).collect();
        assert_eq!(kinds, [*kind], "{name}");
    }
}
