//! What Knative's Ingresses become: a folder for each case, with objects (`in.yaml`), flags where it has any, and what is
//! derived, found and told (`out.json`). `UPDATE_GOLDEN=1` rewrites the latter.

use std::path::Path;

use crate::knative::world::{served, shown, world};

#[test]
fn every_case_becomes_what_stands_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/knative/cases");
    testkit::golden_cases(&folder, |case| {
        let yaml = std::fs::read_to_string(case.join("in.yaml")).unwrap();
        let flags = std::fs::read_to_string(case.join("flags")).unwrap_or_default();
        shown(&world(&yaml, served(&flags)))
    });
}
