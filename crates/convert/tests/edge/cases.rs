//! What Ingresses with annotations become: a folder for each case, with objects (`in.yaml`) and what is derived and
//! found (`out.json`). `UPDATE_GOLDEN=1` rewrites the latter.

use std::path::Path;

use crate::world::{Edge, loaded};

#[test]
fn every_case_becomes_what_stands_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/edge/cases");
    testkit::golden_cases(&folder, |case| {
        let yaml = std::fs::read_to_string(case.join("in.yaml")).unwrap();
        Edge::of(&loaded(&yaml)).shown()
    });
}
