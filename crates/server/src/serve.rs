//! `pilothouse serve`: starts everything, watches over it, and takes it down in order.

mod check;
mod remotes;
mod report;
mod webhooks;
mod wiring;
mod write;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ads::server::{Door, Secure};
use anyhow::Context;
use ca::Authority;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use model::labels::Labels;
use model::names::Namespace;
use model::settings::Settings;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::analysis::Analyst;
use crate::apis::Apis;
use crate::authentication;
use crate::authority;
use crate::certificates;
use crate::config::ServeOptions;
use crate::derive::{Batch, Derive, OriginLimits};
use crate::findings::Findings;
use crate::http::{self, Pages};
use crate::issuing::{self, Issuing};
use crate::metrics::Metrics;
use crate::registration::Registration;
use crate::remotes::Secrets;
use crate::secure::{self, Shown, Trust};
use crate::settings::{self, Composer, ConfigMaps, SettingsSource, Settled};
use crate::shadows::Shadows;
use crate::streams::Proxies;
use crate::supervisor::Supervisor;
use crate::trust;
use crate::warm::{Keeper, Saver, Warm};
use crate::webhooks::InjectorSource;
use crate::welcome;
use crate::writing::Target;
use report::report;
use wiring::{Wiring, first_answers};

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// When something that was asked for cannot start, as when an address is taken. A folder that does not exist is no error: it
/// is read once it is there.
pub async fn serve(options: ServeOptions) -> anyhow::Result<()> {
    check::check(&options)?;
    let start = Instant::now();
    ads::server::raise_descriptor_limit();
    let metrics = Arc::new(Metrics::new().context("cannot register metrics")?);
    let findings = Arc::new(Findings::default());
    let (composer, first) = Composer::start(&options)?;
    let settled = SettingsSource::at_start(&first);
    report(&findings, &metrics, &settings::source(), first.found);
    let cluster = connect(&options).await?;
    let (warm, keeper) = Warm::open(&options, &first.settings, &metrics);
    let (warm, stop, tasks) = (Arc::new(warm), CancellationToken::new(), TaskTracker::new());
    let core = Thread::start(&options, first.settings, &metrics, &tasks, &stop)?;
    let (derive, registration) = (core.derive, core.registration);
    let remotes = watch::Sender::new(crate::remotes::Settled::default());
    let supervisor = supervisor(&derive, &findings, &metrics, &stop);
    let pages = Arc::new(Pages {
        ready: AtomicBool::new(false),
        fault: OnceLock::new(),
        derive: derive.clone(),
        metrics: metrics.clone(),
        connections: Arc::default(),
        findings: findings.clone(),
        analyst: core.analyst,
        warm: warm.clone(),
        supervisor: supervisor.clone(),
        settled: settled.subscribe(),
        cluster: options.cluster_id.clone(),
        remotes: remotes.subscribe(),
        writing: OnceLock::new(),
        authority: OnceLock::new(),
    });
    serve_pages(&options, &pages, &tasks, &stop).await?;
    let trust = Trust::default();
    let server = xds_server(&options, &trust, &pages, &registration)?;
    let mut doors = Doors::new(&options, server, &pages, &tasks, &stop, start)?;
    if warm.is_serving() {
        derive.hold()?;
        doors.begin("Ready, from disk.");
    }
    let (apis, store) = (
        Apis::new(options.cluster_id.as_str().into()),
        OnceLock::new(),
    );
    let sources = Sources {
        wiring: Wiring {
            options: &options,
            derive: &derive,
            metrics: &metrics,
            shadows: &core.shadows,
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
    let target = sources.wiring.add_to(&supervisor).await?;
    begin_ca(&options, target.as_ref(), &pages, &stop).await?;
    let shown = begin_tls(&sources.wiring, &trust, &pages, &mut doors)?;
    let webhooks = webhooks::Parts {
        options: &options,
        pages: &pages,
        source: &core.injection,
        keys: shown.as_ref().map(|shown| shown.key.clone()),
        authority: pages.authority.get(),
        api: store.get(),
    };
    webhooks::begin(webhooks, &tasks, &stop).await?;
    registration.write_to(target.as_ref().map(|t| t.entries.clone()), &derive);
    follow_settings(&supervisor, composer, &core.config_maps, &settled)?;
    let clusters = sources.begin_remotes(target.as_ref(), &core.remote_secrets, remotes);
    sources.tell_shadowed();
    // The port is bound, so that clients queue instead of being refused; it answers once there is something to serve.
    let settings = settings::settled(settled.subscribe(), core.config_maps.told());
    first_read(&supervisor, settings, clusters, &derive, &stop).await?;
    registration.complete();
    let_go(&warm, &derive, start)?;
    doors.can_show(shown, &stop).await;
    doors.begin("Ready.");
    write::Begun::new(&options, &pages, &apis, &core.of_trust).write_to(target, &tasks, &stop);
    let saver = save(keeper, &options, &settled, &pages)?;
    signal(&stop).await;
    drain(&pages, saver).await;
    stop.cancel();
    drop((doors, pages, derive, supervisor));
    finish(tasks, core.thread, options.shutdown_duration).await
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

/// Starts the CA.
async fn begin_ca(
    options: &ServeOptions,
    target: Option<&Target>,
    pages: &Pages,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let parts = authority::Parts {
        options: &options.ca,
        namespace: &options.namespace,
        place: target.map(|t| t.leases.clone()),
        requests: target.map(|t| t.api.place.clone()),
        settled: pages.settled.clone(),
        stop,
    };
    if let Some(authority) = authority::start(parts).await? {
        certificates::add(pages, &authority, &options.certificates, stop)?;
        // Set here only.
        let _ = pages.authority.set(authority);
    }
    Ok(())
}

/// Opens the port for TLS, if there is something to show.
fn begin_tls(
    wiring: &Wiring<'_>,
    trust: &Trust,
    pages: &Pages,
    doors: &mut Doors<'_>,
) -> anyhow::Result<Option<Shown>> {
    let authority = pages.authority.get();
    let shown = secure::start(wiring.options, authority, wiring.stop)?;
    if let Some(shown) = &shown {
        let authenticators = authentication::start(authentication::Parts {
            options: wiring.options,
            settled: pages.settled.clone(),
            apis: wiring.apis,
            store: wiring.store.get().cloned(),
            metrics: wiring.metrics,
            stop: wiring.stop,
        })?;
        trust.tell(authenticators, authority.map(Authority::signer));
        doors.secure(shown)?;
    }
    Ok(shown)
}

/// Clients of the cluster that the options name, if they name one.
async fn connect(options: &ServeOptions) -> anyhow::Result<Option<kubernetes::Clients>> {
    Ok(match options.reads_cluster() {
        true => Some(options.cluster.connect().await?),
        false => None,
    })
}

/// The server of xDS, with what else is served on its ports.
fn xds_server(
    options: &ServeOptions,
    trust: &Trust,
    pages: &Pages,
    registration: &Registration,
) -> anyhow::Result<ads::server::Server> {
    let proxies = proxies(options, trust, pages, registration);
    let accounts = &options.secure.ca_trusted_node_accounts;
    let issuing = Issuing::new(
        trust.clone(),
        accounts.iter().cloned().collect(),
        pages.derive.clone(),
        pages.metrics.clone(),
    );
    let server = ads::server::Server::new(Arc::new(proxies), xds_options(options))
        .context("cannot start the threads that serve proxies")?;
    Ok(server.mount(issuing::SERVICE, Arc::new(issuing)))
}

/// What streams of proxies are served with.
fn proxies(
    options: &ServeOptions,
    trust: &Trust,
    pages: &Pages,
    registration: &Registration,
) -> Proxies {
    Proxies {
        trust: trust.clone(),
        derive: pages.derive.clone(),
        metrics: pages.metrics.clone(),
        connections: pages.connections.clone(),
        warm: pages.warm.clone(),
        unsupported: Arc::default(),
        registration: registration.clone(),
        test_identities: options.insecure_test_identities,
    }
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
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(options.http_addr)
        .await
        .with_context(|| format!("cannot listen on {} (--http-addr)", options.http_addr))?;
    tasks.spawn(http::serve(listener, pages.clone(), stop.clone()));
    Ok(())
}

/// Waits until every source is in sync, settings are those that they say, and so are the remote clusters that they name, or
/// the process is to stop.
async fn first_read(
    supervisor: &Supervisor,
    settings: impl Future<Output = ()>,
    clusters: impl Future<Output = ()>,
    derive: &Derive,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let reading = async {
        supervisor.synced().await?;
        settings.await;
        clusters.await;
        supervisor.synced().await?;
        first_answers(derive).await
    };
    tokio::select! {
        result = reading => result?,
        () = signal(stop) => stop.cancel(),
    }
    Ok(())
}

/// Says that no more clients are to come, and saves what is served.
async fn drain(pages: &Pages, saver: Option<Saver>) {
    tracing::info!("Draining.");
    pages.ready.store(false, Ordering::Release);
    if let Some(saver) = saver {
        saver.finish().await;
    }
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

/// The derive thread, and those who hear of each batch.
struct Thread {
    derive: Derive,
    thread: JoinHandle<()>,
    analyst: Analyst,
    shadows: Arc<Shadows>,
    config_maps: Arc<ConfigMaps>,
    injection: Arc<InjectorSource>,
    registration: Registration,
    remote_secrets: Arc<Secrets>,
    of_trust: Arc<trust::Seen>,
}

impl Thread {
    fn start(
        options: &ServeOptions,
        settings: Arc<Settings>,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let analyst = Analyst::start().context("cannot start the analysis thread")?;
        let nothing = store::Store::new(settings.clone()).snapshot();
        let shadows = Arc::new(Shadows::new(nothing.clone()));
        let home = wiring::home(options);
        let registration = Registration::start(options, home, nothing, metrics, tasks, stop);
        let limits = OriginLimits {
            unknown: options.max_unknown_namespaces,
            unknown_per_address: options.max_unknown_namespaces.div_ceil(8),
            places_per_namespace: options.max_places_per_namespace,
            ..OriginLimits::default()
        };
        let (of_batches, of_proxies) = (analyst.clone(), analyst.clone());
        let (metrics, seen, registered) = (metrics.clone(), shadows.clone(), registration.clone());
        let config_maps = Arc::new(ConfigMaps::new(options));
        let injection = Arc::new(InjectorSource::new(options));
        let of_injection = injection.clone();
        let namespace = options.remotes.secrets_namespace.as_ref();
        let namespace = namespace.unwrap_or(&options.namespace);
        let remote_secrets = Arc::new(Secrets::new(namespace));
        let (of_settings, of_remotes) = (config_maps.clone(), remote_secrets.clone());
        let of_trust = Arc::new(trust::Seen::default());
        let seen_roots = of_trust.clone();
        let on_batch = move |batch: &Batch| {
            report::on_batch(batch, &metrics);
            seen.see(batch);
            registered.see(batch);
            of_settings.see(batch);
            of_injection.see(batch);
            of_remotes.see(batch);
            seen_roots.see(batch);
            if !batch.changes.is_empty() {
                of_batches.changed(batch.snapshot.clone(), &batch.changes.keys);
            }
        };
        let on_proxy = move |namespace: &Namespace, labels: &Labels, seen| {
            of_proxies.seen(namespace, labels, seen);
        };
        let (derive, thread) = Derive::start_watched(settings, limits, on_batch, on_proxy)
            .context("cannot start the derive thread")?;
        Ok(Self {
            derive,
            thread,
            analyst,
            shadows,
            config_maps,
            injection,
            registration,
            remote_secrets,
            of_trust,
        })
    }
}

/// The ports of xDS. They answer once there is something to serve. That for plaintext is bound from the start, that for TLS when
/// it is known what it shows.
struct Doors<'a> {
    closed: Vec<Door>,
    open: UnboundedSender<Door>,
    begun: bool,
    options: &'a ServeOptions,
    pages: Arc<Pages>,
    start: Instant,
}

impl<'a> Doors<'a> {
    fn new(
        options: &'a ServeOptions,
        server: ads::server::Server,
        pages: &Arc<Pages>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
        start: Instant,
    ) -> anyhow::Result<Self> {
        let listener = ads::server::listen(options.grpc_addr)
            .with_context(|| format!("cannot listen on {} (--grpc-addr)", options.grpc_addr))?;
        let (open, doors) = unbounded();
        tasks.spawn(ads::server::serve(doors, Arc::new(server), stop.clone()));
        Ok(Self {
            closed: vec![Door::Plaintext(listener)],
            open,
            begun: false,
            options,
            pages: pages.clone(),
            start,
        })
    }

    /// Serves TLS as well. Where that was asked for, it must be possible.
    fn secure(&mut self, shown: &Shown) -> anyhow::Result<()> {
        let Some((address, asked)) = self.options.secure.address() else {
            return Ok(());
        };
        let listener = match ads::server::listen(address) {
            Ok(listener) => listener,
            Err(error) if asked => {
                let context = format!("cannot listen on {address} (--secure-grpc-addr)");
                return Err(error).context(context);
            }
            Err(error) => {
                tracing::warn!(%address, %error, "xDS is not served over TLS (--secure-grpc-addr).");
                return Ok(());
            }
        };
        let secure = Secure::new(listener, shown.tls.clone());
        let secure = secure.context("cannot start the threads for TLS handshakes")?;
        self.closed.push(Door::Secure(secure));
        if self.begun {
            self.open();
        }
        Ok(())
    }

    /// Waits until there is a certificate to show, if TLS was asked for.
    async fn can_show(&self, shown: Option<Shown>, stop: &CancellationToken) {
        let asked = self
            .options
            .secure
            .address()
            .is_some_and(|(_, asked)| asked);
        if let Some(mut shown) = shown.filter(|_| asked) {
            tokio::select! {
                // Nothing is told any more where it fails: the process is going down.
                _ = shown.tls.wait_for(Option::is_some) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    fn open(&mut self) {
        for door in self.closed.drain(..) {
            // Whoever would accept has ended where this fails: the process is going down.
            let _ = self.open.unbounded_send(door);
        }
    }

    /// Answers from here on, if it did not before.
    fn begin(&mut self, words: &str) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.open();
        self.pages.ready.store(true, Ordering::Release);
        let startup = &self.pages.metrics.startup;
        startup.set(self.start.elapsed().as_secs_f64());
        tracing::info!(
            xds = %self.options.grpc_addr,
            http = %self.options.http_addr,
            ms = milliseconds(self.start),
            "{words}"
        );
        for line in welcome::lines(self.options) {
            tracing::info!("{line}");
        }
    }
}

fn xds_options(options: &ServeOptions) -> ads::server::Options {
    ads::server::Options {
        max_request_bytes: options.max_request_bytes,
        max_connections: options.max_connections,
        max_connections_per_address: options.max_connections_per_address,
        max_partial_bytes: options.max_partial_bytes,
        request_timeout: options.request_timeout,
        max_streams: options.max_streams,
        max_names_memory: options.max_names_memory,
        limits: ads::Limits {
            names_per_type: options.max_names,
            bytes_per_stream: options.max_name_bytes,
            ..ads::Limits::default()
        },
        streams_per_second: (options.max_streams_per_second > 0.0)
            .then_some(options.max_streams_per_second),
        handshakes_per_second: (options.secure.max_handshakes_per_second > 0.0)
            .then_some(options.secure.max_handshakes_per_second),
        keepalive_interval: options.keepalive_interval,
        keepalive_timeout: options.keepalive_timeout,
        drain_timeout: options.shutdown_duration,
        threads: options.xds_threads,
        pin_threads: options.pin_xds_threads,
        ..ads::server::Options::default()
    }
}

/// Waits for SIGTERM, SIGINT or an internal reason to stop.
async fn signal(stop: &CancellationToken) {
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(error) => {
                tracing::warn!(%error, "Cannot wait for SIGTERM.");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = terminate => {}
        _ = tokio::signal::ctrl_c() => {}
        () = stop.cancelled() => {}
    }
}
