//! Fields of `metadata` that no object has: what `fieldValidation` makes of them.

use http::Method;
use serde_json::json;

use crate::duplicates::ask;
use crate::{APPLY, JSON, MAPS, MERGE, ROUTES, STRATEGIC, World, map, route};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LAMPS: &str = "/apis/example.com/v1/namespaces/default/lamps";

/// A world with a kind of its own, whose objects may have any fields.
async fn world() -> World {
    let world = World::new().await;
    let definition = json!({"metadata": {"name": "lamps.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let (status, body) = world.post(DEFINITIONS, definition).await;
    assert_eq!(status, 201, "{body}");
    world
}

#[tokio::test]
async fn a_strict_write_of_any_kind_is_rejected_with_the_paths_of_unknown_metadata() {
    let world = world().await;
    for (uri, body, field) in [
        (
            MAPS,
            json!({"metadata": {"name": "b", "namespce": "x"}}),
            "metadata.namespce",
        ),
        (
            ROUTES,
            json!({"metadata": {"name": "b", "spec": {"hosts": ["a.example.com"]}}, "spec": route("b", "b.example.com")["spec"]}),
            "metadata.spec",
        ),
        (
            LAMPS,
            json!({"metadata": {"name": "b", "anotations": {"a": "b"}}}),
            "metadata.anotations",
        ),
        (
            DEFINITIONS,
            json!({"metadata": {"name": "b.example.com", "foo": null}}),
            "metadata.foo",
        ),
    ] {
        let strict = format!("{uri}?fieldValidation=Strict");
        let body = body.to_string();
        let said = ask(&world, Method::POST, &strict, "application/json", &body).await;
        let message = said.body["message"].as_str().unwrap();
        let wanted = format!("strict decoding error: unknown field {field:?}");
        assert!(
            said.status == 400 && message.ends_with(&wanted),
            "{uri}: {message}"
        );
        assert_eq!(world.get(&format!("{uri}/b")).await.0, 404);
    }
    world.post(MAPS, map("a", "1")).await;
    let one = format!("{MAPS}/a?fieldValidation=Strict&fieldManager=one");
    let body = r#"{"metadata": {"name": "a", "anotations": {"b": "c"}}}"#;
    let operation = r#"[{"op": "add", "path": "/metadata/anotations", "value": {}}]"#;
    for (method, kind, body) in [
        (Method::PUT, "application/json", body),
        (Method::PATCH, MERGE, body),
        (Method::PATCH, STRATEGIC, body),
        (Method::PATCH, APPLY, body),
        (Method::PATCH, JSON, operation),
    ] {
        let said = ask(&world, method, &one, kind, body).await;
        let message = said.body["message"].as_str().unwrap();
        assert!(
            said.status == 400 && message.ends_with("unknown field \"metadata.anotations\""),
            "{kind}: {message}"
        );
    }
}

#[tokio::test]
async fn other_writes_drop_unknown_metadata_and_warn_unless_told_to_ignore_it() {
    let world = world().await;
    for uri in [MAPS, LAMPS] {
        let body = r#"{"metadata": {"name": "a", "foo": {"bar": "x"}}}"#;
        let said = ask(&world, Method::POST, uri, "application/json", body).await;
        assert_eq!(said.status, 201, "{}", said.body);
        assert_eq!(
            said.warnings,
            [r#"299 - "unknown field \"metadata.foo\"""#],
            "{uri}"
        );
        let one = format!("{uri}/a");
        let patch = r#"{"metadata": {"foo": "y", "labels": {"l": "1"}}}"#;
        let said = ask(&world, Method::PATCH, &one, MERGE, patch).await;
        assert_eq!(said.status, 200, "{}", said.body);
        assert_eq!(
            said.warnings,
            [r#"299 - "unknown field \"metadata.foo\"""#],
            "{uri}"
        );
        let ignored = format!("{one}?fieldManager=one&fieldValidation=Ignore");
        let apply = r#"{"metadata": {"name": "a", "foo": "z", "annotations": {"n": "1"}}}"#;
        let said = ask(&world, Method::PATCH, &ignored, APPLY, apply).await;
        assert_eq!((said.status, said.warnings), (200, Vec::new()));
        let stored = world.get(&one).await.1;
        let metadata = &stored["metadata"];
        assert_eq!(
            (&metadata["labels"]["l"], &metadata["annotations"]["n"]),
            (&"1".into(), &"1".into())
        );
        assert!(!stored.to_string().contains("foo"), "{stored}");
    }
}
