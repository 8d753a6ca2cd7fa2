//! `pilothouse serve`: starts everything, watches over it, and takes it down in order.

mod check;
mod core;
mod doors;
mod identity;
mod own_pod;
mod remotes;
mod report;
mod shown;
mod webhooks;
mod wiring;
mod write;
mod xds;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::core::Core;
use crate::api::Asked;
use crate::apis::Apis;
use crate::config::ServeOptions;
use crate::config_sources;
use crate::ctrlz;
use crate::derive::Derive;
use crate::findings::Findings;
use crate::http::{self, Pages};
use crate::metrics::Metrics;
use crate::registries::{Bridges, Registries};
use crate::remotes::Secrets;
use crate::secure::{Listen, Trust};
use crate::settings::{
    self, Composed, Composer, ConfigMaps, HigressFlags, SettingsSource, Settled,
};
use crate::supervisor::Supervisor;
use crate::warm::{Keeper, Saver, Warm};
use crate::writing::Target;
use doors::Doors;
use report::report;
use wiring::{Wiring, first_answers};

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// When something that was asked for cannot start, as when an address is taken. A folder that does not exist is no error: it
/// is read once it is there.
pub async fn serve(options: ServeOptions) -> anyhow::Result<()> {
    serve_until(options, CancellationToken::new(), |_| {}).await
}

/// Where a server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// Plaintext xDS.
    pub xds: SocketAddr,
    /// The pages.
    pub http: SocketAddr,
}

/// [`serve`], until `stop` is cancelled as well. `ready` is called once there is something to serve: with port 0 the system
/// chooses the ports.
///
/// # Errors
///
/// As [`serve`].
pub async fn serve_until(
    mut options: ServeOptions,
    stop: CancellationToken,
    ready: impl FnOnce(Addresses),
) -> anyhow::Result<()> {
    let (start, mut signals) = (Instant::now(), Signals::new());
    let (composer, first) = compose(&mut options)?;
    check::check(&options)?;
    let api = Asked::check(&options.api).await?;
    ads::server::raise_descriptor_limit();
    let metrics = Arc::new(Metrics::new().context("cannot register metrics")?);
    let findings = Arc::new(Findings::default());
    let settled = SettingsSource::at_start(&first);
    report(&findings, &metrics, &settings::source(), first.found);
    let cluster = connect(&options).await?;
    let (warm, keeper) = Warm::open(&options, &first.settings, &metrics);
    let (warm, tasks) = (Arc::new(warm), TaskTracker::new());
    let features = first.settings.features.clone();
    let core = Core::start(&options, first.settings, &metrics, &tasks, &stop)?;
    let (derive, registration) = (core.derive.clone(), core.registration.clone());
    let remotes = watch::Sender::new(crate::remotes::Settled::default());
    let supervisor = supervisor(&derive, &findings, &metrics, &stop);
    let known = (settled.subscribe(), remotes.subscribe());
    let pages = core.pages(&options, &findings, &warm, &supervisor, known);
    let http = serve_pages(&options, &pages, &tasks, &stop).await?;
    let trust = Trust::default();
    let server = xds::server(&options, &trust, &pages, &core, &stop)?;
    let mut doors = Doors::new(&options, server, (&pages, http), &tasks, &stop, start)?;
    doors.begin_from_disk(&warm, &derive)?;
    let apis = Apis::new(options.cluster_id.as_str().into());
    let store = OnceLock::new();
    let certificates = options.acme.folder()?;
    let sources = Sources {
        wiring: Wiring {
            options: &options,
            derive: &derive,
            metrics: &metrics,
            shadows: &core.shadows,
            features,
            stop: &stop,
            fault: &pages.fault,
            cluster,
            apis: &apis,
            store: &store,
            warm: warm.is_serving(),
        },
        supervisor: &supervisor,
        findings: &findings,
        tasks: &tasks,
    };
    let target = sources.wiring.add_to(&supervisor, api).await?;
    let own = target.as_ref().filter(|_| options.writes());
    let shown = identity::begin(&sources, own, &trust, &core.injection, &mut doors).await?;
    registration.write_to(own.map(|t| t.entries.clone()), &derive);
    follow_settings(&supervisor, composer, &core.config_maps, &settled)?;
    let clusters = sources.begin_remotes(target.as_ref(), &core.remote_secrets, remotes);
    let registries = sources.begin_registries(&core.bridges, core.registries.clone());
    let named = sources.begin_named(&core.config_maps, &settled);
    sources.tell_shadowed();
    // The port is bound, so that clients queue instead of being refused; it answers once there is something to serve.
    let settings = || settings::settled(settled.subscribe(), core.config_maps.told());
    let named = async { tokio::join!(clusters, registries, named) };
    first_read(&supervisor, (settings, named), &derive, &stop, &mut signals).await?;
    registration.complete();
    let_go(&warm, &derive, start)?;
    core.exports.begin();
    doors.can_show(shown, &stop).await;
    doors.begin("Ready.");
    own_pod::show(&options, &doors, store.get());
    let running = (&tasks, &stop);
    shown::follow(&options, store.get(), (&pages, &core.injection), running);
    let places = (own, certificates);
    core.order_certificates(&options, &pages, places, running)?;
    ready(doors.addresses);
    write::Begun::new(&options, &pages, &apis, &core).write_to(own, &tasks, &stop);
    let saver = save(keeper, &options, &settled, &pages)?;
    drain(&pages, saver, &stop, &mut signals).await;
    drop((doors, pages, derive, supervisor));
    finish(tasks, core.end(), options.shutdown_duration).await
}

