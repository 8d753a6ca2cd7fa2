//! The chart grants what the server asks for.

use std::path::Path;
use std::process::Command;

#[test]
fn the_rules_of_the_chart_are_those_of_the_program() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/pilothouse/files");
    for role in ["cluster", "namespace"] {
        let printed = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
            .args(["permissions", "--rules", role])
            .output()
            .unwrap();
        assert!(printed.status.success());
        let file = format!("{role}-rules.yaml");
        let written = std::fs::read_to_string(chart.join(&file)).unwrap();
        assert_eq!(
            written,
            String::from_utf8(printed.stdout).unwrap(),
            "write it: pilothouse permissions --rules {role} > deploy/helm/pilothouse/files/{file}"
        );
    }
}
