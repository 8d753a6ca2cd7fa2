//! Objects that the rules of their kinds let through and those of the server do not.

use http::Method;
use model::{AnyObject, Diagnostic, Severity};
use serde_json::json;

use crate::duplicates::ask;
use crate::{MAPS, MERGE, World, map};

/// Refuses ConfigMaps with `k: closed`, and warns of those with `k: odd`.
fn rules(object: &AnyObject) -> Vec<Diagnostic> {
    let (severity, message) = match object {
        AnyObject::ConfigMap(map) => match map.spec.data.get("k").map(|value| &**value) {
            Some("closed") => (Severity::Error, "it is closed"),
            Some("odd") => (Severity::Warning, "it is odd"),
            _ => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    vec![Diagnostic::new("PIL9999", severity, message).at("data.k")]
}

#[tokio::test]
async fn what_the_servers_rules_say_refuses_a_write() {
    let world = World::new().await;
    world.api.set_further_rules(rules);
    let (status, body) = world.post(MAPS, map("a", "closed")).await;
    assert_eq!(status, 422, "{body}");
    let cause = &body["details"]["causes"][0];
    assert_eq!(cause["field"], "data.k", "{body}");
    assert_eq!(cause["message"], "Invalid value: it is closed", "{body}");
    let odd = map("b", "odd").to_string();
    let answer = ask(&world, Method::POST, MAPS, "application/json", &odd).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert_eq!(answer.warnings, [r#"299 - "data.k: it is odd""#]);
}

#[tokio::test]
async fn what_was_wrong_before_refuses_no_change_of_something_else() {
    let world = World::new().await;
    let (status, _) = world.post(MAPS, map("a", "closed")).await;
    assert_eq!(status, 201);
    world.api.set_further_rules(rules);
    let uri = format!("{MAPS}/a");
    let finalizers = json!({"metadata": {"finalizers": ["example.com/a"]}});
    let (status, body) = world.patch(MERGE, &uri, finalizers).await;
    assert_eq!(status, 200, "{body}");
    let (status, body) = world
        .patch(MERGE, &uri, json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(status, 200, "{body}");
    let moved = json!({"data": {"k": "open"}});
    let (status, body) = world.patch(MERGE, &uri, moved).await;
    assert_eq!(status, 200, "{body}");
    // What was mended stays so.
    let back = json!({"data": {"k": "closed"}});
    let (status, body) = world.patch(MERGE, &uri, back).await;
    assert_eq!(status, 422, "{body}");
    let (status, body) = world.delete(&uri).await;
    assert_eq!(status, 200, "{body}");
}
