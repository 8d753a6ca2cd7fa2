//! A server's manager of remote clusters, told by the test, and APIs for it to read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ads::latest;
use apiserver::access::Access;
use apiserver::api::Api as ApiServer;
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::store::{Keep, Store, StoreError};
use clap::Parser;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client, Config};
use model::parse::{Validation, parse};
use model::{Change, Kind, ObjectKey, ObjectName, Owner};
use pilothouse_server::config::ServeOptions;
use pilothouse_server::derive::{Derive, OriginLimits, Subscription};
use pilothouse_server::metrics::Metrics;
use pilothouse_server::remotes::{
    Directory, Holders, Manager, Secrets, Settled, clusterz, owner, settled,
};
use pilothouse_server::supervisor::{SourceState, Supervisor};
use serde_json::{Value, json};
use store::Snapshot;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use xds::{Published, TypeUrl};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The rank of the configured cluster.
const RANK: u8 = 100;

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

/// A kubeconfig for a server without TLS.
pub(crate) fn kubeconfig(address: &str, token: &str) -> String {
    format!(
        "clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: u, user: {{token: {token}}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

/// A Secret with kubeconfigs by id.
pub(crate) fn secret(name: &str, data: &[(&str, &str)]) -> String {
    let data: Value = data
        .iter()
        .map(|(id, text)| ((*id).to_owned(), json!(text)))
        .collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": data,
        "metadata": {"name": name, "namespace": "istio-system", "labels": {"istio/multiCluster": "true"}},
    });
    format!("{secret}\n")
}

/// A Secret with annotations about Ingresses.
pub(crate) fn annotated(secret: &str, annotations: &[(&str, &str)]) -> String {
    let mut secret: Value = serde_json::from_str(secret).unwrap();
    for (name, value) in annotations {
        let name = format!("pilothouse.io/ingress-{name}");
        secret["metadata"]["annotations"][name] = json!(value);
    }
    format!("{secret}\n")
}

/// An API of our own.
pub(crate) struct Cluster {
    folder: Arc<tempfile::TempDir>,
    address: SocketAddr,
    client: Client,
    stop: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self::listen(folder, "127.0.0.1:0".parse().unwrap()).await
    }

    async fn listen(folder: Arc<tempfile::TempDir>, address: SocketAddr) -> Self {
        let store = loop {
            match Store::open(folder.path(), Keep::default()) {
                Err(StoreError::InUse) => tokio::time::sleep(Duration::from_millis(5)).await,
                other => break other.unwrap(),
            }
        };
        let api = ApiServer::start(store, Access::default(), Audit::default(), &["shop"]);
        let api = api.await.unwrap();
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Security::InsecureLocal, api, stop.clone()));
        let config = Config::new(format!("http://{address}").parse().unwrap());
        Self {
            folder,
            address,
            client: Client::try_from(config).unwrap(),
            stop,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn kubeconfig(&self, token: &str) -> String {
        kubeconfig(&self.address(), token)
    }

    pub(crate) fn stop(self) {}

    /// Is away for a while.
    pub(crate) async fn restart(self, away: Duration) -> Self {
        let (folder, address) = (self.folder.clone(), self.address);
        self.stop();
        tokio::time::sleep(away).await;
        Self::listen(folder, address).await
    }

    pub(crate) async fn put(&self, api_version: &str, kind: &str, name: &str, rest: Value) {
        let kind = Kind::ALL
            .iter()
            .find(|k| k.name() == kind && k.api_version() == api_version);
        let kind = kind.unwrap();
        let resource = ApiResource {
            group: kind.group().into(),
            version: kind.versions()[0].into(),
            api_version: api_version.into(),
            kind: kind.name().into(),
            plural: kind.plural().into(),
        };
        let mut object =
            json!({"apiVersion": api_version, "kind": kind.name(), "metadata": {"name": name}});
        match rest.get("metadata").is_some() {
            true => object = rest,
            false => object["spec"] = rest,
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "shop", &resource);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// A Service of the namespace shop, with its endpoints.
    pub(crate) async fn service(&self, name: &str, addresses: &[&str]) {
        let spec = json!({"ports": [{"name": "http", "port": 80}], "selector": {"app": name}, "clusterIP": "10.9.0.1"});
        let endpoints = addresses
            .iter()
            .map(|a| json!({"addresses": [a], "conditions": {"ready": true}}));
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "endpoints": endpoints.collect::<Vec<_>>(), "ports": [{"name": "http", "port": 8080}],
        });
        self.put("discovery.k8s.io/v1", "EndpointSlice", name, slice)
            .await;
        self.put("v1", "Service", name, spec).await;
    }
}

