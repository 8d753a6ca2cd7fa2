//! Server-side apply as clients send it.

use http::Method;
use serde_json::{Value, json};

use crate::{APPLY, MAPS, MERGE, World};

fn config(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[tokio::test]
async fn an_apply_makes_changes_and_takes_back() {
    let world = World::new().await;
    let one = format!("{MAPS}/a?fieldManager=one");
    let (status, made) = world
        .patch(APPLY, &one, config(json!({"k": "1", "l": "1"})))
        .await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(
        made["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:data": {"f:k": {}, "f:l": {}}})
    );
    let (status, same) = world
        .patch(APPLY, &one, config(json!({"k": "1", "l": "1"})))
        .await;
    assert_eq!((status.as_u16(), &same), (200, &made));
    let (_, less) = world.patch(APPLY, &one, config(json!({"k": "2"}))).await;
    assert_eq!(less["data"], json!({"k": "2"}));

    let two = format!("{MAPS}/a?fieldManager=two");
    let (status, said) = world.patch(APPLY, &two, config(json!({"k": "3"}))).await;
    assert_eq!(
        (
            status.as_u16(),
            said["details"]["causes"][0]["field"].as_str()
        ),
        (409, Some(".data.k"))
    );
    let (status, forced) = world
        .patch(
            APPLY,
            &format!("{two}&force=true"),
            config(json!({"k": "3"})),
        )
        .await;
    assert_eq!(
        (status.as_u16(), &forced["data"]),
        (200, &json!({"k": "3"}))
    );
    let (_, kept) = world
        .patch(
            APPLY,
            &one,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        )
        .await;
    assert_eq!(
        kept["data"],
        json!({"k": "3"}),
        "what another manages stays"
    );
}

#[tokio::test]
async fn an_update_takes_fields_over() {
    let world = World::new().await;
    let one = format!("{MAPS}/a?fieldManager=one");
    world.patch(APPLY, &one, config(json!({"k": "1"}))).await;
    world
        .patch(
            MERGE,
            &format!("{MAPS}/a?fieldManager=edit"),
            json!({"data": {"k": "2"}}),
        )
        .await;
    let (status, said) = world.patch(APPLY, &one, config(json!({"k": "1"}))).await;
    assert_eq!(status, 409);
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .starts_with("Apply failed with 1 conflict: conflict with \"edit\" using v1"),
        "{said}"
    );
}

#[tokio::test]
async fn an_apply_that_says_too_little_is_refused() {
    let world = World::new().await;
    let (status, said) = world
        .patch(APPLY, &format!("{MAPS}/a"), config(json!({})))
        .await;
    assert_eq!(status, 422, "{said}");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    assert_eq!(
        world
            .patch(APPLY, &format!("{MAPS}/a?fieldManager=one"), other)
            .await
            .0,
        400
    );
    let (status, _) = world
        .body(Method::PATCH, &format!("{MAPS}/a"), json!({}))
        .await;
    assert_eq!(status, 415);
}
