//! The chart grants what the server asks for.

use std::path::Path;

use crate::support::pilothouse;

#[test]
fn the_rules_of_the_chart_are_those_of_the_program() {
    let printed = pilothouse(&["permissions", "--table"]).output().unwrap();
    assert!(printed.status.success());
    let file = "deploy/helm/pilothouse/files/rules.yaml";
    let written = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    assert_eq!(
        std::fs::read_to_string(written).unwrap(),
        String::from_utf8(printed.stdout).unwrap(),
        "write it: pilothouse permissions --table > {file}"
    );
}
