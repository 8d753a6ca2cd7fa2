//! Reviews are answered as istiod's webhook answers them, over what its tests recorded.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use model::Kind;
use pilothouse_admission::{Review, judge};
use serde_json::{Value, json};
use testkit::{Score, Table, recordings};

/// What recordings do not tell: null and empty from absent, and one type of Go from another.
const LOST: [&str; 5] = [
    "must not be nil",
    "must not be empty, found at",
    "must have at least one",
    "cannot cast",
    "is nil",
];

/// The object of a case, and whether it is refused.
fn read(kind: Kind, case: &Value) -> Option<(Value, bool)> {
    let text = case["error"].as_str().unwrap_or_default();
    let bare = case["spec"].to_string().contains("{}") || !text.contains('`');
    if bare && LOST.iter().any(|lost| text.contains(lost)) {
        return None;
    }
    let (mut meta, spec, refused) = match case.get("in") {
        Some(input) => {
            let meta = &input["cfg"]["Meta"];
            let meta = json!({"name": meta["Name"], "namespace": meta["Namespace"],
                "annotations": meta["Annotations"]});
            (meta, &input["cfg"]["Spec"], !case["out"][1].is_null())
        }
        None => {
            let meta = case.get("metadata").cloned().unwrap_or_else(|| json!({}));
            (meta, &case["spec"], case["valid"] == false)
        }
    };
    if !meta["name"].is_string() {
        meta["name"] = json!("some-name");
    }
    let object = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": meta, "spec": spec});
    Some((object, refused))
}

/// The answer of the webhook, as an API server reads it.
fn answer(kind: Kind, object: &Value) -> Value {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "object": object, "name": object["metadata"]["name"],
        "namespace": object["metadata"]["namespace"], "kind": {"kind": kind.name()},
        "resource": {"group": kind.group(), "version": "v1", "resource": kind.plural()}}});
    let review = Review::read(review.to_string().as_bytes()).unwrap();
    let answer = Review::answer(Some(&review), &judge(&review.request).response);
    serde_json::from_slice(&answer).unwrap()
}

#[test]
fn configuration_is_answered_as_by_istiod() {
    let Some(recordings) = recordings() else {
        return;
    };
    let mut score = Score::default();
    let mut names: Vec<String> = std::fs::read_dir(recordings.join("istio-tables/validation"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        let name = name.trim_end_matches(".json");
        let is = |k: &&Kind| k.name() == name && k.group().ends_with("istio.io");
        let kind = *Kind::ALL.iter().find(is).unwrap();
        for case in &Table::load(&format!("validation/{name}")).unwrap().cases {
            let Some((object, refused)) = read(kind, case) else {
                continue;
            };
            let answer = answer(kind, &object);
            let allowed = answer["response"]["allowed"] == true;
            let differences = match allowed != refused {
                true => Vec::new(),
                false => vec![format!("refused {refused} there, and here {answer}")],
            };
            let said = case["name"].as_str().unwrap_or_default();
            score.count(&format!("{name} {said} {}", object["spec"]), &differences);
        }
    }
    score.all_as_recorded();
}
