//! Mesh config, networks and options of the edge of ConfigMaps and files, live.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use incr::Engine;
use model::parse::{Validation, parse};
use model::settings::Settings;
use model::{Change, Kind, ObjectKey, ObjectName, Owner};
use pilothouse_server::config::ServeOptions;
use pilothouse_server::derive::{Derive, OriginLimits};
use pilothouse_server::metrics::Metrics;
use pilothouse_server::settings::{
    Composer, ConfigMaps, PeerMesh, SettingsSource, Settled, Told, settled,
};
use pilothouse_server::supervisor::Supervisor;
use policy::edge::options::{EdgeOptions, Options};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

fn options(flags: &[&str]) -> ServeOptions {
    let flags = ["serve", "--data", "unused"].iter().chain(flags);
    Serve::parse_from(flags).options
}

/// The settings of a server that is started with flags, and that only the tests tell of objects.
struct Running {
    derive: Derive,
    config_maps: Arc<ConfigMaps>,
    found: Arc<Mutex<Vec<String>>>,
    told: watch::Receiver<Told>,
    settled: watch::Receiver<Settled>,
    _supervisor: Supervisor,
}

impl Running {
    fn start(flags: &[&str]) -> Self {
        let options = options(flags);
        let (composer, first) = Composer::start(&options).unwrap();
        let state = SettingsSource::at_start(&first);
        let config_maps = Arc::new(ConfigMaps::new(&options));
        let (told, seen) = (config_maps.told(), config_maps.clone());
        let limits = OriginLimits::default();
        let on_batch = move |batch: &_| seen.see(batch);
        let (derive, _thread) = Derive::start(first.settings, limits, on_batch).unwrap();
        let found: Arc<Mutex<Vec<String>>> = Arc::default();
        let tell = found.clone();
        let supervisor = Supervisor::start(
            derive.clone(),
            Arc::new(Metrics::new().unwrap()),
            Box::new(move |_, found| {
                *tell.lock().unwrap() = found.iter().map(ToString::to_string).collect();
            }),
            CancellationToken::new(),
        );
        let (composer, settled) = (Arc::new(Mutex::new(composer)), state.subscribe());
        let maps = told.clone();
        let make = move |_| -> Box<dyn source_api::Source> {
            let (composer, maps, state) = (composer.clone(), maps.clone(), state.clone());
            Box::new(SettingsSource::new(composer, maps, state))
        };
        supervisor.add(Box::new(make)).unwrap();
        Self {
            derive,
            config_maps,
            found,
            told,
            settled,
            _supervisor: supervisor,
        }
    }

    async fn say(&self, change: Change) {
        self.derive
            .change(vec![change], Instant::now())
            .await
            .unwrap();
    }

