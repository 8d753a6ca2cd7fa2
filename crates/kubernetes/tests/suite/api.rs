//! An API server for tests.

use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::access::{Access, Who};
use apiserver::api::{Api, Request};
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::store::{Keep, Store};
use http::Method;
use pilothouse_kubernetes::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// An API that listens.
pub(crate) struct Server {
    api: Arc<Api>,
    address: SocketAddr,
    stop: CancellationToken,
    _dir: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Keep::default()).unwrap();
        let api = Api::start(store, Access::default(), Audit::default(), &["default"])
            .await
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = serve(listener, Security::InsecureLocal, api.clone(), stop.clone());
        tokio::spawn(serving);
        Self {
            api,
            address,
            stop,
            _dir: dir,
        }
    }

    pub(crate) fn client(&self) -> Client {
        client(self.address)
    }

    /// Writes an object, or deletes it.
    pub(crate) async fn write(&self, method: Method, path: &str, body: Option<Value>) {
        let form = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::new(method, path, Who::local());
        let request = match body {
            Some(body) => request.with_body(form, body.to_string()),
            None => request,
        };
        let answer = self.api.handle(request).await;
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A client of an API in the clear.
pub(crate) fn client(address: SocketAddr) -> Client {
    let url = format!("http://{address}").parse().unwrap();
    Client::try_from(kube::Config::new(url)).unwrap()
}
