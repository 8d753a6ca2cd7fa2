//! Both places over our own API: a cluster's over HTTP, and the store in process.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;
use std::time::Duration;

use apiserver::access::Access;
use apiserver::api::Api;
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::store::{Keep, Store};
use kube::{Client, Config};
use model::{Kind, ObjectName};
use pilothouse_server::writing::embedded::EmbeddedPlace;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use writeback::lead::Lead;
use writeback::lease::{Candidate, Elector, Lock};
use writeback::{ClusterPlace, Limits, ObjectRef, Part, Place, WriteError};

struct World {
    places: [Arc<dyn Place>; 2],
    stop: CancellationToken,
    _dir: tempfile::TempDir,
}

impl World {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Keep::default()).unwrap();
        let namespaces = ["default", "istio-system"];
        let api = Api::start(store, Access::default(), Audit::default(), &namespaces)
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(
            listener,
            Security::InsecureLocal,
            api.clone(),
            stop.clone(),
        ));
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = Client::try_from(config).unwrap();
        Self {
            places: [
                Arc::new(ClusterPlace::new("test", client, Limits::default())),
                Arc::new(EmbeddedPlace::new(api)),
            ],
            stop,
            _dir: dir,
        }
    }
}

fn entry(name: &str) -> ObjectRef {
    ObjectRef::of(Kind::ServiceEntry, &ObjectName::new("default", name))
}

fn spec() -> Value {
    json!({"hosts": ["a.example.com"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"})
}

#[tokio::test(flavor = "multi_thread")]
async fn both_places_do_the_same() {
    let world = World::start().await;
    for (index, place) in world.places.iter().enumerate() {
        let object = entry(&format!("entry-{index}"));
        assert_eq!(place.get(&object).await, Ok(None));
        let missing = place.replace(&object, Part::Status, json!({})).await;
        assert!(
            matches!(missing, Err(WriteError::Missing | WriteError::Refused(_))),
            "{missing:?}"
        );
        let bad = place.create(&object, json!({"spec": {"hosts": 3}})).await;
        assert!(matches!(bad, Err(WriteError::Refused(_))), "{bad:?}");
        let first = place
            .create(&object, json!({"spec": spec()}))
            .await
            .unwrap();
        assert_eq!(first["metadata"]["generation"], 1);
        assert_eq!(
            place.create(&object, json!({"spec": spec()})).await,
            Err(WriteError::Exists)
        );
        let mut next = first.clone();
        next["status"] = json!({"addresses": [{"value": "240.240.0.1", "host": "a.example.com"}]});
        next["spec"]["resolution"] = "STATIC".into();
        let second = place
            .replace(&object, Part::Status, next.clone())
            .await
            .unwrap();
        assert_eq!(
            second["spec"]["resolution"], "DNS",
            "only the status is written"
        );
        assert_eq!(second["status"], next["status"]);
        assert_eq!(second["metadata"]["generation"], 1);
        let stale = place.replace(&object, Part::Status, first.clone()).await;
        assert_eq!(stale, Err(WriteError::Conflict));
        let page = place.list(&object, None).await.unwrap();
        assert_eq!(page.items.last().unwrap()["status"], next["status"]);
        let version = first["metadata"]["resourceVersion"].as_str();
        assert_eq!(
            place.delete(&object, version).await,
            Err(WriteError::Conflict)
        );
        let version = second["metadata"]["resourceVersion"].as_str();
        place.delete(&object, version).await.unwrap();
        assert_eq!(place.delete(&object, None).await, Err(WriteError::Missing));
    }
    world.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pages() {
    let world = World::start().await;
    for index in 0..230 {
        let object = entry(&format!("entry-{index}"));
        world.places[1]
            .create(&object, json!({"spec": spec()}))
            .await
            .unwrap();
    }
    for place in &world.places {
        let (mut next, mut count, mut pages) = (None, 0, 0);
        loop {
            let page = place.list(&entry("x"), next.as_deref()).await.unwrap();
            count += page.items.len();
            pages += 1;
            match page.next {
                Some(token) => next = Some(token),
                None => break,
            }
        }
        assert_eq!((count, pages), (230, 3));
    }
    world.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_elect_a_leader_over_the_api() {
    let world = World::start().await;
    let default_revision = watch::Sender::new(Arc::from(""));
    let start = |identity: &str, place: &Arc<dyn Place>| {
        let candidate = Candidate {
            namespace: "istio-system".into(),
            identity: identity.into(),
            revision: "default".into(),
            duration: Duration::from_secs(3),
            default_revision: default_revision.subscribe(),
        };
        let (elector, leading) = Elector::new(place.clone(), Lock::Ingress, candidate);
        let stop = CancellationToken::new();
        let task = tokio::spawn(elector.run(stop.clone()));
        (leading, stop, task)
    };
    let (mut a, stop_a, task_a) = start("a", &world.places[0]);
    tokio::time::timeout(Duration::from_secs(20), a.begun())
        .await
        .unwrap();
    let (mut b, _, task_b) = start("b", &world.places[0]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(b.now(), Lead::Theirs("a".into()));
    // Asked to stop: the next leads at once. Killed: when the lease has run out.
    stop_a.cancel();
    task_a.await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), b.begun())
        .await
        .unwrap();
    task_b.abort();
    let (mut c, _, _) = start("c", &world.places[1]);
    tokio::time::timeout(Duration::from_secs(30), c.begun())
        .await
        .unwrap();
    world.stop.cancel();
}
