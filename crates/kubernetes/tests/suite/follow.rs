//! What is in a cluster is told, and what happens to it.

use http::Method;
use model::Kind;
use pilothouse_kubernetes::source::Options;
use serde_json::{Value, json};

use crate::api::Server;
use crate::mirror::Mirror;

const ROUTES: &str = "/apis/networking.istio.io/v1/namespaces/default/virtualservices";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn route(host: &str) -> Value {
    json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": "r"},
        "spec": {"hosts": [host], "http": [{"route": [{"destination": {"host": host}}]}]}})
}

fn config_map(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": value}})
}

fn hosts(mirror: &Mirror) -> Option<Value> {
    let route = mirror.get(Kind::VirtualService, "default", "r")?;
    Some(route.spec_json()["hosts"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_come_change_and_go() {
    let server = Server::start().await;
    server
        .write(Method::POST, ROUTES, Some(route("a.com")))
        .await;
    let mut mirror = Mirror::of(server.client(), Options::default());
    mirror.synced().await;
    assert_eq!(hosts(&mirror), Some(json!(["a.com"])));
    assert!(mirror.get(Kind::Namespace, "", "default").is_some());

    server
        .write(Method::POST, MAPS, Some(config_map("1")))
        .await;
    mirror
        .until("a new object", |m| {
            m.get(Kind::ConfigMap, "default", "m").is_some()
        })
        .await;
    let changed = format!("{ROUTES}/r");
    server
        .write(Method::PATCH, &changed, Some(route("b.com")))
        .await;
    mirror
        .until("a change", |m| hosts(m) == Some(json!(["b.com"])))
        .await;
    server.write(Method::DELETE, &changed, None).await;
    mirror.until("a deletion", |m| hosts(m).is_none()).await;
    assert_eq!(mirror.findings, []);
}
