//! Workloads that register themselves, from their streams to the configuration in force.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ads::server::{Join, Proven, Subscriber, Subscription};
use ads::{Code, Event, Protocol, Selection, Status};
use clap::Parser;
use model::kinds::istio::WorkloadEntry;
use model::node::Identity;
use model::object::Object;
use model::{Change, Owner};
use pilothouse_server::config::ServeOptions;
use pilothouse_server::derive::{Derive, OriginLimits};
use pilothouse_server::metrics::Metrics;
use pilothouse_server::registration::{Home, Registration};
use pilothouse_server::secure::Trust;
use pilothouse_server::streams::Proxies;
use pilothouse_server::warm::Warm;
use prost_reflect::prost_types::value::Kind;
use prost_reflect::prost_types::{Struct, Value};
use proto_envoy::envoy::config::core::v3::Node;
use serde_json::json;
use testkit::World;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use xds::TypeUrl;

const CONFIG: &str = "
{apiVersion: networking.istio.io/v1, kind: WorkloadGroup, metadata: {name: web, namespace: shop}, spec: {metadata: {labels: {app: web}}, template: {serviceAccount: vm, ports: {http: 8080}}}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: web, namespace: shop}, spec: {hosts: [web.example.com], location: MESH_INTERNAL, ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: web}}}}
";

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

struct Server {
    derive: Derive,
    proxies: Proxies,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    async fn start(flags: &[&str]) -> Self {
        let flags = [
            "serve",
            "--state-dir",
            "off",
            "--workload-grace-period",
            "400ms",
        ]
        .iter()
        .chain(flags);
        let serve = Serve::parse_from(flags);
        let settings = Arc::new(testkit::settings(""));
        let metrics = Arc::new(Metrics::new().unwrap());
        let stop = CancellationToken::new();
        let (warm, _) = Warm::open(&serve.options, &settings, &metrics);
        let sees: Arc<OnceLock<Registration>> = Arc::default();
        let seen = sees.clone();
        let see = move |batch: &_| {
            if let Some(registration) = seen.get() {
                registration.see(batch);
            }
        };
        let limits = OriginLimits::default();
        let (derive, _) = Derive::start(settings.clone(), limits, see).unwrap();
        let home = Home::MEMORY;
        let registration = Registration::start(
            &serve.options,
            home,
            store::Store::new(settings).snapshot(),
            &metrics,
            &TaskTracker::new(),
            &stop,
        );
        registration.write_to(None, &derive);
        let _ = sees.set(registration.clone());
        let owner = Owner::new(10, "test");
        let objects = World::objects(CONFIG).into_iter();
        let put = objects.map(|object| Change::Put(owner.clone(), object));
        derive.change(put.collect(), Instant::now()).await.unwrap();
        derive.ask(|_| ()).await.unwrap();
        registration.complete();
        let proxies = Proxies {
            derive: derive.clone(),
            metrics: metrics.clone(),
            connections: Arc::default(),
            warm: Arc::new(warm),
            unsupported: Arc::default(),
            unserved: Arc::default(),
            registration,
            trust: Trust::default(),
            test_identities: true,
            own: None,
            peers: Default::default(),
        };
        Self {
            derive,
            proxies,
            metrics,
            stop,
        }
    }

    async fn join(
        &self,
        token: &str,
        address: &str,
        metadata: &serde_json::Value,
    ) -> Result<Subscription, Status> {
        let join = Join {
            node: Box::new(Node {
                id: format!("sidecar~{address}~vm.shop~shop.svc.cluster.local"),
                metadata: Some(fields(metadata)),
                ..Default::default()
            }),
            peer: ([10, 9, 9, 9], 4000).into(),
            proven: Proven {
                caller: Identity::of_test_token(token.trim_start_matches("Bearer "))
                    .map(|i| Arc::new(i) as _),
                until: None,
            },
            protocol: Protocol::Delta,
            returns: false,
        };
        self.proxies.subscribe(join).await
    }

    async fn entries(&self) -> BTreeMap<String, Arc<Object<WorkloadEntry>>> {
        let all = self
            .derive
            .ask(|state| state.store().snapshot())
            .await
            .unwrap();
        let all = all.tables.workload_entries.iter();
        all.map(|e| (e.meta.name.to_string(), e.clone())).collect()
    }

