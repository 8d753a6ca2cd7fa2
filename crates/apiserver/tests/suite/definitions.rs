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
        "Lamp.example.com \"b\" is invalid: spec.low: Invalid value: 3: low must be below high"
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
