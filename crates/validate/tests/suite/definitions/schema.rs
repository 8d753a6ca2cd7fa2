//! The general judge of schemas and rules, over the definitions that Istio and the Gateway API publish.

use super::{definitions, documents, judge};
use pilothouse_validate::report::{At, Report};
use pilothouse_validate::schema::compile;
use serde_json::{Value, json};
use testkit::{Score, recordings};

#[test]
fn documents_are_judged_as_by_the_api_server() {
    let Some(recordings) = recordings() else {
        return;
    };
    let definitions = definitions(&recordings.join("crds/istio-charts.crd-all.gen.yaml"));
    let folder = recordings.join("istio/pkg/config/validation/testdata/crds");
    let mut score = Score::default();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        // As Kubernetes reads it, which YAML 1.2 does not.
        let text = std::fs::read_to_string(&file)
            .unwrap()
            .replace("001:db8::]", "'001:db8::']");
        for mut object in documents(&text) {
            let Some(map) = object.as_object_mut() else {
                continue;
            };
            let fault = map.remove("_err");
            let of = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let schema = &definitions[&(of("kind"), of("apiVersion"))];
            let found = judge(schema, &object);
            let differences: Vec<String> = match (found.has_errors(), &fault) {
                (true, None) => found
                    .0
                    .iter()
                    .map(|r| format!("{}: {}", r.path, r.message))
                    .collect(),
                (false, Some(fault)) => vec![format!("wanted {fault}, found nothing")],
                _ => Vec::new(),
            };
            score.count(&format!("{} {object}", file.display()), &differences);
        }
    }
    score.all_as_recorded();
}

#[test]
fn the_rules_of_the_gateway_api_can_be_read() {
    let Some(recordings) = recordings() else {
        return;
    };
    let folder = recordings.join("crds/gateway-api/config/crd/experimental");
    let mut all = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        all += definitions(&entry.unwrap().path()).len();
    }
    assert!(all > 10);
}

#[test]
fn a_value_is_judged_by_limits_rules_and_defaults() {
    let schema = compile(&json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 5 },
            "mode": { "type": "string", "default": "A", "enum": ["A", "B"] },
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p"],
                "items": { "type": "object", "properties": { "p": { "type": "integer", "minimum": 1 } } },
            },
            "namespace": { "type": "string" },
            "any": { "x-kubernetes-int-or-string": true },
        },
        "x-kubernetes-validations": [
            { "rule": "self.mode == 'A' || has(self.ports)", "message": "B needs ports" },
            { "rule": "self == oldSelf" },
            { "rule": "!has(self.__namespace__) || self.__namespace__ != 'x'", "fieldPath": ".namespace" },
        ],
    }))
    .unwrap();
    let said = |object: Value| -> Vec<String> {
        let found = judge(&schema, &object).0;
        found
            .iter()
            .map(|r| format!("{}: {}", r.path, r.message))
            .collect()
    };
    assert_eq!(
        said(json!({ "name": "abc", "any": 5 })),
        Vec::<String>::new()
    );
    assert_eq!(
        said(json!({ "name": "abc", "mode": "B" })),
        [": B needs ports"]
    );
    assert_eq!(said(json!({})), ["name: is needed"]);
    assert_eq!(
        said(json!({ "name": "a", "ports": [{ "p": 1 }, { "p": 1 }] })),
        ["ports[1]: is there twice"]
    );
    assert_eq!(
        said(json!({ "name": "a", "namespac": "" })),
        ["namespac: unknown field `namespac`"]
    );
    assert_eq!(said(json!({ "name": "Abcdefg", "any": true })).len(), 3);
    assert_eq!(
        said(json!({ "name": "a", "namespace": "x" })),
        ["namespace: failed rule: !has(self.__namespace__) || self.__namespace__ != 'x'"]
    );
}

#[test]
fn a_value_that_replaces_another_is_judged_by_the_change() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {
            "size": { "type": "integer", "maximum": 5, "x-kubernetes-validations": [{ "rule": "self >= oldSelf", "message": "grows" }] },
            "name": { "type": "string", "x-kubernetes-validations": [
                { "rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": true, "message": "stays" },
            ] },
        },
    }))
    .unwrap();
    let said = |old: Value, new: Value| -> Vec<String> {
        let mut report = Report::default();
        schema.check_change(&new, &old, &At::TOP, &mut report);
        report.0.iter().map(|r| r.message.clone()).collect()
    };
    assert_eq!(
        said(json!({ "size": 2 }), json!({ "size": 3 })),
        Vec::<String>::new()
    );
    assert_eq!(said(json!({ "size": 2 }), json!({ "size": 1 })), ["grows"]);
    assert_eq!(
        said(json!({}), json!({ "size": 1, "name": "a" })),
        Vec::<String>::new()
    );
    assert_eq!(
        said(json!({ "name": "a" }), json!({ "name": "b" })),
        ["stays"]
    );
    // What was too large stays so, and is not made larger.
    assert_eq!(
        said(json!({ "size": 9 }), json!({ "size": 9, "name": "a" })),
        Vec::<String>::new()
    );
    assert_eq!(said(json!({ "size": 9 }), json!({ "size": 10 })).len(), 1);
}

#[test]
fn a_rule_that_would_take_too_long_is_not_begun() {
    let schema = compile(&json!({
        "type": "array",
        "items": { "type": "integer" },
        "x-kubernetes-validations": [
            { "rule": "self.all(a, self.all(b, self.all(c, a + b + c > 0)))" },
        ],
    }))
    .unwrap();
    let found = judge(&schema, &Value::from(vec![1; 5000]));
    assert_eq!(found.0.len(), 1);
    assert!(found.0[0].message.starts_with("too large for the rule"));
}

#[test]
fn rules_of_one_value_share_a_budget() {
    let rule = "self.n.all(a, self.n.all(b, a != b || a == b))";
    let schema = json!({"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": rule}]});
    let schema = compile(&schema).unwrap();
    let told = |count: usize| {
        let report = judge(&schema, &json!({"n": (0..count).collect::<Vec<_>>()}));
        let all = report.0.into_iter().map(|r| r.message);
        all.collect::<Vec<_>>()
    };
    assert_eq!(told(100), Vec::<String>::new());
    assert_eq!(told(2000), [format!("too large for the rule {rule}")]);
}
