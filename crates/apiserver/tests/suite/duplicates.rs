//! Bodies with a duplicate field: what `fieldValidation` makes of them.

use apiserver::access::Who;
use apiserver::api::Request;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::{APPLY, JSON, MAPS, MERGE, ROUTES, STRATEGIC, World, map};

/// The status of an answer, its warnings, and its body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

pub(crate) async fn ask(
    world: &World,
    method: Method,
    uri: &str,
    kind: &str,
    body: &str,
) -> Answer {
    let request = Request::new(method, uri, Who::local()).with_body(kind, body.to_owned());
    let (parts, body) = world.api.handle(request).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let warnings = parts.headers.get_all(http::header::WARNING).iter();
    Answer {
        status: parts.status.as_u16(),
        warnings: warnings.map(|w| w.to_str().unwrap().to_owned()).collect(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

/// A ConfigMap with a duplicate field, and another one is unknown.
const MAP: &str = r#"{"metadata": {"name": "a", "labels": {"x.io/l": "1", "x.io/l": "2"}}, "data": {"k": "1", "k": "2"}, "dta": {}}"#;

const MAP_AS_YAML: &str = "metadata:\n  name: a\ndata:\n  k: \"1\"\n  k: \"2\"\ndta: {}\n";

#[tokio::test]
async fn a_strict_write_is_rejected_with_the_paths_of_duplicate_and_unknown_fields() {
    let world = World::new().await;
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let said = ask(&world, Method::POST, &strict, "application/json", MAP).await;
    assert_eq!(
        (said.status, &said.body["reason"]),
        (400, &"BadRequest".into())
    );
    assert_eq!(
        said.body["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         duplicate field \"metadata.labels.x.io/l\", duplicate field \"data.k\", unknown field \"dta\""
    );
    let said = ask(
        &world,
        Method::POST,
        &strict,
        "application/yaml",
        MAP_AS_YAML,
    )
    .await;
    assert_eq!(said.status, 400);
    assert_eq!(
        said.body["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         yaml: unmarshal errors:\n  line 5: key \"k\" already set in map (data.k), unknown field \"dta\""
    );
    assert_eq!(world.get(&format!("{MAPS}/a")).await.0, 404);

    world.post(MAPS, map("a", "1")).await;
    let one = format!("{MAPS}/a?fieldValidation=Strict&fieldManager=one");
    let twice = r#"{"metadata": {"name": "a"}, "data": {"k": "5", "k": "6"}}"#;
    let operation = r#"[{"op": "add", "path": "/data/k", "value": "5", "value": "6"}]"#;
    for (method, kind, body, field) in [
        (
            Method::PUT,
            "application/json",
            twice,
            "duplicate field \"data.k\"",
        ),
        (Method::PATCH, MERGE, twice, "duplicate field \"data.k\""),
        (
            Method::PATCH,
            STRATEGIC,
            twice,
            "duplicate field \"data.k\"",
        ),
        (Method::PATCH, APPLY, twice, "duplicate field \"data.k\""),
        (
            Method::PATCH,
            APPLY,
            MAP_AS_YAML,
            "line 5: key \"k\" already set in map (data.k)",
        ),
        (
            Method::PATCH,
            JSON,
            operation,
            "json patch duplicate field \"[0].value\"",
        ),
    ] {
        let said = ask(&world, method, &one, kind, body).await;
        let message = said.body["message"].as_str().unwrap();
        assert!(
            said.status == 400 && message.contains(field),
            "{kind}: {message}"
        );
    }
    assert_eq!(world.get(&format!("{MAPS}/a")).await.1["data"]["k"], "1");
}

#[tokio::test]
async fn other_writes_take_the_last_of_duplicate_fields_and_warn_unless_told_to_ignore_them() {
    let world = World::new().await;
    for query in ["", "&fieldValidation=Warn"] {
        let uri = format!("{MAPS}?dryRun=All{query}");
        let said = ask(&world, Method::POST, &uri, "application/json", MAP).await;
        assert_eq!((said.status, &said.body["data"]["k"]), (201, &"2".into()));
        assert_eq!(
            said.warnings,
            [
                r#"299 - "duplicate field \"metadata.labels.x.io/l\"""#,
                r#"299 - "duplicate field \"data.k\"""#,
                r#"299 - "unknown field \"dta\"""#,
            ]
        );
        let uri = format!("{MAPS}/a?fieldManager=one&dryRun=All{query}");
        let said = ask(&world, Method::PATCH, &uri, APPLY, MAP_AS_YAML).await;
        assert_eq!((said.status, &said.body["data"]["k"]), (201, &"2".into()));
        assert_eq!(
            said.warnings,
            [
                r#"299 - "line 5: key \"k\" already set in map (data.k)""#,
                r#"299 - "unknown field \"dta\"""#,
            ]
        );
    }
    let uri = format!("{MAPS}?fieldValidation=Ignore");
    let said = ask(&world, Method::POST, &uri, "application/json", MAP).await;
    assert_eq!((said.status, said.warnings), (201, Vec::new()));
    let merge = r#"{"data": {"k": "3", "k": "4"}}"#;
    let said = ask(&world, Method::PATCH, &format!("{MAPS}/a"), MERGE, merge).await;
    assert_eq!((said.status, &said.body["data"]["k"]), (200, &"4".into()));
    assert_eq!(said.warnings, [r#"299 - "duplicate field \"data.k\"""#]);
}

#[tokio::test]
async fn what_protects_is_no_exception() {
    let world = World::new().await;
    let policies = ROUTES
        .replace("networking.istio.io", "security.istio.io")
        .replace("virtualservices", "authorizationpolicies");
    let policy = r#"{"metadata": {"name": "a"}, "spec": {"action": "DENY", "rules": [{}], "rules": [{"to": [{"operation": {"paths": ["/x"]}}]}]}}"#;
    let strict = format!("{policies}?fieldValidation=Strict");
    let said = ask(&world, Method::POST, &strict, "application/json", policy).await;
    let message = said.body["message"].as_str().unwrap();
    assert!(
        said.status == 400 && message.contains("duplicate field \"spec.rules\""),
        "{message}"
    );
    let said = ask(&world, Method::POST, &policies, "application/json", policy).await;
    assert_eq!(said.status, 201, "{}", said.body);
    let warning = r#"299 - "duplicate field \"spec.rules\"""#;
    assert!(
        said.warnings.iter().any(|w| w == warning),
        "{:?}",
        said.warnings
    );
}

#[tokio::test]
async fn many_duplicates_below_a_long_key_are_reported_in_an_answer_of_bounded_size() {
    let world = World::new().await;
    let fields: Vec<String> = (0..20_000)
        .map(|n| format!(r#""f{n}": 1, "f{n}": 2"#))
        .collect();
    let fields = fields.join(",");
    let body = format!(
        r#"{{"metadata": {{"name": "a"}}, "data": {{"{}": {{{fields}}}}}}}"#,
        "k".repeat(200_000)
    );
    let uri = format!("{MAPS}?fieldValidation=Strict");
    let said = ask(&world, Method::POST, &uri, "application/json", &body).await;
    assert_eq!(said.status, 400);
    let length = said.body["message"].as_str().unwrap().len();
    assert!(length < (2 << 20), "{length}");
}

#[tokio::test]
async fn a_deletion_whose_options_say_a_field_twice_is_rejected_whatever_validates_fields() {
    let world = World::new().await;
    world.post(MAPS, map("a", "1")).await;
    let all = format!("{MAPS}?labelSelector=v%3D1");
    for (uri, kind, body, field) in [
        (
            format!("{MAPS}/a"),
            "application/json",
            r#"{"dryRun": ["All"], "dryRun": []}"#,
            "duplicate field \"dryRun\"",
        ),
        (
            format!("{MAPS}/a?fieldValidation=Ignore"),
            "application/json",
            r#"{"preconditions": {"uid": "other", "uid": ""}}"#,
            "duplicate field \"preconditions.uid\"",
        ),
        (
            format!("{MAPS}/a"),
            "application/yaml",
            "dryRun: [All]\ndryRun: []\n",
            "key \"dryRun\" already set in map",
        ),
        (
            all,
            "application/json",
            r#"{"dryRun": ["All"], "dryRun": []}"#,
            "duplicate field \"dryRun\"",
        ),
    ] {
        let said = ask(&world, Method::DELETE, &uri, kind, body).await;
        let message = said.body["message"].as_str().unwrap();
        assert!(
            said.status == 400 && message.contains(field),
            "{uri}: {message}"
        );
        assert_eq!(world.get(&format!("{MAPS}/a")).await.0, 200, "{uri}");
    }
    let one = format!("{MAPS}/a");
    let said = ask(
        &world,
        Method::DELETE,
        &one,
        "application/json",
        r#"{"dryRun": []}"#,
    )
    .await;
    assert_eq!(said.status, 200);
    assert_eq!(world.get(&one).await.0, 404);
}
