//! What takes long keeps nobody else waiting, and what is behind is not kept in one piece.

use std::time::{Duration, Instant};

use apiserver::access::Who;
use apiserver::api::Request;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::json;

use crate::{MAPS, World};

/// How long a small request may wait, in an unoptimized program on a busy machine.
const BOUND: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_writes_keep_nobody_waiting_and_patterns_are_compiled_once() {
    let world = World::new().await;
    let item = json!({"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,30}[a-z0-9])?(\\.[a-z]([a-z0-9-]{0,30}[a-z0-9])?)*$"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"all": {"type": "array", "items": item}}}}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "bikes.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "bikes", "kind": "Bike"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let (status, said) = world
        .post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
        )
        .await;
    assert_eq!(status, StatusCode::CREATED, "{said}");
    let body = json!({"metadata": {"name": "a"}, "spec": {"all": vec!["a"; 350_000]}}).to_string();
    let writes: Vec<_> = (0..3)
        .map(|_| {
            let (api, body) = (world.api.clone(), body.clone());
            tokio::spawn(async move {
                let uri = "/apis/example.com/v1/namespaces/default/bikes?dryRun=All";
                let request = Request::new(Method::POST, uri, Who::local())
                    .with_body("application/json", body);
                api.handle(request).await.status()
            })
        })
        .collect();
    let (mut longest, mut asked) = (Duration::ZERO, 0);
    while writes.iter().any(|w| !w.is_finished()) {
        let start = Instant::now();
        // On a task of its own, as of a connection.
        let api = world.api.clone();
        let asking = async move {
            api.handle(Request::new(Method::GET, "/version", Who::local()))
                .await
                .status()
        };
        assert_eq!(tokio::spawn(asking).await.unwrap(), StatusCode::OK);
        longest = longest.max(start.elapsed());
        asked += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{asked} requests, the longest took {longest:?}");
    assert!(
        longest < BOUND && asked > 3,
        "{asked} requests, the longest took {longest:?}"
    );
    for write in writes {
        assert_eq!(write.await.unwrap(), StatusCode::CREATED);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_behind_gets_pieces_of_bounded_size() {
    let world = World::new().await;
    let watch = Request::new(
        Method::GET,
        &format!("{MAPS}?watch=true&resourceVersion=1"),
        Who::local(),
    );
    let mut body = world.api.handle(watch).await.into_body();
    for n in 0..100 {
        let name = format!("m{n}");
        let map = json!({"metadata": {"name": name}, "data": {"pad": "x".repeat(30_000)}});
        let (status, _) = world.post(MAPS, map).await;
        assert_eq!(status, StatusCode::CREATED);
    }
    let (mut lines, mut largest) = (0, 0);
    while lines < 100 {
        let frame = tokio::time::timeout(Duration::from_secs(60), body.frame()).await;
        let piece = frame.unwrap().unwrap().unwrap().into_data().unwrap();
        largest = largest.max(piece.len());
        lines += piece.iter().filter(|b| **b == b'\n').count();
    }
    assert_eq!(lines, 100);
    assert!(largest < 256 << 10, "{largest} bytes in one piece");
}
