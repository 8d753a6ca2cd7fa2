//! `pilothouse serve`: starts everything, watches over it, and takes it down in order.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use model::labels::Labels;
use model::names::Namespace;
use model::parse::Validation;
use model::{Owner, SourceId};
use sources::files::Absent;
use sources::folder::Folder;
use sources::{SourceEvent, files, jwks};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::analysis::Analyst;
use crate::config::{ServeOptions, ValidationMode};
use crate::derive::{Batch, Derive, OriginLimits};
use crate::findings::Findings;
use crate::http::Pages;
use crate::metrics::Metrics;
use crate::shadows::Shadows;
use crate::streams::{Connections, Proxies};
use crate::warm::{Saver, Warm};
use crate::{http, settings, welcome};

/// Precedence of folders: the first folder wins over the second.
const FOLDER_RANK: u8 = 10;

/// How long the start waits for keys of token issuers. A rule gives an answer 5 s where it does not say.
const KEYS_AT_START: Duration = Duration::from_secs(5);

/// Keys are not fetched more often than this.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// When something that was asked for cannot start, as when an address is taken. A folder that is not there is no such
/// thing: it is looked for.
pub async fn serve(options: ServeOptions) -> anyhow::Result<()> {
    let start = Instant::now();
    check(&options)?;
    ads::server::raise_descriptor_limit();
    let metrics = Arc::new(Metrics::new().context("cannot register metrics")?);
    let findings = Arc::new(Findings::default());
    let (first_settings, found) = settings::load(&options)?;
    report(&findings, &metrics, &settings::source(), found);

    let (warm, keeper) = Warm::open(&options, &first_settings, &metrics);
    let warm = Arc::new(warm);

    let analyst = Analyst::start().context("cannot start the analysis thread")?;
    let first_settings = Arc::new(first_settings);
    let nothing = store::Store::new(first_settings.clone()).snapshot();
    let shadows = Arc::new(Shadows::new(nothing));
    let (derive, thread) = {
        let (metrics, analyst, of_proxies) = (metrics.clone(), analyst.clone(), analyst.clone());
        let limits = OriginLimits {
            unknown: options.max_unknown_namespaces,
            unknown_per_address: options.max_unknown_namespaces.div_ceil(8),
            places_per_namespace: options.max_places_per_namespace,
            ..OriginLimits::default()
        };
        let shadows = shadows.clone();
        let on_batch = move |batch: &Batch| {
            on_batch(batch, &metrics);
            shadows.see(batch);
            if !batch.changes.is_empty() {
                analyst.changed(batch.snapshot.clone(), &batch.changes.keys);
            }
        };
        let on_proxy = move |namespace: &Namespace, labels: &Labels, seen| {
            of_proxies.seen(namespace, labels, seen);
        };
        Derive::start_watched(first_settings, limits, on_batch, on_proxy)
            .context("cannot start the derive thread")?
    };

    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let connections = Arc::new(Connections::default());
    let pages = Arc::new(Pages {
        ready: AtomicBool::new(false),
        fault: OnceLock::new(),
        derive: derive.clone(),
        metrics: metrics.clone(),
        connections: connections.clone(),
        findings: findings.clone(),
        analyst,
        warm: warm.clone(),
    });
    let listener = TcpListener::bind(options.http_addr)
        .await
        .with_context(|| format!("cannot listen on {} (--http-addr)", options.http_addr))?;
    tasks.spawn(http::serve(listener, pages.clone(), stop.clone()));
    let grpc = ads::server::listen(options.grpc_addr)
        .with_context(|| format!("cannot listen on {} (--grpc-addr)", options.grpc_addr))?;

    let server = ads::server::Server::new(
        Arc::new(Proxies {
            derive: derive.clone(),
            metrics: metrics.clone(),
            connections,
            warm: warm.clone(),
            test_identities: options.insecure_test_identities,
        }),
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
            keepalive_interval: options.keepalive_interval,
            keepalive_timeout: options.keepalive_timeout,
            drain_timeout: options.shutdown_duration,
            threads: options.xds_threads,
            pin_threads: options.pin_xds_threads,
            ..ads::server::Options::default()
        },
    )
    .context("cannot start the threads that serve proxies")?;
    let mut xds = Some((grpc, Arc::new(server)));
    let mut begin = |words: &str| {
        let Some((listener, server)) = xds.take() else {
            return;
        };
        tasks.spawn(ads::server::serve(listener, server, stop.clone()));
        pages.ready.store(true, Ordering::Release);
        metrics.startup.set(start.elapsed().as_secs_f64());
        tracing::info!(
            xds = %options.grpc_addr,
            http = %options.http_addr,
            ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            "{words}"
        );
        for line in welcome::lines(&options) {
            tracing::info!("{line}");
        }
    };
    if warm.is_serving() {
        derive.hold()?;
        begin("Ready, from disk.");
    }

    // Proxies must not lose what they are served from disk because a folder is late.
    let told = files::Options {
        absent: match warm.is_serving() {
            true => Absent::Unknown,
            false => Absent::Empty,
        },
        empty_grace: options.config_empty_grace,
    };
    let (sink, said) = mpsc::channel(64);
    let mut waiting = Vec::new();
    for (rank, dir) in (FOLDER_RANK..).zip(&options.config_dir) {
        let id = Owner::new(rank, format!("files:{}", dir.display()));
        waiting.push(id.source.clone());
        let folder = Folder::new(id.clone(), dir.clone(), validation(options.validation));
        let (sink, stop) = (sink.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = files::run(folder, told, sink, stop.clone()).await {
                tracing::error!(source = %id.source, error = %error, reason = ?std::error::Error::source(&error).map(ToString::to_string), "A source cannot go on.");
                stop.cancel();
            }
        });
    }
    if let Some(data) = &options.api.data {
        let source =
            crate::api::start(data, &options.api, &options.namespace, &shadows, &stop).await?;
        waiting.push(source.owner().source.clone());
        // Set here only.
        let _ = pages.fault.set(source.store().faults());
        tasks.spawn(source.run(sink.clone(), stop.clone()));
    }
    tasks.spawn(settings::watch(options.clone(), sink.clone(), stop.clone()));
    tasks.spawn(keys(&options, &derive, sink.clone(), &metrics, &stop));
    drop(sink);

    // The port is bound, so that clients queue instead of being refused; it answers once there is something to serve.
    let feeding = Feeding {
        derive: derive.clone(),
        findings: findings.clone(),
        metrics: metrics.clone(),
    };
    tasks.spawn(tell_shadowed(
        shadows,
        findings.clone(),
        metrics.clone(),
        stop.clone(),
    ));
    let synced = feed(said, feeding, waiting, &tasks, &stop);
    tokio::select! {
        result = synced => result?,
        () = signal(&stop) => stop.cancel(),
    }
    tokio::select! {
        result = first_keys(&derive) => result?,
        () = stop.cancelled() => {}
    }
    if warm.is_serving() {
        derive.let_go()?;
        warm.end();
        tracing::info!(
            ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            "The sources have been read."
        );
    }
    begin("Ready.");
    let saver = keeper
        .map(|keeper| {
            let (warm, derive) = (warm.clone(), derive.clone());
            Saver::start(keeper, &options, warm, derive, metrics.clone())
        })
        .transpose()
        .context("cannot start the thread that saves (--state-dir)")?;
    signal(&stop).await;
    tracing::info!("Draining.");
    pages.ready.store(false, Ordering::Release);
    if let Some(saver) = saver {
        saver.finish().await;
    }
    stop.cancel();
    tasks.close();
    let _ = tokio::time::timeout(
        options.shutdown_duration + Duration::from_secs(1),
        tasks.wait(),
    )
    .await;
    drop((pages, derive));
    // The thread ends when its last sender is gone; connections that would not end may still hold one.
    if thread.is_finished() && thread.join().is_err() {
        anyhow::bail!("the derive thread panicked");
    }
    tracing::info!("Stopped.");
    Ok(())
}

