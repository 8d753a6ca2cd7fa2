//! Definitions that `pilothouse crds` prints: they judge as the published ones, and refuse nothing that rules take.

use std::collections::BTreeMap;

use apiserver::definitions::{definitions, kinds};
use pilothouse_validate::schema::compile;
use serde_json::{Value, json};
use testkit::{Score, recordings};

use super::judge;
use super::mutated::{CHANGES, Defined, bases, changed, compare, defined, edits};

const PUBLISHED: [&str; 2] = [
    "crds/istio-charts.crd-all.gen.yaml",
    "crds/higress/customresourcedefinitions.gen.yaml",
];

/// What is printed, by kind.
fn printed() -> Vec<Defined> {
    let kinds = kinds();
    let definitions = definitions(&kinds);
    let all = kinds.into_iter().zip(definitions);
    all.map(|(kind, definition)| {
        let written = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        Defined {
            kind,
            schema: compile(&written).unwrap(),
            written,
        }
    })
    .collect()
}

fn published() -> Option<Vec<Defined>> {
    let recordings = recordings()?;
    let files = PUBLISHED.iter().map(|file| recordings.join(file));
    Some(files.flat_map(|file| defined(&file, |_| true)).collect())
}

#[test]
fn printed_definitions_judge_as_those_that_are_published() {
    let Some(published) = published() else {
        return;
    };
    let printed = printed();
    assert_eq!(published.len(), printed.len());
    let mut score = Score::default();
    for published in published {
        let printed = printed.iter().find(|d| d.kind == published.kind).unwrap();
        for document in bases(&published, &BTreeMap::new()) {
            let mut all = Vec::new();
            let schema = &published.written["properties"]["spec"];
            edits(&document["spec"], schema, "/spec", &mut all);
            let step = all.len().div_ceil(CHANGES).max(1);
            for edit in all.iter().step_by(step) {
                let document = changed(&document, edit);
                let [wanted, found] = [&published.schema, &printed.schema].map(|schema| {
                    let report = judge(schema, &document);
                    let told = report
                        .0
                        .iter()
                        .map(|r| format!("{}: {}", r.path, r.message));
                    (report.has_errors(), told.collect::<Vec<_>>())
                });
                let differences = if wanted.0 == found.0 {
                    Vec::new()
                } else {
                    vec![format!(
                        "published says {:?}, printed says {:?}",
                        wanted.1, found.1
                    )]
                };
                let value = edit.1.as_ref().map_or("-".to_owned(), ToString::to_string);
                let value: String = value.chars().take(60).collect();
                let case = format!("{} {}: {value}", published.kind.name(), edit.0);
                score.count(&case, &differences);
            }
        }
    }
    score.as_listed(include_str!("../../differences/definitions-printed.txt"));
}

#[test]
fn what_printed_definitions_refuse_the_rules_refuse() {
    let mut score = Score::default();
    for printed in printed() {
        let bases = bases(&printed, &BTreeMap::new());
        assert!(
            !bases.is_empty(),
            "{:?}: its example is refused",
            printed.kind
        );
        compare(&printed, &bases, false, &mut score);
    }
    score.as_listed(include_str!("../../differences/definitions-of-rules.txt"));
}

/// Names, scope, versions and columns of a definition.
fn outside(definition: &Value) -> Value {
    let spec = &definition["spec"];
    let mut names = spec["names"].clone();
    names.as_object_mut().unwrap().remove("categories");
    let versions = spec["versions"].as_array().unwrap();
    let mut served: Vec<&str> = versions
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    served.sort_unstable();
    let columns = versions[0]["additionalPrinterColumns"].as_array();
    let mut columns: Vec<String> = columns
        .into_iter()
        .flatten()
        .map(|c| format!("{} {} {}", c["name"], c["type"], c["jsonPath"]))
        // A kind without columns shows how old its objects are.
        .filter(|c| !c.starts_with("\"Age\""))
        .collect();
    columns.sort_unstable();
    let status = versions
        .iter()
        .all(|v| v["subresources"]["status"].is_object());
    json!({"names": names, "scope": spec["scope"], "versions": served, "columns": columns, "status": status})
}

#[test]
fn printed_definitions_have_the_names_versions_and_columns_of_those_that_are_published() {
    let Some(recordings) = recordings() else {
        return;
    };
    let printed = definitions(&kinds());
    for file in PUBLISHED {
        let text = std::fs::read_to_string(recordings.join(file)).unwrap();
        let published = super::documents(&text).into_iter();
        for published in published.filter(|d| d["kind"] == "CustomResourceDefinition") {
            let name = &published["metadata"]["name"];
            let printed = printed.iter().find(|d| d["metadata"]["name"] == *name);
            let printed = printed.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(outside(printed), outside(&published), "{name}");
            for category in published["spec"]["names"]["categories"].as_array().unwrap() {
                let ours = printed["spec"]["names"]["categories"].as_array().unwrap();
                assert!(ours.contains(category), "{name}: {category}");
            }
        }
    }
}