/// What there is at a moment.
pub(crate) struct Seen(pub Arc<Snapshot>);

impl Seen {
    /// Whether a cluster has a Service; the empty one is that which configures the mesh.
    pub(crate) fn has(&self, cluster: &str, name: &str) -> bool {
        let cluster = (!cluster.is_empty()).then(|| cluster.into());
        let name = ObjectName::new("shop", name).in_cluster(cluster.as_ref());
        let tables = &self.0.tables;
        tables.kube_services.get(&name).is_some() && tables.endpoint_slices.get(&name).is_some()
    }

    /// The Ingresses of the cluster east that were read, and of which classes some are served.
    pub(crate) fn ingresses(&self) -> (usize, String) {
        let all = self.0.tables.ingresses.iter();
        let east = all.filter(|ingress| ingress.meta.name.cluster == Some("east".into()));
        let said = self.0.remote_ingresses.get("east");
        let classes = said.iter().flat_map(|said| said.classes.iter());
        let classes: Vec<&str> = classes.map(|class| &**class).collect();
        (east.count(), classes.join(","))
    }

    /// Whether a cluster has anything.
    pub(crate) fn has_any(&self, cluster: &str) -> bool {
        Kind::ALL.iter().any(|kind| {
            let mut all = self.0.tables.iter_any(*kind);
            all.any(|o| {
                o.meta()
                    .name
                    .cluster
                    .as_ref()
                    .is_some_and(|c| c.as_str() == cluster)
            })
        })
    }
}

/// The manager with all that it needs.
pub(crate) struct Rig {
    derive: Derive,
    supervisor: Supervisor,
    metrics: Arc<Metrics>,
    found: watch::Receiver<Vec<String>>,
    state: watch::Receiver<Settled>,
    told: watch::Receiver<Holders>,
    published: Arc<AtomicUsize>,
    stop: CancellationToken,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Rig {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        let options = Serve::parse_from(["serve"].iter().chain(flags)).options;
        let secrets = Arc::new(Secrets::new("istio-system"));
        let published: Arc<AtomicUsize> = Arc::default();
        let (seen, counted) = (secrets.clone(), published.clone());
        let settings = Arc::new(testkit::settings(""));
        let (derive, _thread) = Derive::start(settings, OriginLimits::default(), move |batch| {
            counted.fetch_add(batch.sets, Ordering::Relaxed);
            seen.see(batch);
        })
        .unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        let stop = CancellationToken::new();
        let supervisor = Supervisor::start(
            derive.clone(),
            metrics.clone(),
            Box::new(|_, _| ()),
            stop.clone(),
        );
        let told = match &options.remotes.kubeconfigs {
            Some(folder) => {
                let directory = Directory::start(folder);
                let told = directory.told();
                tokio::spawn(directory.watch(stop.clone()));
                told
            }
            None => secrets.told(),
        };
        let (tell, found) = watch::channel(Vec::new());
        let is_read = |k: &Kind| k.is_read_remotely() || k.is_read_remotely_on_request();
        let kinds = Kind::ALL.iter().copied().filter(is_read);
        let manager = Manager {
            supervisor: supervisor.clone(),
            derive: derive.clone(),
            metrics: metrics.clone(),
            on_findings: Box::new(move |found| {
                tell.send_replace(found.iter().map(ToString::to_string).collect());
            }),
            configured: "Kubernetes".into(),
            rank: RANK,
            options: options.remotes,
            reading: kubernetes::source::Options {
                kinds: kinds.collect(),
                ..Default::default()
            },
        };
        let settled = watch::Sender::new(Settled::default());
        let state = settled.subscribe();
        tokio::spawn(manager.run(told.clone(), settled, stop.clone()));
        Self {
            derive,
            supervisor,
            metrics,
            found,
            state,
            told,
            published,
            stop,
        }
    }

    async fn say(&self, changes: Vec<Change>) {
        self.derive.change(changes, Instant::now()).await.unwrap();
    }

    /// Tells of objects in the configured cluster.
    pub(crate) async fn put(&self, yaml: &str) {
        let parsed = parse(yaml, &Arc::from(Path::new("a.yaml")), Validation::Strict);
        let objects = parsed.objects().cloned();
        let puts = objects.map(|object| Change::Put(Owner::new(0, "test"), object));
        let puts: Vec<Change> = puts.collect();
        assert!(!puts.is_empty(), "{:?}", parsed.diagnostics);
        self.say(puts).await;
    }