    async fn map(&self, name: &str, data: &str) {
        let yaml = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: istio-system}}\ndata: {data}\n"
        );
        let parsed = parse(&yaml, &Arc::from(Path::new("a.yaml")), Validation::Strict);
        let object = parsed.objects().next().unwrap().clone();
        self.say(Change::Put(Owner::new(0, "test"), object)).await;
    }

    async fn delete(&self, name: &str) {
        let (kind, name) = (Kind::ConfigMap, ObjectName::new("istio-system", name));
        let key = ObjectKey { kind, name };
        self.say(Change::Delete(Owner::new(0, "test"), key)).await;
    }

    /// The settings in force once they are as wanted.
    async fn until(&self, wanted: impl Fn(&Settings) -> bool) -> Arc<Settings> {
        let start = Instant::now();
        loop {
            let asked = self
                .derive
                .ask(|state| state.store().snapshot().settings.clone());
            let settings = asked.await.unwrap();
            if wanted(&settings) {
                return settings;
            }
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{:?}",
                settings.mesh
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn trust_domain(&self, wanted: &str) -> Arc<Settings> {
        self.until(|s| s.mesh.trust_domain == wanted).await
    }

    /// What is found once it is as many.
    async fn found(&self, count: usize) -> Vec<String> {
        let start = Instant::now();
        loop {
            let found = self.found.lock().unwrap().clone();
            if found.len() == count || start.elapsed() > Duration::from_secs(20) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Whether the settings are those that are meant, within a while.
    async fn is_settled(&self) -> bool {
        self.derive.ask(|_| ()).await.unwrap();
        let settled = settled(self.settled.clone(), self.told.clone());
        tokio::time::timeout(Duration::from_millis(500), settled)
            .await
            .is_ok()
    }
}

#[tokio::test]
async fn the_config_map_of_the_revision_lies_over_the_shared_one() {
    let flags = ["--shared-mesh-config", "shared", "--revision", "canary"];
    let running = Running::start(&flags);
    assert!(running.is_settled().await, "there is nothing to read");
    running.map("istio", "{mesh: 'trustDomain: other'}").await;
    let mesh = "{mesh: '{trustDomain: own, defaultConfig: {concurrency: 3}}'}";
    running.map("istio-canary", mesh).await;
    running.trust_domain("own").await;
    let shared =
        "{mesh: '{trustDomain: shared, rootNamespace: root, defaultConfig: {statusPort: 7}}'}";
    running.map("shared", shared).await;
    let settings = running.until(|s| s.mesh.root_namespace == "root").await;
    assert_eq!(settings.mesh.trust_domain, "own");
    let proxy = settings.mesh.default_config.clone().unwrap();
    assert_eq!((proxy.concurrency, proxy.status_port), (Some(3), 7));
    assert!(running.is_settled().await);
    running.delete("istio-canary").await;
    running.trust_domain("shared").await;
    running.delete("shared").await;
    running.trust_domain("cluster.local").await;
    assert_eq!(running.found(0).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_another_control_plane_says_of_the_mesh_lies_below_all_else() {
    let running = Running::start(&[]);
    let say = |text: &str| {
        let mesh = PeerMesh {
            place: Path::new("xds:a:1[MeshConfig]").into(),
            text: text.into(),
        };
        running.config_maps.tell_peer(Some(mesh));
    };
    say(r#"{"trustDomain":"peer","rootNamespace":"of-peer"}"#);
    running.trust_domain("peer").await;
    running.map("istio", "{mesh: 'trustDomain: own'}").await;
    let settings = running.trust_domain("own").await;
    assert_eq!(settings.mesh.root_namespace, "of-peer");
    // One that cannot be used changes nothing, and keeps nobody from being ready.
    say(r#"{"trustDomain":"peer","connectTimeout":"-3s"}"#);
    let found = running.found(2).await;
    assert!(
        found.iter().all(|said| said.contains("xds:a:1")),
        "{found:?}"
    );
    let settings = running.trust_domain("own").await;
    assert_eq!(settings.mesh.root_namespace, "of-peer");
    assert!(running.is_settled().await);
    running.config_maps.tell_peer(None);
    running.until(|s| s.mesh.root_namespace != "of-peer").await;
}

#[tokio::test]
async fn networks_are_those_of_one_config_map() {
    let running = Running::start(&["--shared-mesh-config", "shared"]);
    let networks = |name: &str| {
        format!(
            "{{meshNetworks: '{{networks: {{{name}: {{endpoints: [{{fromRegistry: c}}], gateways: [{{address: 1.1.1.1, port: 15443}}]}}}}}}'}}"
        )
    };
    running.map("istio", &networks("own")).await;
    let settings = running.until(|s| !s.networks.networks.is_empty()).await;
    assert!(settings.networks.networks.contains_key("own"));
    running.map("shared", &networks("shared")).await;
    let shared = |s: &Settings| s.networks.networks.contains_key("shared");
    let settings = running.until(shared).await;
    assert_eq!(settings.networks.networks.len(), 1);
}

#[tokio::test]
async fn a_bad_config_map_changes_nothing_and_is_told_with_its_line() {
    let running = Running::start(&[]);
    let bad = "{mesh: \"rootNamespace: root\\nenableTracing: 1\"}";
    running.map("istio", bad).await;
    let found = running.found(2).await;
    assert!(found[0].contains("data.mesh]:2:"), "{found:?}");
    assert!(
        found[0].contains("ConfigMap istio-system/istio"),
        "{found:?}"
    );
    assert!(found[1].contains("go on without it"), "{found:?}");
    assert!(!running.is_settled().await, "it never had a good version");
    let refused = running.settled.borrow().refused.clone().unwrap();
    assert!(
        refused.contains("ConfigMap istio-system/istio"),
        "{refused}"
    );

    running.map("istio", "{mesh: 'trustDomain: good'}").await;
    running.trust_domain("good").await;
    assert!(running.is_settled().await);
    running.map("istio", "{mesh: 'connectTimeout: 3h'}").await;
    let found = running.found(2).await;
    assert!(
        found[0].contains("connectTimeout: must be between"),
        "{found:?}"
    );
    assert!(
        found[1].contains("the last good version stays"),
        "{found:?}"
    );
    running.trust_domain("good").await;
    assert!(running.is_settled().await, "the last good version is meant");

    let large = format!("{{mesh: '{}'}}", "#".repeat((1 << 20) + 1));
    running.map("istio", &large).await;
    let start = Instant::now();
    while !running.found(2).await[0].contains("bytes, more than") {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    running.trust_domain("good").await;
}

#[tokio::test]
async fn a_file_wins_over_the_config_map_once_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh");
    let running = Running::start(&["--mesh-config", path.to_str().unwrap()]);
    running.map("istio", "{mesh: 'trustDomain: map'}").await;
    running.trust_domain("map").await;
    let found = running.found(1).await;
    assert!(found[0].contains("there is no such file"), "{found:?}");
    std::fs::write(&path, "trustDomain: file").unwrap();
    running.trust_domain("file").await;
    running.map("istio", "{mesh: 'trustDomain: other'}").await;
    assert!(running.is_settled().await);
    running.trust_domain("file").await;
    std::fs::remove_file(&path).unwrap();
    let found = running.found(2).await;
    assert!(found[0].contains("cannot be read"), "{found:?}");
    running.trust_domain("file").await;
}

#[test]
fn a_start_without_good_settings_is_refused() {
    let start = |flags: &[&str]| {
        let options = Serve::parse_from(["serve"].iter().chain(flags)).options;
        Composer::start(&options)
            .map(|_| ())
            .map_err(|e| format!("{e:#}"))
    };
    let error = start(&["--mesh-config", "/nowhere"]).unwrap_err();
    assert!(
        error.contains("cannot read /nowhere (--mesh-config)"),
        "{error}"
    );
    assert_eq!(start(&["--mesh-config", "/nowhere", "--data", "d"]), Ok(()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mesh");
    std::fs::write(&path, "trustDomain: [").unwrap();
    let error = start(&["--mesh-config", path.to_str().unwrap()]).unwrap_err();
    assert!(error.contains("cannot be used"), "{error}");
}

const EDGE: [&str; 4] = [
    "--ingress-class",
    "higress",
    "--ingress-namespace",
    "istio-system",
];

impl Running {
    /// The options of the edge in force once they are as wanted, and what is told of them.
    async fn options(&self, wanted: impl Fn(&Options) -> bool) -> Vec<String> {
        let start = Instant::now();
        loop {
            let asked = self.derive.ask(|state| state.store().snapshot());
            let snapshot = asked.await.unwrap();
            let stated = Engine::new().get(&*snapshot, &EdgeOptions);
            let options = stated.options.clone().unwrap();
            if wanted(&options) {
                return stated.found.iter().map(ToString::to_string).collect();
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{options:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until exactly these sections are remembered.
    async fn remembers(&self, wanted: &[&str]) {
        let start = Instant::now();
        loop {
            let asked = self.derive.ask(|state| state.store().snapshot());
            let good = asked.await.unwrap().edge_documents.good.clone();
            let names: Vec<String> = good.keys().map(|name| name.to_string()).collect();
            if names == wanted {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{names:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test]
async fn sections_of_options_are_remembered_until_their_config_map_goes() {
    let running = Running::start(&EDGE);
    let good = "{higress: '{gzip: {enable: false}, upstream: {idleTimeout: 3}}'}";
    running.map("higress-config", good).await;
    running.options(|o| !o.gzip.enable).await;
    running.remembers(&["gzip", "upstream"]).await;
    assert!(running.is_settled().await);
    // Two edits at once: what is bad for longer keeps what was good before both.
    for window in [8, 16] {
        let bad =
            format!("{{higress: '{{gzip: {{windowBits: {window}}}, addXRealIpHeader: true}}'}}");
        running.map("higress-config", &bad).await;
    }
    let found = running.options(|o| o.adds_real_ip).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("keeps its last good value"), "{found:?}");
    running
        .options(|o| !o.gzip.enable && o.upstream.idle_timeout == 10)
        .await;
    running.remembers(&["addXRealIpHeader", "gzip"]).await;
    assert!(running.is_settled().await);
    running.delete("higress-config").await;
    running.options(|o| *o == Options::default()).await;
    running.remembers(&[]).await;
    running
        .map("higress-config", "{higress: 'gzip: {windowBits: 8}'}")
        .await;
    let found = running.options(|o| o.gzip.enable).await;
    assert!(
        found.iter().all(|f| f.contains("has its default")),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_file_of_options_is_watched_and_stands_in_place_of_the_config_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("options.yaml");
    std::fs::write(&path, "upstream: {idleTimeout: 3}").unwrap();
    let file = ["--higress-config", path.to_str().unwrap()];
    let running = Running::start(&[&EDGE[..], &file].concat());
    running
        .map("higress-config", "{higress: 'upstream: {idleTimeout: 4}'}")
        .await;
    running.options(|o| o.upstream.idle_timeout == 3).await;
    assert!(running.is_settled().await);
    let edit = "upstream: {idleTimeout: five}\naddXRealIpHeader: true";
    std::fs::write(&path, edit).unwrap();
    let found = running.options(|o| o.adds_real_ip).await;
    assert!(found[0].contains("upstream.idleTimeout"), "{found:?}");
    assert!(found[0].starts_with(path.to_str().unwrap()), "{found:?}");
    running.options(|o| o.upstream.idle_timeout == 3).await;
    std::fs::remove_file(&path).unwrap();
    let start = Instant::now();
    loop {
        let found = running
            .options(|o| o.upstream.idle_timeout == 3 && o.adds_real_ip)
            .await;
        if found.iter().any(|f| f.contains("cannot be read")) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{found:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let missing = Serve::parse_from(["serve", "--higress-config", "/nowhere"]).options;
    let error = Composer::start(&missing).map(|_| ()).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("cannot read /nowhere (--higress-config)"),
        "{error}"
    );
}