/// Reads the settings of files, with what flags of Higress mean here. What sources the mesh config names there says whether a
/// cluster is read, and that is among what settings are made from.
fn compose(options: &mut ServeOptions) -> anyhow::Result<(Composer, Composed)> {
    HigressFlags::adopt(options);
    let (composer, first) = Composer::start(options)?;
    let named = &first.settings.mesh.config_sources;
    match options.config_sources.adopt(named) {
        true => Composer::start(options),
        false => Ok((composer, first)),
    }
}

/// Serves proxies from here on by what the sources have told, where they were served from disk.
fn let_go(warm: &Warm, derive: &Derive, start: Instant) -> anyhow::Result<()> {
    if warm.is_serving() {
        derive.let_go()?;
        warm.end();
        tracing::info!(ms = milliseconds(start), "The sources have been read.");
    }
    Ok(())
}

/// Clients of the cluster that the options name, if they name one.
async fn connect(options: &ServeOptions) -> anyhow::Result<Option<kubernetes::Clients>> {
    Ok(match options.reads_cluster() {
        true => Some(options.cluster.connect().await?),
        false => None,
    })
}

/// Starts to save what is served, where that is wanted.
fn save(
    keeper: Option<Keeper>,
    options: &ServeOptions,
    settled: &watch::Sender<Settled>,
    pages: &Pages,
) -> anyhow::Result<Option<Saver>> {
    let start = |keeper| {
        let (warm, derive) = (pages.warm.clone(), pages.derive.clone());
        let (known, metrics) = (settled.subscribe(), pages.metrics.clone());
        Saver::start(keeper, options, known, warm, derive, metrics)
    };
    let saver = keeper.map(start).transpose();
    saver.context("cannot start the thread that saves (--state-dir)")
}

/// What sources are started with.
struct Sources<'a> {
    wiring: Wiring<'a>,
    supervisor: &'a Supervisor,
    findings: &'a Arc<Findings>,
    tasks: &'a TaskTracker,
}

impl Sources<'_> {
    /// Starts the manager of remote clusters. What it returns resolves when each that is named is among the sources.
    fn begin_remotes(
        &self,
        target: Option<&Target>,
        secrets: &Secrets,
        state: watch::Sender<crate::remotes::Settled>,
    ) -> impl Future<Output = ()> + use<> {
        let (apis, stop) = (self.wiring.apis.clone(), self.wiring.stop.clone());
        let own = target.map(|target| target.api.clone());
        self.tasks.spawn(apis.follow(own, state.subscribe(), stop));
        let parts = remotes::Parts {
            options: self.wiring.options,
            supervisor: self.supervisor,
            derive: self.wiring.derive,
            metrics: self.wiring.metrics,
            findings: self.findings,
            secrets: secrets.told(),
        };
        remotes::start(&parts, state, self.tasks, self.wiring.stop)
    }

    /// Starts the manager of registries. What it returns resolves when each that is named is among the sources.
    fn begin_registries(
        &self,
        bridges: &Bridges,
        shown: watch::Sender<Registries>,
    ) -> impl Future<Output = ()> + use<> {
        let (findings, metrics) = (self.findings.clone(), self.wiring.metrics.clone());
        let source = model::Owner::new(0, "registries").source;
        let manager = crate::registries::Manager {
            supervisor: self.supervisor.clone(),
            on_findings: Box::new(move |found| report(&findings, &metrics, &source, found)),
            options: self.wiring.options.registries.clone(),
            edge: wiring::edge(self.wiring.options),
        };
        let acted = crate::registries::settled(shown.subscribe(), bridges.told());
        let stop = self.wiring.stop.clone();
        self.tasks.spawn(manager.run(bridges.told(), shown, stop));
        acted
    }

    /// Starts the manager of sources that flags and the mesh config name. What it returns resolves when each that is named is
    /// among the sources.
    fn begin_named(
        &self,
        config_maps: &Arc<ConfigMaps>,
        settled: &watch::Sender<Settled>,
    ) -> impl Future<Output = ()> + use<> {
        let (findings, metrics) = (self.findings.clone(), self.wiring.metrics.clone());
        let source = model::Owner::new(0, "config-sources").source;
        let on_findings = Box::new(move |found| report(&findings, &metrics, &source, found));
        let (options, warm) = (self.wiring.options, self.wiring.warm);
        let config_maps = config_maps.clone();
        let manager =
            config_sources::Manager::new(options, warm, self.supervisor, config_maps, on_findings);
        let acted = watch::Sender::default();
        let done = config_sources::settled(settled.subscribe(), acted.subscribe());
        let stop = self.wiring.stop.clone();
        self.tasks
            .spawn(manager.run(settled.subscribe(), acted, stop));
        done
    }

    /// From here on authors hear of objects that others hide.
    fn tell_shadowed(&self) {
        let (shadows, findings) = (self.wiring.shadows.clone(), self.findings.clone());
        let (metrics, stop) = (self.wiring.metrics.clone(), self.wiring.stop.clone());
        self.tasks
            .spawn(report::tell_shadowed(shadows, findings, metrics, stop));
    }
}

