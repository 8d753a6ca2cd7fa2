//! CustomResourceDefinitions: which are taken, and what they ask of objects.

use serde_json::{Value, json};

use crate::{APPLY, MERGE, World};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LAMPS: &str = "/apis/example.com/v1/namespaces/default/lamps";

fn definition(spec: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": spec}}}}]}})
}

fn lamp(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": name}, "spec": spec})
}

fn rules() -> Value {
    json!({"type": "object", "properties": {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "socket": {"type": "string"},
        "mode": {"type": "string", "default": "steady"},
        "bulbs": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "watts": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.watts >= oldSelf.watts", "message": "bulbs only grow"}]}},
    }, "oneOf": [{"required": ["low"]}, {"required": ["bulbs"]}],
    "x-kubernetes-validations": [
        {"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must be below high", "fieldPath": ".low"},
        {"rule": "!has(oldSelf.socket) || has(self.socket)", "message": "a socket stays"},
        {"rule": "self.mode != 'strobe' || (has(self.socket) && self.socket == 'e27')",
            "messageExpression": "'no strobe at ' + (has(self.socket) ? self.socket : 'nothing')"},
    ]})
}

async fn world() -> World {
    let world = World::new().await;
    let (status, said) = world.post(DEFINITIONS, definition(rules())).await;
    assert_eq!(status, 201, "{said}");
    world
}

/// Status and message of a refusal.
fn refusal((status, said): (http::StatusCode, Value)) -> (u16, String) {
    let message = said["message"].as_str().unwrap_or_default().to_owned();
    (status.as_u16(), message)
}

#[tokio::test]
async fn rules_and_conditions_hold_for_what_is_made() {
    let world = world().await;
    let (status, made) = world
        .post(LAMPS, lamp("a", json!({"low": 1, "high": 2, "bad": 1})))
        .await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["spec"], json!({"low": 1, "high": 2, "mode": "steady"}));
    let (status, said) = refusal(
        world
            .post(LAMPS, lamp("b", json!({"low": 3, "high": 2})))
            .await,
    );
    assert_eq!(status, 422);
    assert_eq!(
        said,
        "Lamp.example.com \"b\" is invalid: spec.low: Invalid value: low must be below high"
    );
    let (status, said) = refusal(
        world
            .post(LAMPS, lamp("b", json!({"low": 1, "mode": "strobe"})))
            .await,
    );
    assert_eq!(status, 422);
    assert!(
        said.ends_with("spec: Invalid value: no strobe at nothing"),
        "{said}"
    );
    let both = lamp("b", json!({"low": 1, "bulbs": []}));
    assert_eq!(refusal(world.post(LAMPS, both).await).0, 422);
    // The same way for server-side apply.
    let uri = format!("{LAMPS}/b?fieldManager=test");
    let applied = world
        .patch(APPLY, &uri, lamp("b", json!({"low": 3, "high": 2})))
        .await;
    assert_eq!(refusal(applied).0, 422);
}

#[tokio::test]
async fn rules_about_changes_see_what_was_there() {
    let world = world().await;
    let bulbs =
        |watts: [i64; 2]| json!([{"id": "x", "watts": watts[0]}, {"id": "y", "watts": watts[1]}]);
    let spec = json!({"socket": "e14", "bulbs": bulbs([5, 5])});
    assert_eq!(world.post(LAMPS, lamp("a", spec)).await.0, 201);
    let uri = format!("{LAMPS}/a");
    let change = |spec: Value| json!({"spec": spec});
    let (status, said) = refusal(
        world
            .patch(MERGE, &uri, change(json!({"socket": null})))
            .await,
    );
    assert_eq!(status, 422);
    assert!(
        said.ends_with("spec: Invalid value: a socket stays"),
        "{said}"
    );
    // Items are known again by their keys, wherever they stand.
    let turned = json!([{"id": "y", "watts": 6}, {"id": "z", "watts": 1}, {"id": "x", "watts": 5}]);
    let (status, said) = world
        .patch(MERGE, &uri, change(json!({"bulbs": turned})))
        .await;
    assert_eq!(status, 200, "{said}");
    let less = json!([{"id": "y", "watts": 5}]);
    let (status, said) = refusal(
        world
            .patch(MERGE, &uri, change(json!({"bulbs": less})))
            .await,
    );
    assert_eq!(status, 422);
    assert!(
        said.contains("spec.bulbs[0]: Invalid value: bulbs only grow"),
        "{said}"
    );
}

#[tokio::test]
async fn a_stricter_rule_does_not_hold_for_what_stays_as_it_was() {
    let world = world().await;
    let spec = json!({"low": 100, "socket": "e14"});
    assert_eq!(world.post(LAMPS, lamp("a", spec)).await.0, 201);
    let mut stricter = definition(rules());
    let spec =
        &mut stricter["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["low"]["x-kubernetes-validations"] = json!([{"rule": "self < 10"}]);
    let uri = format!("{DEFINITIONS}/lamps.example.com");
    let (status, said) = world.patch(MERGE, &uri, stricter).await;
    assert_eq!(status, 200, "{said}");
    let uri = format!("{LAMPS}/a");
    let (status, said) = world
        .patch(MERGE, &uri, json!({"spec": {"socket": "e27"}}))
        .await;
    assert_eq!(status, 200, "{said}");
    let (status, said) = refusal(world.patch(MERGE, &uri, json!({"spec": {"low": 99}})).await);
    assert_eq!(status, 422);
    assert!(said.contains("spec.low: Invalid value: 99: "), "{said}");
}

#[tokio::test]
async fn a_definition_that_has_no_meaning_is_refused_with_its_field() {
    let world = World::new().await;
    for (spec, field) in [
        (json!({"properties": {}}), "properties[spec].type"),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}),
            "x-kubernetes-validations[0].rule",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
            "properties[a].default",
        ),
        (json!({"type": "object", "$ref": "#/x"}), "$ref"),
    ] {
        let (status, said) = world.post(DEFINITIONS, definition(spec)).await;
        assert_eq!(status, 422, "{field}");
        let fields = said["details"]["causes"].as_array().unwrap();
        let field_of = |c: &Value| c["field"].as_str().unwrap().to_owned();
        let found: Vec<String> = fields.iter().map(field_of).collect();
        assert!(
            found.iter().any(|f| f.ends_with(field)),
            "{field}: {found:?}"
        );
    }
    assert_eq!(world.get(LAMPS).await.0, 404);
}

