//! kube-rs against the API: what it writes, what it finds, and what its caches know across restarts and compaction.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::access::{Access, Who};
use apiserver::api::{Api, Request};
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::store::{Keep, Store, StoreError};
use futures::{StreamExt, TryStreamExt};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::core::PartialObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, Config};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server that can be stopped and started again in its place.
struct Server {
    api: Arc<Api>,
    address: SocketAddr,
    stop: CancellationToken,
}

impl Server {
    /// Opens the store; nobody can ask until [`Self::listen`].
    async fn open(dir: &Path, keep: Keep) -> Arc<Api> {
        let store = loop {
            match Store::open(dir, keep) {
                Err(StoreError::InUse) => tokio::time::sleep(Duration::from_millis(5)).await,
                other => break other.unwrap(),
            }
        };
        Api::start(store, Access::default(), Audit::default(), &["default"])
            .await
            .unwrap()
    }

    async fn listen(api: Arc<Api>, address: SocketAddr) -> Self {
        let listener = loop {
            // The port is free once the last connection of the server before is closed.
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = serve(listener, Security::InsecureLocal, api.clone(), stop.clone());
        tokio::spawn(serving);
        Self { api, address, stop }
    }

    fn client(&self) -> Client {
        let config = Config::new(format!("http://{}", self.address).parse().unwrap());
        Client::try_from(config).unwrap()
    }

    /// Returns where it listened.
    fn stop(self) -> SocketAddr {
        self.stop.cancel();
        self.address
    }
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("k".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_written_found_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::listen(Server::open(dir.path(), Keep::default()).await, any()).await;
    let client = server.client();
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client.clone(), "default");
    for name in ["a", "b", "c"] {
        let made = maps
            .create(&PostParams::default(), &config_map(name, "1"))
            .await;
        assert!(made.unwrap().metadata.uid.is_some());
    }
    let again = maps
        .create(&PostParams::default(), &config_map("a", "1"))
        .await;
    assert!(matches!(again, Err(kube::Error::Api(status)) if status.code == 409));
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = maps
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await;
    assert_eq!((first.items.len(), rest.unwrap().items.len()), (2, 1));

    let mut stale = maps.get("a").await.unwrap();
    let one = PatchParams::apply("one").force();
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}});
    maps.patch("a", &one, &Patch::Apply(&applied))
        .await
        .unwrap();
    let two = PatchParams::apply("two");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "3"}});
    let conflict = maps.patch("a", &two, &Patch::Apply(&other)).await;
    assert!(matches!(conflict, Err(kube::Error::Api(status)) if status.code == 409));
    let tried = maps
        .patch("a", &two.clone().force().dry_run(), &Patch::Apply(&other))
        .await;
    assert_eq!(tried.unwrap().data.unwrap()["k"], "3");
    stale.data = None;
    let refused = maps.replace("a", &PostParams::default(), &stale).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 409));
    assert_eq!(maps.get("a").await.unwrap().data.unwrap()["k"], "2");

    let found = kube::discovery::Discovery::new(client.clone())
        .run()
        .await
        .unwrap();
    let kind = GroupVersionKind::gvk("networking.istio.io", "v1", "VirtualService");
    assert!(found.resolve_gvk(&kind).is_some());
    let routes: kube::Api<DynamicObject> =
        kube::Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind));
    let route = json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "r"},
        "spec": {"hosts": ["a.com"], "http": [{"route": [{"destination": {"host": "a.com"}}]}]}});
    let made = routes
        .patch("r", &one, &Patch::Apply(&route))
        .await
        .unwrap();
    assert_eq!(made.data["spec"]["hosts"], json!(["a.com"]));
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("b").await.unwrap().is_none());
    server.stop();
}

/// Waits until a cache holds what it is to hold: `name=value`.
async fn holds(cache: &reflector::Store<ConfigMap>, wanted: &[&str]) {
    let start = Instant::now();
    loop {
        let mut all: Vec<String> = cache
            .state()
            .iter()
            .map(|m| {
                format!(
                    "{}={}",
                    m.metadata.name.as_deref().unwrap(),
                    m.data.as_ref().unwrap()["k"]
                )
            })
            .collect();
        all.sort();
        if all == wanted {
            return;
        }
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "{all:?}, not {wanted:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn write(api: &Arc<Api>, method: Method, name: &str, value: &str) {
    let (uri, body) = match method {
        Method::POST => (
            MAPS.to_owned(),
            serde_json::to_string(&config_map(name, value)).unwrap(),
        ),
        _ => (
            format!("{MAPS}/{name}"),
            serde_json::to_string(&config_map(name, value)).unwrap(),
        ),
    };
    let request = Request::new(method, &uri, Who::local());
    let request = match &request.method {
        &Method::DELETE => request,
        _ => request.with_body("application/json", body),
    };
    let answer = api.handle(request).await;
    assert!(answer.status().is_success(), "{name}: {}", answer.status());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_stays_true_across_restarts_and_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::listen(Server::open(dir.path(), Keep::default()).await, any()).await;
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(server.client(), "default");
    let (cache, writer) = reflector::store();
    let events = watcher(maps, watcher::Config::default()).default_backoff();
    let watching = tokio::spawn(reflector::reflector(writer, events).for_each(async |_| {}));

    write(&server.api, Method::POST, "a", "1").await;
    write(&server.api, Method::POST, "b", "1").await;
    holds(&cache, &["a=1", "b=1"]).await;
    write(&server.api, Method::PUT, "a", "2").await;
    write(&server.api, Method::DELETE, "b", "").await;
    holds(&cache, &["a=2"]).await;

    // A restart: the watch goes on from the revision that it has seen.
    let address = server.stop();
    let api = Server::open(dir.path(), Keep::default()).await;
    write(&api, Method::POST, "c", "1").await;
    let server = Server::listen(api, address).await;
    write(&server.api, Method::PUT, "a", "3").await;
    holds(&cache, &["a=3", "c=1"]).await;

    // What was seen is forgotten: the cache is told so (410), and lists anew.
    let address = server.stop();
    let keep = Keep {
        revisions: 5,
        ..Keep::default()
    };
    let api = Server::open(dir.path(), keep).await;
    write(&api, Method::DELETE, "c", "").await;
    for n in 0..50 {
        write(&api, Method::PUT, "a", &n.to_string()).await;
    }
    drop(api);
    let server = Server::listen(Server::open(dir.path(), keep).await, address).await;
    holds(&cache, &["a=49"]).await;
    write(&server.api, Method::POST, "d", "1").await;
    holds(&cache, &["a=49", "d=1"]).await;
    watching.abort();
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_list_and_a_watch_of_metadata_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::listen(Server::open(dir.path(), Keep::default()).await, any()).await;
    for name in ["a", "b"] {
        write(&server.api, Method::POST, name, "1").await;
    }
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(server.client(), "default");
    let streaming = watcher::Config::default().streaming_lists();
    let events = watcher(maps.clone(), streaming).applied_objects().take(2);
    let found: Vec<ConfigMap> = events.try_collect().await.unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|m| m.metadata.name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let metadata: kube::Api<PartialObjectMeta<ConfigMap>> =
        kube::Api::namespaced(server.client(), "default");
    let events = watcher(metadata, watcher::Config::default());
    let found: Vec<_> = events
        .applied_objects()
        .take(2)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(found[0].metadata.name.as_deref(), Some("a"));
    server.stop();
}
