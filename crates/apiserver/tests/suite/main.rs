//! The API as its clients see it.
#![allow(clippy::unwrap_used)] // Functions that tests share are tests as well.

extern crate pilothouse_apiserver as apiserver;

mod apply;
mod audit;
mod definitions;
mod descriptors;
mod duplicates;
mod forward;
mod heavy;
mod implied;
mod judged;
mod kill;
mod kubectl;
mod ledger;
mod limits;
mod lists;
mod nulls;
mod objects;
mod oidc;
mod printed;
mod service_accounts;
mod stored;
mod tls;
mod unknown;
mod watch;

use std::sync::Arc;

use apiserver::access::{Access, Who};
use apiserver::api::{Api, Request};
use apiserver::audit::Audit;
use apiserver::store::{Keep, Store};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

/// An API over a store in a folder of its own.
pub(crate) struct World {
    pub(crate) api: Arc<Api>,
    pub(crate) dir: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Keep::default()).await
    }

    pub(crate) async fn with(keep: Keep) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), keep).unwrap();
        let api = Api::start(store, Access::default(), Audit::default(), &["default"])
            .await
            .unwrap();
        Self { api, dir }
    }

    pub(crate) async fn send(&self, request: Request) -> (StatusCode, Value) {
        let (parts, body) = self.api.handle(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (
            parts.status,
            serde_json::from_slice(&body).unwrap_or_default(),
        )
    }

    pub(crate) async fn get(&self, uri: &str) -> (StatusCode, Value) {
        self.send(Request::new(Method::GET, uri, Who::local()))
            .await
    }

    pub(crate) async fn body(&self, method: Method, uri: &str, body: Value) -> (StatusCode, Value) {
        let request = Request::new(method, uri, Who::local());
        self.send(request.with_body("application/json", body.to_string()))
            .await
    }

    pub(crate) async fn post(&self, uri: &str, body: Value) -> (StatusCode, Value) {
        self.body(Method::POST, uri, body).await
    }

    pub(crate) async fn put(&self, uri: &str, body: Value) -> (StatusCode, Value) {
        self.body(Method::PUT, uri, body).await
    }

    pub(crate) async fn delete(&self, uri: &str) -> (StatusCode, Value) {
        self.send(Request::new(Method::DELETE, uri, Who::local()))
            .await
    }

    pub(crate) async fn patch(&self, kind: &str, uri: &str, body: Value) -> (StatusCode, Value) {
        let request = Request::new(Method::PATCH, uri, Who::local());
        self.send(request.with_body(kind, body.to_string())).await
    }
}

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const ROUTES: &str = "/apis/networking.istio.io/v1/namespaces/default/virtualservices";

pub(crate) fn map(name: &str, value: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"v": value}}, "data": {"k": value}})
}

pub(crate) fn route(name: &str, host: &str) -> Value {
    serde_json::json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": name},
        "spec": {"hosts": [host], "http": [{"route": [{"destination": {"host": host}}]}]}})
}