#[tokio::test]
async fn what_a_definition_says_of_stored_objects_stays() {
    let world = world().await;
    let uri = format!("{DEFINITIONS}/lamps.example.com");
    let (status, said) = refusal(
        world
            .patch(MERGE, &uri, json!({"spec": {"scope": "Cluster"}}))
            .await,
    );
    assert_eq!(status, 422);
    assert!(said.contains("spec.scope"), "{said}");
    let other = {
        let mut other = definition(rules());
        other["metadata"]["name"] = "lights.example.com".into();
        other["spec"]["names"]["plural"] = "lights".into();
        other
    };
    let (status, said) = refusal(world.post(DEFINITIONS, other).await);
    assert_eq!(status, 422);
    assert!(
        said.contains("Lamp is the kind of lamps.example.com already"),
        "{said}"
    );
}

#[tokio::test]
async fn a_rule_says_what_kind_of_fault_it_is_and_where() {
    let world = World::new().await;
    let spec = json!({"type": "object", "properties": {
        "socket": {"type": "string"}, "low": {"type": "integer"},
        "since": {"type": "string", "format": "date-time"}, "lasts": {"type": "string", "format": "duration"},
        "deep": {"type": "object", "properties": {"a.b": {"type": "object", "properties": {"c": {"type": "string"}}}}}},
        "x-kubernetes-validations": [
            {"rule": "has(self.socket)", "reason": "FieldValueRequired", "message": "a lamp has a socket", "fieldPath": ".socket"},
            {"rule": "!has(self.low)", "reason": "FieldValueForbidden", "message": "no low lamps", "fieldPath": ".low"},
            {"rule": "!has(self.deep)", "reason": "FieldValueDuplicate", "message": "there is one", "fieldPath": ".deep['a.b'].c"},
            {"rule": "!has(self.since) || self.since > timestamp('2020-01-01T00:00:00Z')"},
            {"rule": "!has(self.lasts) || self.lasts < duration('1h')", "message": "too long", "messageExpression": "'a\\nb'"}]});
    let (status, said) = world.post(DEFINITIONS, definition(spec)).await;
    assert_eq!(status, 201, "{said}");
    let bad = json!({"low": 1, "deep": {"a.b": {"c": "x"}}, "since": "2019-01-01T00:00:00Z", "lasts": "2h"});
    let (status, said) = world.post(LAMPS, lamp("a", bad)).await;
    assert_eq!(status, 422);
    let causes = said["details"]["causes"].as_array().unwrap();
    let text = |c: &Value, f: &str| c[f].as_str().unwrap().to_owned();
    let all: Vec<[String; 3]> = causes
        .iter()
        .map(|c| ["reason", "field", "message"].map(|f| text(c, f)))
        .collect();
    let invalid = "FieldValueInvalid";
    let wanted = [
        [
            "FieldValueRequired",
            "spec.socket",
            "Required value: a lamp has a socket",
        ],
        ["FieldValueForbidden", "spec.low", "Forbidden: no low lamps"],
        [
            "FieldValueDuplicate",
            "spec.deep[\"a.b\"].c",
            "Duplicate value: \"x\": there is one",
        ],
        [
            invalid,
            "spec",
            "Invalid value: failed rule: !has(self.since) || self.since > timestamp('2020-01-01T00:00:00Z')",
        ],
        [invalid, "spec", "Invalid value: too long"],
    ];
    assert_eq!(all, wanted.map(|row| row.map(str::to_owned)));
    let good = json!({"socket": "e27", "since": "2021-01-01T00:00:00Z", "lasts": "30m"});
    let (status, said) = world.post(LAMPS, lamp("a", good)).await;
    assert_eq!(status, 201, "{said}");
}

#[tokio::test]
async fn a_rule_over_a_long_list_costs_a_bounded_time() {
    let world = World::new().await;
    let spec = json!({"type": "object", "properties": {"n": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.n.all(a, self.n.all(b, a != b || a == b))"}]});
    assert_eq!(
        world.post(DEFINITIONS, definition(spec.clone())).await.0,
        201
    );
    let numbers = |count: usize| json!({"n": (0..count).collect::<Vec<_>>()});
    assert_eq!(world.post(LAMPS, lamp("few", numbers(300))).await.0, 201);
    // Two thousand would be four million rounds, more than the budget of one object; the schema is looked at first.
    assert_eq!(
        refusal(world.post(LAMPS, lamp("many", numbers(2000))).await).0,
        422
    );
    // Ten times as much, and the definition would not have been taken.
    let mut long = definition(spec);
    long["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["n"]["maxItems"] = 10_000.into();
    let uri = format!("{DEFINITIONS}/lamps.example.com");
    let (status, said) = refusal(world.patch(MERGE, &uri, long).await);
    assert_eq!(status, 422);
    assert!(
        said.contains("estimated rule cost exceeds budget"),
        "{said}"
    );
}
