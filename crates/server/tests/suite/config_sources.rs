//! Sources that the mesh config names: they come and go with it, and one that is down takes nothing away.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use pilothouse_server::config::ServeOptions;
use pilothouse_server::config_sources::{Manager, settled};
use pilothouse_server::derive::{Derive, OriginLimits};
use pilothouse_server::metrics::Metrics;
use pilothouse_server::settings::{Composer, ConfigMaps, SettingsSource};
use pilothouse_server::supervisor::Supervisor;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

/// A server of which only settings and sources run.
struct Running {
    derive: Derive,
    supervisor: Supervisor,
    found: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Starts, and waits for the sources as a start does.
    async fn start(mesh: &Path, flags: &[&str]) -> Self {
        let mesh = mesh.to_str().unwrap();
        let given = ["serve", "--mesh-config", mesh];
        let flags = given.iter().chain(flags);
        let options = Serve::parse_from(flags).options;
        let (composer, first) = Composer::start(&options).unwrap();
        let state = SettingsSource::at_start(&first);
        let maps = Arc::new(ConfigMaps::new(&options));
        let (told, seen) = (maps.told(), maps.clone());
        let limits = OriginLimits::default();
        let on_batch = move |batch: &_| seen.see(batch);
        let (derive, _thread) = Derive::start(first.settings, limits, on_batch).unwrap();
        let stop = CancellationToken::new();
        let metrics = Arc::new(Metrics::new().unwrap());
        let ignore = Box::new(|_: &model::SourceId, _: Vec<model::Diagnostic>| {});
        let supervisor = Supervisor::start(derive.clone(), metrics, ignore, stop.clone());
        let (composer, settings) = (Arc::new(Mutex::new(composer)), state.subscribe());
        let make = move |_| -> Box<dyn source_api::Source> {
            let (composer, told, state) = (composer.clone(), told.clone(), state.clone());
            Box::new(SettingsSource::new(composer, told, state))
        };
        supervisor.add(Box::new(make)).unwrap();
        let found: Arc<Mutex<Vec<String>>> = Arc::default();
        let tell = found.clone();
        let on_findings = Box::new(move |found: Vec<model::Diagnostic>| {
            *tell.lock().unwrap() = found.iter().map(ToString::to_string).collect();
        });
        let manager = Manager::new(&options, false, &supervisor, maps, on_findings);
        let acted = watch::Sender::default();
        let done = settled(settings.clone(), acted.subscribe());
        tokio::spawn(manager.run(settings, acted, stop));
        done.await;
        supervisor.synced().await.unwrap();
        Self {
            derive,
            supervisor,
            found,
        }
    }

    fn sources(&self) -> Vec<(u8, String)> {
        let all = self.supervisor.sources().into_iter();
        let named = all.filter(|source| source.owner.source.rank > 0);
        named
            .map(|source| (source.owner.source.rank, source.owner.to_string()))
            .collect()
    }

    /// The hosts of ServiceEntries once there are so many.
    async fn hosts(&self, count: usize) -> Vec<String> {
        let start = Instant::now();
        loop {
            let hosts = self.derive.ask(|state| {
                let snapshot = state.store().snapshot();
                let entries = snapshot.tables.service_entries.iter();
                let hosts = entries.flat_map(|entry| entry.spec.hosts.clone());
                hosts.collect::<Vec<String>>()
            });
            let hosts = hosts.await.unwrap();
            if hosts.len() == count || start.elapsed() > Duration::from_secs(20) {
                return hosts;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn write(folder: &Path, host: &str) {
    std::fs::create_dir_all(folder).unwrap();
    let text = format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: a, namespace: shop}}\n\
         spec: {{hosts: [{host}], resolution: DNS, ports: [{{number: 80, name: http, protocol: HTTP}}]}}\n"
    );
    std::fs::write(folder.join("a.yaml"), text).unwrap();
}

#[tokio::test]
async fn sources_come_and_go_with_the_mesh_config_and_the_first_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, mesh) = (
        dir.path().join("1"),
        dir.path().join("2"),
        dir.path().join("mesh.yaml"),
    );
    write(&one, "one.com");
    write(&two, "two.com");
    let name = |first: &Path, second: &Path| {
        let (first, second) = (first.display(), second.display());
        let text = format!(
            "configSources:\n- address: fs://{first}\n- address: fs://{second}\n- address: ftp://nope\n"
        );
        std::fs::write(&mesh, text).unwrap();
    };
    name(&one, &two);
    let running = Running::start(&mesh, &[]).await;
    assert_eq!(running.hosts(1).await, ["one.com"]);
    let ranks: Vec<u8> = running.sources().iter().map(|source| source.0).collect();
    assert_eq!(ranks, [50, 51]);
    name(&two, &one);
    let start = Instant::now();
    while running.hosts(1).await != ["two.com"] {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(&mesh, "accessLogFile: ''\n").unwrap();
    assert_eq!(running.hosts(0).await, Vec::<String>::new());
}

/// Where nobody listens: a port that was just let go.
fn nobody() -> std::net::SocketAddr {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

#[tokio::test]
async fn without_a_stated_time_the_start_waits_for_a_control_plane() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = dir.path().join("mesh.yaml");
    let text = format!("configSources:\n- address: xds://{}\n", nobody());
    std::fs::write(&mesh, text).unwrap();
    let start = Running::start(&mesh, &[]);
    let started = tokio::time::timeout(Duration::from_secs(2), start).await;
    assert!(started.is_err(), "it went on without the control plane");
}

#[tokio::test]
async fn what_a_source_had_stays_until_the_one_in_its_place_has_told() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, mesh) = (
        dir.path().join("1"),
        dir.path().join("2"),
        dir.path().join("mesh.yaml"),
    );
    write(&one, "one.com");
    write(&two, "two.com");
    let name = |address: &str| {
        std::fs::write(&mesh, format!("configSources:\n- address: {address}\n")).unwrap();
    };
    name(&format!("fs://{}", one.display()));
    let running = Running::start(&mesh, &[]).await;
    assert_eq!(running.hosts(1).await, ["one.com"]);
    name(&format!("xds://{}", nobody()));
    let start = Instant::now();
    while running.sources().len() < 2 {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running.sources().len(), 2, "the first one is still there");
    assert_eq!(running.hosts(1).await, ["one.com"]);
    // Another edit is heard meanwhile.
    name(&format!("fs://{}", two.display()));
    while running.hosts(1).await != ["two.com"] || running.sources().len() > 1 {
        assert!(start.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_control_plane_that_is_down_delays_the_start_for_a_stated_time() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = dir.path().join("mesh.yaml");
    let address = nobody();
    let text = format!("configSources:\n- address: xds://{address}\n- address: k8s://\n");
    std::fs::write(&mesh, text).unwrap();
    let flags = [
        "--config-source-start-timeout",
        "300ms",
        "--config-dir",
        "unused",
    ];
    let start = Instant::now();
    let running = Running::start(&mesh, &flags).await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(running.sources(), [(50, format!("xds:{address}"))]);
    let status = running.supervisor.sources().pop().unwrap();
    assert!(status.is_late && !status.was_in_sync, "{status:?}");
    assert!(status.words().contains("connect"), "{}", status.words());
    let found = running.found.lock().unwrap().clone();
    assert!(
        found[0].contains("PIL0052") && found[0].contains("cluster"),
        "{found:?}"
    );
}
