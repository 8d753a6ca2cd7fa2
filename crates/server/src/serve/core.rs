//! The derive thread, and those who hear of each batch.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use anyhow::Context;
use model::labels::Labels;
use model::names::Namespace;
use model::settings::Settings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use writeback::Place;

use super::{report, wiring};
use crate::acme;
use crate::analysis::Analyst;
use crate::config::ServeOptions;
use crate::deployments;
use crate::derive::{Batch, Derive, OriginLimits};
use crate::exporting::Keeper;
use crate::findings::Findings;
use crate::http::Pages;
use crate::metrics::Metrics;
use crate::registration::Registration;
use crate::registries::{Bridges, Registries};
use crate::remotes::{self, Secrets};
use crate::settings::{ConfigMaps, Settled};
use crate::shadows::Shadows;
use crate::statuses::Book;
use crate::supervisor::Supervisor;
use crate::trust;
use crate::warm::Warm;
use crate::webhooks::InjectorSource;
use crate::writing::Target;

/// The derive thread, and those who hear of each batch.
pub(super) struct Core {
    pub(super) derive: Derive,
    thread: JoinHandle<()>,
    metrics: Arc<Metrics>,
    pub(super) analyst: Analyst,
    pub(super) shadows: Arc<Shadows>,
    pub(super) config_maps: Arc<ConfigMaps>,
    pub(super) injection: Arc<InjectorSource>,
    pub(super) registration: Registration,
    pub(super) remote_secrets: Arc<Secrets>,
    pub(super) bridges: Arc<Bridges>,
    /// The registries that are read.
    pub(super) registries: watch::Sender<Registries>,
    of_acme: Arc<acme::Seen>,
    pub(super) of_trust: Arc<trust::Seen>,
    pub(super) statuses: Arc<Book>,
    pub(super) of_deployments: Arc<deployments::Seen>,
    pub(super) exports: Keeper,
}

impl Core {
    /// What pages show.
    pub(super) fn pages(
        &self,
        options: &ServeOptions,
        findings: &Arc<Findings>,
        warm: &Arc<Warm>,
        supervisor: &Supervisor,
        (settled, remotes): (watch::Receiver<Settled>, watch::Receiver<remotes::Settled>),
    ) -> Arc<Pages> {
        Arc::new(Pages {
            ready: AtomicBool::new(false),
            fault: OnceLock::new(),
            derive: self.derive.clone(),
            metrics: self.metrics.clone(),
            connections: Arc::default(),
            findings: findings.clone(),
            analyst: self.analyst.clone(),
            statuses: self.statuses.clone(),
            injection: self.injection.clone(),
            warm: warm.clone(),
            supervisor: supervisor.clone(),
            settled,
            cluster: options.cluster_id.clone(),
            remotes,
            registries: self.registries.subscribe(),
            writing: OnceLock::new(),
            acme: OnceLock::new(),
            authority: OnceLock::new(),
        })
    }

    /// The derive thread, which ends when nobody asks it anything any more.
    pub(super) fn end(self) -> JoinHandle<()> {
        self.thread
    }

    /// Begins to keep certificates that are ordered, in a folder or in the API that is written to.
    pub(super) fn order_certificates(
        &self,
        options: &ServeOptions,
        pages: &Arc<Pages>,
        (target, folder): (Option<&Target>, Option<Arc<dyn Place>>),
        (tasks, stop): (&TaskTracker, &CancellationToken),
    ) -> anyhow::Result<()> {
        let parts = acme::Parts {
            options,
            pages,
            target,
            folder,
            seen: &self.of_acme,
        };
        acme::start(parts, tasks, stop)
    }

    pub(super) fn start(
        options: &ServeOptions,
        settings: Arc<Settings>,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let (analyst, exports) = beside()?;
        let nothing = store::Store::new(settings.clone()).snapshot();
        let shadows = Arc::new(Shadows::new(nothing.clone()));
        let statuses = Arc::new(Book::new(
            nothing.clone(),
            &options.namespace,
            &options.revision,
        ));
        let of_statuses = statuses.clone();
        let home = wiring::home(options);
        let registration = Registration::start(options, home, nothing, metrics, tasks, stop);
        let (of_batches, of_proxies) = (analyst.clone(), analyst.clone());
        let (seen, registered) = (shadows.clone(), registration.clone());
        let (counted, of_exports) = (metrics.clone(), exports.clone());
        let config_maps = Arc::new(ConfigMaps::new(options));
        let injection = Arc::new(InjectorSource::new(options));
        let of_injection = injection.clone();
        let namespace = options.remotes.secrets_namespace.as_ref();
        let namespace = namespace.unwrap_or(&options.namespace);
        let remote_secrets = Arc::new(Secrets::new(namespace));
        let (of_settings, of_remotes) = (config_maps.clone(), remote_secrets.clone());
        let bridges = Arc::new(wiring::bridges(options));
        let of_registries = bridges.clone();
        let edge = options.ingress.features().edge_namespace;
        let of_acme = Arc::new(acme::Seen::new(edge));
        let of_trust = Arc::new(trust::Seen::default());
        let (seen_certificates, seen_roots) = (of_acme.clone(), of_trust.clone());
        let of_deployments = Arc::new(deployments::Seen::new(&options.namespace));
        let deployed = (options.deploys_gateways() || options.creates_gateway_classes())
            .then(|| of_deployments.clone());
        let on_batch = move |batch: &Batch| {
            report::on_batch(batch, &counted);
            of_statuses.see(batch);
            seen.see(batch);
            registered.see(batch);
            of_settings.see(batch);
            of_injection.see(batch);
            of_remotes.see(batch);
            of_registries.see(batch);
            seen_certificates.see(batch);
            seen_roots.see(batch);
            of_exports.see(batch);
            if let Some(deployed) = &deployed {
                deployed.see(batch);
            }
            if !batch.changes.is_empty() {
                of_batches.changed(batch.snapshot.clone(), &batch.changes.keys);
            }
        };
        let on_proxy = move |namespace: &Namespace, labels: &Labels, seen| {
            of_proxies.seen(namespace, labels, seen);
        };
        let (derive, thread) = Derive::start_watched(settings, limits(options), on_batch, on_proxy)
            .context("cannot start the derive thread")?;
        Ok(Self {
            derive,
            thread,
            metrics: metrics.clone(),
            analyst,
            shadows,
            config_maps,
            injection,
            registration,
            remote_secrets,
            bridges,
            registries: watch::Sender::default(),
            of_acme,
            of_trust,
            statuses,
            of_deployments,
            exports,
        })
    }
}

/// Starts the threads that work on the snapshots of the derive thread: for analysis, and for other control planes.
fn beside() -> anyhow::Result<(Analyst, Keeper)> {
    let analyst = Analyst::start().context("cannot start the analysis thread")?;
    let exports = Keeper::start().context("cannot start the export thread")?;
    Ok((analyst, exports))
}

/// How much proxies may state that nothing is known of.
fn limits(options: &ServeOptions) -> OriginLimits {
    OriginLimits {
        unknown: options.max_unknown_namespaces,
        unknown_per_address: options.max_unknown_namespaces.div_ceil(8),
        places_per_namespace: options.max_places_per_namespace,
        ..OriginLimits::default()
    }
}