/// Fetches the keys of token issuers.
fn keys(
    options: &ServeOptions,
    derive: &Derive,
    sink: sources::Sink,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let (metrics, stop) = (metrics.clone(), stop.clone());
    let wanted = derive.wanted_keys();
    let options = jwks::Options {
        refresh: options.jwks_refresh_interval.max(SHORTEST_REFRESH),
        blocked: options.jwks_blocked_cidrs.0.clone(),
        allowed: options.jwks_allowed_cidrs.0.clone(),
        longest: jwks::LONGEST_FETCH,
        extra_roots: Some(options.jwks_roots.clone()),
        insecure: options.jwks_insecure_skip_verify,
        attempted: Arc::new(move |succeeded| {
            if succeeded {
                metrics.keys_fetched.inc();
            } else {
                metrics.keys_failed.inc();
            }
        }),
    };
    async move {
        if let Err(error) = jwks::run(wanted, options, sink, stop.clone()).await {
            tracing::error!(%error, reason = ?std::error::Error::source(&error).map(ToString::to_string), "Keys of token issuers cannot be fetched (--jwks-roots).");
            stop.cancel();
        }
    }
}

/// Waits until an outcome is known of fetching each key, so that proxies which reconnect after a restart do not refuse
/// good tokens meanwhile; but not for long.
async fn first_keys(derive: &Derive) -> anyhow::Result<()> {
    let start = Instant::now();
    while !derive.ask(crate::derive::State::has_keys).await? && start.elapsed() < KEYS_AT_START {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
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

fn check(options: &ServeOptions) -> anyhow::Result<()> {
    if options.insecure_test_identities {
        anyhow::ensure!(
            is_loopback(options.grpc_addr),
            "PILOTHOUSE_INSECURE_TEST_IDENTITIES is for loopback only, and --grpc-addr is {}",
            options.grpc_addr
        );
        tracing::warn!(
            "Bearer tokens sa:NAMESPACE:NAME are taken for identities without any proof. For tests only."
        );
    }
    if !is_loopback(options.grpc_addr) {
        anyhow::ensure!(
            options.insecure_grpc,
            "--grpc-addr {} is not loopback, and xDS is plaintext without authentication: whoever reaches it may say that it is \
             a proxy of any namespace and reads that configuration. Put mutual TLS in front (a proxy that ends it on this \
             machine, or ssh) and listen on 127.0.0.1, or, on a network where everybody may read all of it, add \
             --insecure-grpc (PILOTHOUSE_INSECURE_GRPC=true)",
            options.grpc_addr
        );
        tracing::warn!(
            address = %options.grpc_addr,
            "xDS is served beyond this machine in plaintext and without authentication (--insecure-grpc): whoever reaches it \
             reads the configuration of any namespace."
        );
    }
    if !is_loopback(options.http_addr) {
        let (flag, address) = ("--http-addr", options.http_addr);
        tracing::warn!(%address, flag, "Plaintext is served beyond this machine.");
    }
    if options.config_dir.is_empty() && options.api.data.is_none() {
        tracing::warn!("No source of configuration is given (--config-dir or --data).");
    }
    Ok(())
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn validation(mode: ValidationMode) -> Validation {
    match mode {
        ValidationMode::Strict => Validation::Strict,
        ValidationMode::Warn => Validation::Warn,
    }
}

/// Where what sources say goes.
struct Feeding {
    derive: Derive,
    findings: Arc<Findings>,
    metrics: Arc<Metrics>,
}

/// Hands what sources say to the derive thread; resolves when every source in `waiting` said all it had.
async fn feed(
    mut said: mpsc::Receiver<SourceEvent>,
    feeding: Feeding,
    mut waiting: Vec<SourceId>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    while !waiting.is_empty() {
        let Some(next) = said.recv().await else { break };
        for change in next.changes() {
            if let model::Change::Synced(collection) = change {
                waiting.retain(|w| *w != collection.owner.source);
            }
        }
        feeding.pass_on(next).await?;
    }
    // Everything handed over before this question is applied when it is answered.
    feeding.derive.ask(|_| ()).await?;
    let stop = stop.clone();
    tasks.spawn(async move {
        loop {
            tokio::select! {
                next = said.recv() => {
                    let Some(next) = next else { return };
                    if feeding.pass_on(next).await.is_err() {
                        return;
                    }
                }
                () = stop.cancelled() => return,
            }
        }
    });
    Ok(())
}

impl Feeding {
    async fn pass_on(&self, said: SourceEvent) -> Result<(), crate::derive::Closed> {
        match said {
            SourceEvent::Changes(changes) => self.change(changes, Instant::now()).await,
            SourceEvent::Read {
                changes,
                noticed,
                took,
            } => {
                self.metrics.stages.read.observe(took.as_secs_f64());
                self.change(changes, noticed).await
            }
            SourceEvent::Findings(source, found) => {
                report(&self.findings, &self.metrics, &source, found);
                Ok(())
            }
        }
    }

    async fn change(
        &self,
        changes: Vec<model::Change>,
        noticed: Instant,
    ) -> Result<(), crate::derive::Closed> {
        self.derive.change(changes, noticed).await
    }
}

/// Tells of the objects that are not used because another source has them as well.
async fn tell_shadowed(
    shadows: Arc<Shadows>,
    findings: Arc<Findings>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let every = Owner::new(0, "sources").source;
    loop {
        tokio::select! {
            found = shadows.changed() => report(&findings, &metrics, &every, found),
            () = stop.cancelled() => return,
        }
    }
}

/// Logs what is new among the findings, with the line it is about.
fn report(
    findings: &Findings,
    metrics: &Metrics,
    source: &SourceId,
    found: Vec<model::Diagnostic>,
) {
    // An object is refused once, whatever many faults it has.
    let mut refused = BTreeSet::new();
    for diagnostic in findings.replace(source, found) {
        match diagnostic.severity {
            model::Severity::Error => {
                let place = diagnostic
                    .object
                    .is_none()
                    .then(|| diagnostic.origin.clone());
                if refused.insert((diagnostic.object.clone(), place)) {
                    let kind = diagnostic.object.as_ref().map_or("", |key| key.kind.name());
                    metrics.rejected_configs.with_label_values(&[kind]).inc();
                }
                tracing::error!("{diagnostic}");
            }
            model::Severity::Warning => tracing::warn!("{diagnostic}"),
            model::Severity::Info => tracing::debug!("{diagnostic}"),
        }
    }
}

fn on_batch(batch: &Batch, metrics: &Metrics) {
    metrics.batch(batch);
    for finding in &batch.found {
        match finding.severity {
            model::Severity::Error => tracing::error!("{finding}"),
            model::Severity::Warning => tracing::warn!("{finding}"),
            model::Severity::Info => tracing::debug!("{finding}"),
        }
    }
    for key in &batch.changes.objects {
        metrics
            .config_events
            .with_label_values(&[key.kind.name()])
            .inc();
    }
    if !batch.changes.is_empty() {
        tracing::debug!(
            revision = batch.revision,
            objects = batch.changes.objects.len(),
            proxies = batch.proxies,
            views = batch.views,
            sets = batch.sets,
            evaluations = batch.runs,
            apply_us = u64::try_from(batch.apply.as_micros()).unwrap_or(u64::MAX),
            generate_us = u64::try_from(batch.generate.as_micros()).unwrap_or(u64::MAX),
            "Changes published."
        );
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ServeOptions,
    }

    fn checked(flags: &[&str]) -> Result<(), String> {
        let line = Line::parse_from(["serve"].iter().chain(flags));
        check(&line.options).map_err(|error| error.to_string())
    }

    #[test]
    fn plaintext_beyond_loopback_must_be_asked_for() {
        for address in ["127.0.0.1:15010", "127.3.0.1:15010", "[::1]:15010"] {
            assert_eq!(checked(&["--grpc-addr", address]), Ok(()));
        }
        for address in ["0.0.0.0:15010", ":15010", "[::]:15010", "10.0.0.1:15010"] {
            let error = checked(&["--grpc-addr", address]).unwrap_err();
            for words in ["is not loopback", "mutual TLS", "--insecure-grpc"] {
                assert!(error.contains(words), "{error}");
            }
            let told = ["--grpc-addr", address, "--insecure-grpc"];
            assert_eq!(checked(&told), Ok(()));
        }
    }
}