/// Adds the source of the settings.
fn follow_settings(
    supervisor: &Supervisor,
    composer: Composer,
    config_maps: &ConfigMaps,
    settled: &watch::Sender<Settled>,
) -> anyhow::Result<()> {
    let composer = Arc::new(Mutex::new(composer));
    let parts = (composer, config_maps.told(), settled.clone());
    supervisor.add(Box::new(move |_| {
        let (composer, told, settled) = parts.clone();
        Box::new(SettingsSource::new(composer, told, settled))
    }))?;
    Ok(())
}

/// The supervisor of the sources, whose findings are reported.
fn supervisor(
    derive: &Derive,
    findings: &Arc<Findings>,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> Supervisor {
    let (findings, counted) = (findings.clone(), metrics.clone());
    let told = Box::new(move |source: &_, found| report(&findings, &counted, source, found));
    Supervisor::start(derive.clone(), metrics.clone(), told, stop.clone())
}

async fn serve_pages(
    options: &ServeOptions,
    pages: &Arc<Pages>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(options.http_addr)
        .await
        .with_context(|| format!("cannot listen on {} (--http-addr)", options.http_addr))?;
    let address = listener.local_addr()?;
    tasks.spawn(http::serve(listener, pages.clone(), stop.clone()));
    if let Some(second) = options.monitoring_addr.and_then(Listen::at) {
        let listener = TcpListener::bind(second)
            .await
            .with_context(|| format!("cannot listen on {second} (--monitoring-addr)"))?;
        tasks.spawn(http::serve(listener, pages.clone(), stop.clone()));
    }
    if let Some(at) = options.istiod.ctrlz() {
        let listener = TcpListener::bind(at)
            .await
            .with_context(|| format!("cannot listen on {at} (--ctrlz_port)"))?;
        tracing::info!(address = %listener.local_addr()?, "Serving levels of the log.");
        tasks.spawn(ctrlz::serve(listener, stop.clone()));
    }
    Ok(address)
}

/// Waits until every source is in sync, settings are those that they say, and so are the clusters, registries and other sources
/// `named`, or the process is to stop.
async fn first_read<S: Future<Output = ()>>(
    supervisor: &Supervisor,
    (settings, named): (impl Fn() -> S, impl Future<Output = ((), (), ())>),
    derive: &Derive,
    stop: &CancellationToken,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let reading = async {
        supervisor.synced().await?;
        settings().await;
        named.await;
        supervisor.synced().await?;
        // Another control plane may have told of the mesh.
        settings().await;
        first_answers(derive).await
    };
    tokio::select! {
        result = reading => result?,
        () = signals.end(stop) => stop.cancel(),
    }
    Ok(())
}

/// Waits for the end: then no more clients are to come, and what is served is saved.
async fn drain(
    pages: &Pages,
    saver: Option<Saver>,
    stop: &CancellationToken,
    signals: &mut Signals,
) {
    signals.end(stop).await;
    tracing::info!("Draining.");
    pages.ready.store(false, Ordering::Release);
    if let Some(saver) = saver {
        saver.finish().await;
    }
    stop.cancel();
}

/// Waits for what was started to end.
async fn finish(
    tasks: TaskTracker,
    thread: JoinHandle<()>,
    patience: Duration,
) -> anyhow::Result<()> {
    tasks.close();
    let _ = tokio::time::timeout(patience + Duration::from_secs(1), tasks.wait()).await;
    // The thread ends when its last sender is gone; connections that would not end may still hold one.
    if thread.is_finished() && thread.join().is_err() {
        anyhow::bail!("the derive thread panicked");
    }
    tracing::info!("Stopped.");
    Ok(())
}

fn milliseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// What the process is told to end by. A signal counts from when this is made, whether somebody waits for it or not.
struct Signals(Option<(Signal, Signal)>);

impl Signals {
    fn new() -> Self {
        let both = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
        Self(
            both.inspect_err(|error| tracing::warn!(%error, "Cannot wait for signals."))
                .ok(),
        )
    }

    /// Waits for SIGTERM, SIGINT or an internal reason to stop.
    async fn end(&mut self, stop: &CancellationToken) {
        let Some((terminate, interrupt)) = &mut self.0 else {
            return stop.cancelled().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stop.cancelled() => {}
        }
    }
}
