//! Admission webhooks: one table of cases, against our API and against a real kube-apiserver.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod hooks;
mod table;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::access::Access;
use apiserver::api::Api;
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::store::{Keep, Store};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kubeclients::kubetest;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use hooks::Hooks;
use table::{Table, run};

async fn embedded(dir: &Path, stop: &CancellationToken) -> Client {
    let store = Store::open(dir, Keep::default()).unwrap();
    let api = Api::start(store, Access::default(), Audit::default(), &["default"]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(
        listener,
        Security::InsecureLocal,
        api.unwrap(),
        stop.clone(),
    ));
    let config = Config::new(format!("http://{address}").parse().unwrap());
    Client::try_from(config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_store_asks_webhooks_as_the_table_says() {
    let dir = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let client = embedded(dir.path(), &stop).await;
    let hooks = Arc::new(Hooks::start().await);
    let wrong = run(&client, &hooks, &Table::read(), Duration::ZERO).await;
    stop.cancel();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_kube_apiserver_asks_webhooks_as_the_table_says() {
    if kubetest::program_or_skip("webhooks of a real kube-apiserver").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let kubetest = kubetest::Options::new(dir.path()).start().unwrap();
    let file = Kubeconfig::read_from(kubetest.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let hooks = Arc::new(Hooks::start().await);
    // It takes up configurations and definitions a little later, and later still where other tests run beside this one.
    let late = Duration::from_secs(6);
    let wrong = run(&client, &hooks, &Table::read(), late).await;
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
