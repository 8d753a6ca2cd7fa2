//! What Knative's Ingresses become: a folder for each case, with objects (`in.yaml`), flags where it has any, and what is
//! derived, found and told (`out.json`). `UPDATE_GOLDEN=1` rewrites the latter.

use std::path::Path;

use crate::world::{served, shown, world};

#[test]
fn every_case_becomes_what_stands_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/knative/cases");
    let mut cases: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    cases.sort();
    assert!(!cases.is_empty());
    let mut different = Vec::new();
    for case in cases {
        let yaml = std::fs::read_to_string(case.join("in.yaml")).unwrap();
        let flags = std::fs::read_to_string(case.join("flags")).unwrap_or_default();
        let shown = shown(&world(&yaml, served(&flags)));
        let mut text = serde_json::to_string_pretty(&shown).unwrap();
        text.push('\n');
        let golden = case.join("out.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &text).unwrap();
        }
        if std::fs::read_to_string(&golden).unwrap_or_default() != text {
            different.push(case);
        }
    }
    assert!(
        different.is_empty(),
        "not as it stands there (see the difference with UPDATE_GOLDEN=1): {different:?}"
    );
}
