//! The ledger: history, differences, going back.

use apiserver::access::Who;
use apiserver::api::Request;
use http::Method;
use serde_json::json;

use crate::{MAPS, MERGE, ROUTES, World, map, route};

#[tokio::test]
async fn history_tells_who_did_what() {
    let world = World::new().await;
    world
        .post(&format!("{MAPS}?fieldManager=make"), map("a", "1"))
        .await;
    world
        .patch(
            MERGE,
            &format!("{MAPS}/a?fieldManager=edit"),
            json!({"data": {"k": "2"}}),
        )
        .await;
    world.delete(&format!("{MAPS}/a")).await;
    let (_, history) = world.get("/pilothouse/history?resource=cm&name=a").await;
    let lines: Vec<_> = history["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            format!(
                "{} {} {}",
                r["change"].as_str().unwrap(),
                r["manager"].as_str().unwrap(),
                r["user"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "deleted pilothouse local",
            "changed edit local",
            "created make local"
        ]
    );
    assert_eq!(
        world
            .get("/pilothouse/history?resource=nothing&name=a")
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn a_rollback_is_shown_first_and_is_a_new_revision() {
    let world = World::new().await;
    let (_, made) = world.post(ROUTES, route("a", "a.com")).await;
    let (_, gone) = world.post(ROUTES, route("gone", "g.com")).await;
    let then: u64 = gone["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    world
        .patch(
            MERGE,
            &format!("{ROUTES}/a"),
            json!({"spec": {"hosts": ["b.com"]}}),
        )
        .await;
    world.delete(&format!("{ROUTES}/gone")).await;
    world.post(ROUTES, route("new", "n.com")).await;
    let (_, diff) = world.get(&format!("/pilothouse/diff?from={then}")).await;
    let changes: Vec<_> = diff["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(changes, ["a", "gone", "new"]);
    let (_, was) = world
        .get(&format!(
            "/pilothouse/at?revision={then}&resource=vs&name=a"
        ))
        .await;
    assert_eq!(was, made);

    let roll = format!("/pilothouse/rollback?revision={then}");
    let (status, tried) = world.post(&format!("{roll}&dryRun=All"), json!({})).await;
    assert_eq!(
        (status.as_u16(), tried["changes"].as_array().unwrap().len()),
        (200, 3)
    );
    assert_eq!(world.get(&format!("{ROUTES}/gone")).await.0, 404);
    let (status, done) = world.post(&roll, json!({})).await;
    assert_eq!(
        (status.as_u16(), done["dryRun"].as_bool()),
        (200, Some(false)),
        "{done}"
    );
    let (_, back) = world.get(&format!("{ROUTES}/a")).await;
    assert_eq!(
        (
            &back["spec"],
            &back["metadata"]["uid"],
            back["metadata"]["generation"].as_i64()
        ),
        (&made["spec"], &made["metadata"]["uid"], Some(3))
    );
    let (_, again) = world.get(&format!("{ROUTES}/gone")).await;
    assert_eq!(again["spec"], gone["spec"]);
    assert_ne!(again["metadata"]["uid"], gone["metadata"]["uid"]);
    assert_eq!(world.get(&format!("{ROUTES}/new")).await.0, 404);
    let (_, none) = world
        .get(&format!("/pilothouse/diff?from={}", done["revision"]))
        .await;
    assert_eq!(none["changes"], json!([]));
}

#[tokio::test]
async fn the_ledger_is_for_those_who_may_do_everything() {
    let world = World::new().await;
    let request = Request::new(Method::GET, "/pilothouse/history", Who::new("eve", &[]));
    assert_eq!(world.send(request).await.0, 403);
    let request = Request::new(Method::GET, MAPS, Who::new("eve", &[]));
    let (status, said) = world.send(request).await;
    assert_eq!(status, 403);
    assert_eq!(
        said["message"],
        "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
}
