//! What Higress's own tests say of Ingresses and of what their annotations become, where the recordings are at hand.
//!
//! Each row becomes Ingresses that state what it says; what is derived from them is held against what the row expects, in
//! the terms of stock Istio: fields of Higress's fork are looked for in [`EdgeRoute`](model::edge::EdgeRoute).

mod annotated;
mod derived;
mod wanted;

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::{Score, differences, recording};

/// What a row expects, and what is found.
type Row = (Value, Value);
/// A test of a table, and how its rows are compared.
type Taken = (&'static str, fn(&Value) -> Vec<Row>);

/// Tests of `annotations.json` about parsers, which `crates/annotations/tests` takes, end so.
const PARSED: [&str; 6] = [
    "Parse",
    "ParseMirror",
    "ParseMethods",
    "ParseHeaders",
    "ParseQueryParams",
    "ConvertTLSVersion",
];

/// Tests that nothing here corresponds to.
const NOT_TAKEN: [(&str, &str); 21] = [
    (
        "TestNeedDownstreamTLS",
        "of a parser, taken where those are",
    ),
    ("TestSplitStringWithSpaceTrim", "a function of the parsers"),
    ("TestExtraSecret", "how the fork spells credentials"),
    (
        "TestTemplateProcessor_ProcessConfig",
        "of Wasm plugins, taken in crates/xlate/tests/suite/wasm.rs",
    ),
    (
        "TestNormalizeKWeightedCluster",
        "of Knative, taken in tests/suite/knative",
    ),
    (
        "TestConvertGatewaysForKIngress",
        "of Knative, taken in tests/suite/knative",
    ),
    (
        "TestKingressPathHeadersKey",
        "of Knative, taken in tests/suite/knative",
    ),
    (
        "TestMakeVirtualServiceRoute_Internal",
        "of Knative, taken in tests/suite/knative",
    ),
    (
        "TestTransportLoadBalancerIngress",
        "of Knative, taken in tests/suite/knative",
    ),
    (
        "TestUpdateStatusCondition",
        "of Knative, taken in tests/suite/knative",
    ),
    (
        "testApplyCanaryIngress",
        "functions given nothing, of v1beta1",
    ),
    (
        "testApplyDefaultBackend",
        "functions given nothing, of v1beta1",
    ),
    ("testConvertGateway", "functions given nothing, of v1beta1"),
    (
        "testConvertHTTPRoute",
        "functions given nothing, of v1beta1",
    ),
    (
        "testConvertTrafficPolicy",
        "functions given nothing, of v1beta1",
    ),
    (
        "testcreateServiceKey",
        "functions given nothing, of v1beta1",
    ),
    (
        "testbackendToRouteDestination",
        "functions given nothing, of v1beta1",
    ),
    (
        "TestGetLbStatusList",
        "one Service is named for the status, not a prefix of names",
    ),
    (
        "TestCreateOrUpdateAnnotations",
        "marks of clusters on Ingresses are not made",
    ),
    (
        "TestConvertToDNSLabelValidAndCleanHost",
        "states nothing that is expected",
    ),
    ("TestSplitNamespacedName", "a function of the parsers"),
];

fn tables(name: &str) -> Vec<Value> {
    let Some(path) = recording(&format!("higress-tables/{name}.json")) else {
        return Vec::new();
    };
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn is_left_out(test: &str) -> bool {
    PARSED.iter().any(|end| test.ends_with(end)) || NOT_TAKEN.iter().any(|(name, _)| *name == test)
}

#[test]
fn ingresses_become_what_higress_makes_of_them() {
    let mut score = Score::default();
    let (mut left, mut taken) = (0, BTreeSet::new());
    for (file, tests) in [
        ("annotations", &annotated::TESTS[..]),
        ("conversion", &derived::TESTS[..]),
    ] {
        for table in tables(file) {
            let test = table["test"].as_str().unwrap();
            let rows = table["cases"].as_array().unwrap();
            // Knative has a test of the same name with the same rows.
            let again = table["source"]
                .as_str()
                .unwrap_or_default()
                .contains("/kingress/");
            let Some((name, compared)) = tests.iter().find(|(name, _)| *name == test && !again)
            else {
                assert!(
                    again || is_left_out(test),
                    "{test} is neither taken nor left out"
                );
                left += rows.len();
                continue;
            };
            taken.insert(*name);
            for (wanted, found) in compared(&table) {
                score.count(name, &differences(&wanted, &found));
            }
        }
    }
    if left > 0 {
        eprintln!("{left} rows are about something else");
        assert_eq!(taken.len(), annotated::TESTS.len() + derived::TESTS.len());
    }
    score.as_listed(include_str!("../../differences/edge.txt"));
}