    /// Tells that a Secret is gone.
    pub(crate) async fn delete(&self, name: &str) {
        let (kind, name) = (Kind::Secret, ObjectName::new("istio-system", name));
        let gone = Change::Delete(Owner::new(0, "test"), ObjectKey { kind, name });
        self.say(vec![gone]).await;
    }

    pub(crate) async fn snapshot(&self) -> Arc<Snapshot> {
        self.derive
            .ask(|state| state.store().snapshot())
            .await
            .unwrap()
    }

    /// Waits until what there is is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) {
        let start = Instant::now();
        while !wanted(&Seen(self.snapshot().await)) {
            let sources = self.supervisor.sources();
            assert!(
                start.elapsed() < LIMIT,
                "never: {what}; {sources:?}; {:?}",
                *self.found.borrow()
            );
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// The findings once some say this; nothing means none.
    pub(crate) async fn found(&self, wanted: &str) -> String {
        let mut found = self.found.clone();
        let is_it = |all: &Vec<String>| match wanted {
            "" => all.is_empty(),
            _ => all.iter().any(|f| f.contains(wanted)),
        };
        let waiting = found.wait_for(is_it);
        match tokio::time::timeout(LIMIT, waiting).await {
            Ok(all) => all.unwrap().join("\n"),
            Err(_) => panic!("never found {wanted:?}: {:?}", *self.found.borrow()),
        }
    }

    /// Waits until the metrics say this.
    pub(crate) async fn until_metric(&self, wanted: &str) {
        let start = Instant::now();
        loop {
            let metrics = self.metrics();
            if metrics.contains(wanted) {
                return;
            }
            assert!(start.elapsed() < LIMIT, "never {wanted}: {metrics}");
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// Waits until the cluster east was given new credentials so often, and is in sync.
    pub(crate) async fn rotated(&self, times: u64) {
        let owner = owner(RANK, &"east".into());
        let start = Instant::now();
        loop {
            let status = self.supervisor.source(&owner).unwrap();
            if status.starts == 1 + times && status.state == SourceState::InSync {
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{status:?} {:?}",
                *self.found.borrow()
            );
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    /// Waits for what the start waits for.
    pub(crate) async fn ready(&self) {
        self.derive.ask(|_| ()).await.unwrap();
        settled(self.state.clone(), self.told.clone()).await;
        self.supervisor.synced().await.unwrap();
    }

    /// The page of clusters.
    pub(crate) async fn page(&self) -> Value {
        self.derive.ask(|_| ()).await.unwrap();
        settled(self.state.clone(), self.told.clone()).await;
        clusterz(
            "Kubernetes",
            &self.supervisor.sources(),
            &self.state.borrow().holders,
        )
    }

    /// Each cluster with its state.
    pub(crate) async fn clusters(&self) -> Vec<String> {
        let page = self.page().await;
        let rows = page.as_array().unwrap().iter();
        let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
        let shown = rows.map(|row| format!("{} {}", text(row, "id"), text(row, "syncStatus")));
        shown.collect()
    }

    pub(crate) fn metrics(&self) -> String {
        self.metrics.remotes.set_states(&self.supervisor.sources());
        self.metrics.text().unwrap()
    }

    /// How many sets were published to proxies.
    pub(crate) fn published(&self) -> usize {
        self.published.load(Ordering::Relaxed)
    }

    /// A proxy that watches endpoints.
    pub(crate) async fn watch_endpoints(&self) -> Proxy {
        let node = testkit::node(&json!({
            "id": "sidecar~10.0.0.1~a.shop~shop.svc.cluster.local",
            "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.32.0"},
        }));
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let subscription = self.derive.subscribe(node, peer, None).await.unwrap();
        self.derive
            .want(subscription.proxy, TypeUrl::Endpoint)
            .unwrap();
        self.derive.ask(|_| ()).await.unwrap();
        Proxy(Mutex::new(subscription))
    }
}

/// A proxy.
pub(crate) struct Proxy(Mutex<Subscription>);

impl Proxy {
    /// Its endpoints, as far as they are text.
    pub(crate) fn endpoints(&self) -> String {
        let published: &mut latest::Receiver<Arc<Published>> =
            &mut self.0.lock().unwrap().published;
        let published = published.newest();
        let set = published.get(TypeUrl::Endpoint).unwrap();
        let bodies = set
            .iter()
            .map(|r| String::from_utf8_lossy(&r.body).into_owned());
        bodies.collect()
    }
}