    /// Waits until it is so.
    async fn until(
        &self,
        what: &str,
        is: impl Fn(&BTreeMap<String, Arc<Object<WorkloadEntry>>>) -> bool,
    ) {
        let start = Instant::now();
        while !is(&self.entries().await) {
            assert!(start.elapsed() < Duration::from_secs(30), "{what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn fields(json: &serde_json::Value) -> Struct {
    let value = |json: &serde_json::Value| Value {
        kind: Some(match json {
            serde_json::Value::Object(_) => Kind::StructValue(fields(json)),
            other => Kind::StringValue(other.as_str().unwrap().to_owned()),
        }),
    };
    let all = json.as_object().unwrap().iter();
    Struct {
        fields: all.map(|(k, v)| (k.clone(), value(v))).collect(),
    }
}

fn health(entry: &Object<WorkloadEntry>) -> Option<&str> {
    let mut conditions = entry.status.conditions.iter();
    conditions
        .find(|c| c.r#type == "Healthy")
        .map(|c| c.status.as_str())
}

const VM: &str = "Bearer sa:shop:vm";

#[tokio::test(flavor = "multi_thread")]
async fn the_first_configuration_of_a_workload_has_what_its_entry_serves() {
    let server = Server::start(&[]).await;
    let metadata = json!({"NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "web"});
    let mut vm = server.join(VM, "10.0.0.1", &metadata).await.unwrap();
    let entries = server.entries().await;
    assert_eq!(entries.keys().collect::<Vec<_>>(), ["shop/web-10.0.0.1"]);
    vm.session.on_event(&Event::Subscribed {
        ty: TypeUrl::Cluster,
        selection: Selection::default(),
    });
    server.derive.ask(|_| ()).await.unwrap();
    server.derive.ask(|_| ()).await.unwrap();
    let published = vm.published.newest();
    let names: Vec<String> = published
        .get(TypeUrl::Cluster)
        .unwrap()
        .iter()
        .map(|r| r.name.to_string())
        .collect();
    assert!(names.contains(&"inbound|8080||".to_owned()), "{names:?}");
    assert_eq!(server.metrics.registration.registered.get(), 1);
    drop(vm);
    server.until("it is cleaned up", BTreeMap::is_empty).await;
    assert_eq!(server.metrics.registration.unregistered.get(), 1);
    assert_eq!(server.metrics.registration.deleted.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_health_become_a_condition() {
    let server = Server::start(&[]).await;
    let metadata = json!({
        "NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "web",
        "PROXY_CONFIG": {"readinessProbe": {"httpGet": {"path": "/"}}},
    });
    let mut vm = server.join(VM, "10.0.0.1", &metadata).await.unwrap();
    let name = "shop/web-10.0.0.1";
    assert_eq!(health(&server.entries().await[name]), None);
    for (healthy, status) in [(true, "True"), (false, "False"), (true, "True")] {
        let message = "why".to_owned();
        vm.session.on_event(&Event::Health { healthy, message });
        let is = |all: &BTreeMap<_, Arc<Object<WorkloadEntry>>>| health(&all[name]) == Some(status);
        server.until(status, is).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_register_is_told_why() {
    let server = Server::start(&[]).await;
    let web = json!({"NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "web"});
    let none = json!({"NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "none"});
    for (token, address, metadata, code, words) in [
        (
            "",
            "10.0.0.1",
            &web,
            Code::PermissionDenied,
            "has not proven who it is",
        ),
        (
            "Bearer sa:shop:db",
            "10.0.0.1",
            &web,
            Code::PermissionDenied,
            "is shop/db",
        ),
        (
            VM,
            "10.0.0.1",
            &none,
            Code::FailedPrecondition,
            "no WorkloadGroup shop/none",
        ),
        (
            VM,
            "127.0.0.1",
            &web,
            Code::InvalidArgument,
            "cannot have the address",
        ),
    ] {
        let refused = server.join(token, address, metadata).await.err().unwrap();
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.message.contains(words), "{refused}");
    }
    assert!(server.entries().await.is_empty());
    let plain = json!({"NAMESPACE": "shop"});
    assert!(
        server.join("", "10.0.0.1", &plain).await.is_ok(),
        "others are not asked"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn anybody_registers_where_the_operator_says_so() {
    let server = Server::start(&["--validate-workload-identity", "false"]).await;
    let web = json!({"NAMESPACE": "shop", "AUTO_REGISTER_GROUP": "web"});
    let vm = server.join("", "10.0.0.1", &web).await;
    assert!(vm.is_ok());
    assert_eq!(server.entries().await.len(), 1);
}
