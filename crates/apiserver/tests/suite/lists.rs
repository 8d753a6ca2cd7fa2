//! Lists: parts, selectors, revisions, and other forms than whole objects.

use apiserver::access::Who;
use apiserver::api::Request;
use http::Method;
use serde_json::json;

use crate::{MAPS, MERGE, World, map};

#[tokio::test]
async fn lists_come_in_parts_and_by_selector() {
    let world = World::new().await;
    for n in 0..5 {
        world
            .post(
                MAPS,
                map(&format!("m{n}"), if n < 3 { "low" } else { "high" }),
            )
            .await;
    }
    let (_, first) = world.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(
        (
            first["items"].as_array().unwrap().len(),
            first["metadata"]["remainingItemCount"].as_i64()
        ),
        (2, Some(3))
    );
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = world.get(&format!("{MAPS}?limit=9&continue={token}")).await;
    let names: Vec<_> = second["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["m2", "m3", "m4"]);
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let (_, high) = world
        .get("/api/v1/configmaps?labelSelector=v%3Dhigh&fieldSelector=metadata.name!%3Dm3")
        .await;
    assert_eq!(high["items"].as_array().unwrap().len(), 1);
    assert_eq!(high["kind"], "ConfigMapList");
    assert_eq!(
        world.get(&format!("{MAPS}?resourceVersion=9999")).await.0,
        504
    );
    assert_eq!(world.get(&format!("{MAPS}?continue=zzz")).await.0, 400);
    let mut table = Request::new(Method::GET, MAPS, Who::local());
    table.accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json".to_owned();
    let (_, table) = world.send(table).await;
    assert_eq!(
        (
            table["kind"].as_str(),
            table["rows"][0]["cells"][0].as_str(),
            table["rows"][0]["cells"][1].as_i64()
        ),
        (Some("Table"), Some("m0"), Some(1))
    );
}

#[tokio::test]
async fn a_list_can_be_of_any_revision_that_is_known() {
    let world = World::with(apiserver::store::Keep {
        revisions: 100_000,
        ..Default::default()
    })
    .await;
    let names = |list: &serde_json::Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        let one = |o: &serde_json::Value| {
            let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
            text(&o["metadata"]["name"]) + "=" + &text(&o["data"]["k"])
        };
        items.map(one).collect()
    };
    for name in ["a", "b", "d"] {
        world.post(MAPS, map(name, "1")).await;
    }
    let (_, then) = world.get(MAPS).await;
    let revision = then["metadata"]["resourceVersion"].as_str().unwrap();
    let (_, part) = world.get(&format!("{MAPS}?limit=1")).await;
    let token = part["metadata"]["continue"].as_str().unwrap();
    world.delete(&format!("{MAPS}/b")).await;
    world.post(MAPS, map("c", "1")).await;
    let change = json!({"data": {"k": "2"}});
    world.patch(MERGE, &format!("{MAPS}/d"), change).await;
    world.get("/api/v1/namespaces").await;
    let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    let (status, found) = world.get(&format!("{MAPS}?{exact}")).await;
    assert_eq!(status, 200, "{found}");
    assert_eq!(names(&found), ["a=1", "b=1", "d=1"]);
    assert_eq!(found["metadata"]["resourceVersion"], *revision);
    // Further parts are of the moment of the first.
    let (_, rest) = world.get(&format!("{MAPS}?limit=5&continue={token}")).await;
    assert_eq!(names(&rest), ["b=1", "d=1"]);
    let newer = format!("resourceVersion={revision}&resourceVersionMatch=NotOlderThan");
    let (_, found) = world.get(&format!("{MAPS}?{newer}")).await;
    assert_eq!(names(&found), ["a=1", "c=1", "d=2"]);
}

#[tokio::test]
async fn metadata_can_be_had_alone() {
    let world = World::new().await;
    world.post(MAPS, map("a", "1")).await;
    let mut request = Request::new(Method::GET, MAPS, Who::local());
    request.accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json".to_owned();
    let (_, list) = world.send(request).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    let item = &list["items"][0];
    assert_eq!(
        (item["kind"].as_str(), &item["data"]),
        (Some("PartialObjectMetadata"), &json!(null))
    );
    assert_eq!(item["metadata"]["name"], "a");
}
