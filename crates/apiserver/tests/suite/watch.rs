//! Watches.

use std::time::Duration;

use apiserver::access::Who;
use apiserver::api::{Body, Request};
use apiserver::store::{Keep, Store};
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::{MAPS, MERGE, World, map};

/// The events of a watch, as they come.
pub(crate) struct Events {
    body: Body,
    rest: Vec<u8>,
}

impl Events {
    async fn of(world: &World, query: &str) -> Self {
        Self::at(world, MAPS, query).await
    }

    /// Those of the objects of a path.
    pub(crate) async fn at(world: &World, path: &str, query: &str) -> Self {
        let request = Request::new(
            Method::GET,
            &format!("{path}?watch=true&{query}"),
            Who::local(),
        );
        let response = world.api.handle(request).await;
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }

    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            // Generous: it is reached only by a watch that is broken.
            let frame = tokio::time::timeout(Duration::from_secs(60), self.body.frame())
                .await
                .expect("an event comes")?;
            self.rest
                .extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }

    pub(crate) async fn told(&mut self) -> String {
        let event = self.next().await.expect("the watch goes on");
        format!(
            "{} {}",
            event["type"].as_str().unwrap(),
            event["object"]["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
        )
    }
}

#[tokio::test]
async fn a_watch_tells_what_happens_from_a_revision_on() {
    let world = World::new().await;
    let (_, made) = world.post(MAPS, map("a", "1")).await;
    let from = made["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = Events::of(&world, &format!("resourceVersion={from}")).await;
    world
        .patch(MERGE, &format!("{MAPS}/a"), json!({"data": {"k": "2"}}))
        .await;
    world.delete(&format!("{MAPS}/a")).await;
    world.post(MAPS, map("b", "1")).await;
    assert_eq!(events.told().await, "MODIFIED a");
    assert_eq!(events.told().await, "DELETED a");
    assert_eq!(events.told().await, "ADDED b");
}

#[tokio::test]
async fn a_watch_without_a_revision_begins_with_what_is_there() {
    let world = World::new().await;
    world.post(MAPS, map("a", "1")).await;
    let mut events = Events::of(&world, "").await;
    assert_eq!(events.told().await, "ADDED a");
    let mut events = Events::of(
        &world,
        "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
    )
    .await;
    assert_eq!(events.told().await, "ADDED a");
    let mark = events.next().await.unwrap();
    assert_eq!(
        (
            mark["type"].as_str(),
            mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"].as_str()
        ),
        (Some("BOOKMARK"), Some("true"))
    );
    world.post(MAPS, map("b", "1")).await;
    assert_eq!(events.told().await, "ADDED b");
}

#[tokio::test]
async fn a_selector_makes_objects_come_and_go() {
    let world = World::new().await;
    let mut events = Events::of(&world, "labelSelector=v%3D1&resourceVersion=1").await;
    world.post(MAPS, map("a", "1")).await;
    world
        .patch(
            MERGE,
            &format!("{MAPS}/a"),
            json!({"metadata": {"labels": {"v": "2"}}}),
        )
        .await;
    world
        .patch(
            MERGE,
            &format!("{MAPS}/a"),
            json!({"data": {"unseen": "x"}}),
        )
        .await;
    world
        .patch(
            MERGE,
            &format!("{MAPS}/a"),
            json!({"metadata": {"labels": {"v": "1"}}}),
        )
        .await;
    assert_eq!(events.told().await, "ADDED a");
    assert_eq!(events.told().await, "DELETED a");
    assert_eq!(events.told().await, "ADDED a");
}

#[tokio::test]
async fn a_watch_ends_when_it_said_it_would() {
    let world = World::new().await;
    let mut events = Events::of(
        &world,
        "resourceVersion=1&timeoutSeconds=1&allowWatchBookmarks=true",
    )
    .await;
    assert_eq!(events.next().await.unwrap()["type"], "BOOKMARK");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_watch_of_what_is_forgotten_says_so() {
    let keep = Keep {
        revisions: 5,
        ..Keep::default()
    };
    let world = World::with(keep).await;
    for n in 0..20 {
        world.post(MAPS, map(&format!("m{n}"), "1")).await;
    }
    let World { api, dir } = world;
    drop(api);
    let store = loop {
        match Store::open(dir.path(), keep) {
            Ok(store) => break store,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let api = apiserver::api::Api::start(store, Default::default(), Default::default(), &[])
        .await
        .unwrap();
    let world = World { api, dir };
    let mut events = Events::of(&world, "resourceVersion=2").await;
    let event = events.next().await.unwrap();
    assert_eq!(
        (event["type"].as_str(), event["object"]["code"].as_i64()),
        (Some("ERROR"), Some(410))
    );
    assert!(events.next().await.is_none());
    let mut events = Events::of(&world, "resourceVersion=20").await;
    assert_eq!(
        events.told().await,
        "ADDED m19",
        "what is kept can be watched across a restart"
    );
}
