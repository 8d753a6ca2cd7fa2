//! The rules judge as Istio's own, over what its tests recorded.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use model::parse::{Parsed, Validation};
use model::{Kind, Severity};
use pilothouse_validate as validate;
use serde_json::{Value, json};
use testkit::{Score, Table, recordings};
use validate::report::codes;

fn parse(object: &Value) -> Parsed {
    let file = Path::new("case.json").into();
    validate::parse(&object.to_string(), &file, Validation::Strict)
}

/// Whether there is an error and whether there is a warning, without the one that every EnvoyFilter has.
fn verdict(parsed: &Parsed) -> (bool, bool) {
    let has = |severity| {
        let mut found = parsed.diagnostics.iter();
        found.any(|d| {
            d.severity == severity
                && d.code != codes::LIMIT
                && !d.message.starts_with("an EnvoyFilter changes")
        })
    };
    (has(Severity::Error), has(Severity::Warning))
}

/// Counts one case. A warning beside an error does not matter.
fn count(score: &mut Score, case: &str, found: &Parsed, error: bool, warning: bool) {
    let got = verdict(found);
    let equal = got.0 == error && (error || got.1 == warning);
    let differences: Vec<String> = match equal {
        true => Vec::new(),
        false => std::iter::once(format!("wanted error {error} warning {warning}"))
            .chain(found.diagnostics.iter().map(ToString::to_string))
            .collect(),
    };
    score.count(case, &differences);
}

#[test]
fn objects_are_judged_as_by_the_webhook() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut score = Score::default();
    let folder = recordings.join("istio-tables/validation");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let name = name.trim_end_matches(".json");
        let kind = *Kind::ALL
            .iter()
            .find(|k| k.name() == name && k.group().ends_with("istio.io"))
            .unwrap();
        let table = Table::load(&format!("validation/{name}")).unwrap();
        for case in &table.cases {
            // Recordings do not tell null and empty from absent, nor one type of Go from another.
            let lost = [
                "must not be nil",
                "must not be empty, found at",
                "must have at least one",
                "cannot cast",
                "is nil",
            ];
            let text = case["error"].as_str().unwrap_or_default();
            let bare = case["spec"].to_string().contains("{}") || !text.contains('`');
            if bare && lost.iter().any(|lost| text.contains(lost)) {
                continue;
            }
            let (mut meta, spec, error, warning) = match case.get("in") {
                Some(input) => {
                    let meta = &input["cfg"]["Meta"];
                    let meta = json!({ "name": meta["Name"], "namespace": meta["Namespace"],
                        "annotations": meta["Annotations"] });
                    let out = &case["out"];
                    (
                        meta,
                        &input["cfg"]["Spec"],
                        !out[1].is_null(),
                        !out[0].is_null(),
                    )
                }
                None => {
                    let meta = case.get("metadata").cloned().unwrap_or_else(|| json!({}));
                    let warning = case.get("warning").is_some();
                    (meta, &case["spec"], case["valid"] == false, warning)
                }
            };
            if !meta["name"].is_string() {
                meta["name"] = json!("some-name");
            }
            let object = json!({ "apiVersion": kind.api_version(), "kind": name,
                "metadata": meta, "spec": spec });
            let case = format!(
                "{name} {} {spec}",
                case["name"].as_str().unwrap_or_default()
            );
            count(&mut score, &case, &parse(&object), error, warning);
        }
    }
    score.all_as_recorded();
}
