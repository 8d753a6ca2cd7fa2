//! Documents are judged as by the API server with Istio's definitions of its kinds.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use model::Severity;
use model::parse::Validation;
use pilothouse_validate as validate;
use testkit::{Score, recordings};

/// Documents of the folder with what is wrong with each; empty for nothing.
fn documents(folder: &Path) -> Vec<(String, String, Option<String>)> {
    let mut all = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (index, part) in text.split("\n---").enumerate() {
            let fault = part.lines().find_map(|line| line.strip_prefix("_err:"));
            let kept: Vec<&str> = part.lines().filter(|l| !l.starts_with("_err:")).collect();
            let name = format!("{}#{index}", file.file_name().unwrap().to_string_lossy());
            all.push((name, kept.join("\n"), fault.map(str::to_owned)));
        }
    }
    all
}

#[test]
fn documents_are_judged_as_by_the_definitions() {
    let Some(recordings) = recordings() else {
        return;
    };
    let folder = recordings.join("istio/pkg/config/validation/testdata/crds");
    let mut score = Score::default();
    for (name, text, fault) in documents(&folder) {
        let parsed = validate::parse(&text, &Path::new("case.yaml").into(), Validation::Strict);
        if parsed.documents.is_empty() {
            continue;
        }
        let mut found = parsed
            .diagnostics
            .iter()
            .filter(|d| d.severity == Severity::Error);
        let mut differences = Vec::new();
        match (found.clone().count(), &fault) {
            (0, Some(fault)) => differences.push(format!("wanted {fault}, found nothing")),
            (1.., None) => differences.extend(found.map(ToString::to_string)),
            (1.., Some(_)) if found.any(|d| d.path.is_empty()) => {
                differences.push("an error names no field".to_owned());
            }
            _ => {}
        }
        score.count(&name, &differences);
    }
    score.all_as_recorded();
}
