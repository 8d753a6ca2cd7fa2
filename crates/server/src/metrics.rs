//! Every metric, with its help text. Istio's names where Istio has one.

mod acme;
mod authority;
mod certificates;
mod connected;
mod events;
mod of_type;
mod registrations;
mod registries;
mod remotes;
mod slices;
mod sources;
mod stages;
mod webhooks;
mod writing;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::{Diagnostic, Severity};
use prometheus::{
    Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};
use xds::{ByType, TypeUrl};

use crate::derive::Batch;
pub use acme::Acme;
pub use authority::Authority;
pub use certificates::Certificates;
pub use connected::Connected;
pub use events::Events;
pub use of_type::{Behind, OfType};
pub use registrations::Registrations;
pub use registries::Registries;
pub use remotes::Remotes;
pub use slices::Slices;
pub use sources::Sources;
pub use stages::Stages;
pub use webhooks::Webhooks;
pub use writing::Writing;

/// Buckets of everything that is a time of propagation, in seconds: a change should arrive in milliseconds.
const LATENCY_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0,
];

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    by_type: ByType<OfType>,
    /// Connected proxies, by version.
    pub connected: Connected,
    /// What changes, and for which reasons proxies are told.
    pub events: Events,
    /// Change handed over until the proxy acknowledged.
    pub convergence: Histogram,
    /// Panics caught, and other faults of ours.
    pub internal_errors: IntCounter,
    /// Findings of generation in force, by level.
    pub findings: IntGaugeVec,
    /// Findings of analysis in force, by code and level.
    pub analysis: IntGaugeVec,
    /// Workloads that register themselves.
    pub registration: Registrations,
    /// Keys of token issuers fetched.
    pub keys_fetched: IntCounter,
    /// Attempts to fetch keys that failed.
    pub keys_failed: IntCounter,
    /// Attempts to fetch Wasm modules, by what came of them.
    pub modules: IntCounterVec,
    /// Reviews of access to Secrets, by what came of them.
    pub access_reviews: IntCounterVec,
    /// Objects that hold roots of the mesh, by kind and by what became of a write.
    pub root_writes: IntCounterVec,
    /// What became of deployments of Gateways, by result.
    pub deployments: IntCounterVec,
    /// Documents that were refused.
    pub rejected_configs: IntCounterVec,
    /// Endpoints of Kubernetes that are not as they should be.
    pub slices: Slices,
    /// VirtualServices of which another one has a host.
    hosts_taken: IntGauge,
    /// Subsets of DestinationRules that are defined before.
    subsets_taken: IntGauge,
    /// Of the sources of configuration.
    pub sources: Sources,
    /// Services known.
    pub services: IntGauge,
    /// VirtualServices known.
    pub virtual_services: IntGauge,
    /// Responses that a proxy did not answer in time.
    pub write_timeouts: IntCounter,
    /// Streams refused by admission.
    pub refused_streams: IntCounter,
    /// Connections that the server did not take or did not keep, by reason.
    pub cut_connections: IntCounterVec,
    /// TLS handshakes that are under way.
    pub handshakes: IntGauge,
    /// TLS handshakes that ended, by result.
    pub ended_handshakes: IntCounterVec,
    /// Callers that proved who they are, by authenticator.
    pub authenticated: IntCounterVec,
    /// Callers that did not, by reason.
    pub unauthenticated: IntCounterVec,
    /// Streams ended because they passed a limit.
    pub limited_streams: IntCounter,
    /// Log lines about clients that were left out.
    pub quieted: IntCounter,
    /// Log lines that were not written in time.
    dropped_lines: IntCounter,
    /// How many of them were counted.
    dropped_lines_seen: AtomicU64,
    /// Seconds of each stage of a push.
    pub stages: Stages,
    /// Queries evaluated.
    pub evaluations: IntCounter,
    /// Memos kept.
    pub memos: IntGauge,
    /// Distinct views.
    pub views: IntGauge,
    /// The store's revision.
    pub revision: IntGauge,
    /// Proxies that are served what they had before the start.
    pub warm_proxies: IntGauge,
    /// Starts at which what was saved could not be used, by reason.
    pub warm_ignored: IntCounterVec,
    /// Bytes written for the next start.
    pub warm_saved: IntCounter,
    /// Saves that failed.
    pub warm_failures: IntCounter,
    /// Bytes of the file.
    pub warm_size: IntGauge,
    /// Of the CA.
    pub authority: Authority,
    /// Of remote clusters.
    pub remotes: Remotes,
    /// Registries outside of Kubernetes.
    pub registries: Registries,
    /// Of certificates by ACME.
    pub acme: Acme,
    /// Of certificates made for workloads.
    pub certificates: Certificates,
    /// Of what is written into an API.
    pub writing: Writing,
    /// Of admission webhooks.
    pub webhooks: Webhooks,
    /// Seconds from start to ready.
    pub startup: Gauge,
    /// Seconds since the start.
    uptime: Gauge,
    started: Instant,
}

/// The version of the control plane, as pilot_info and under the name that Istio's dashboards ask for.
fn versions(registry: &Registry) -> prometheus::Result<()> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const HELP: &str = "Version of the control plane.";
    let info = IntGaugeVec::new(Opts::new("pilot_info", HELP), &["version"])?;
    info.with_label_values(&[VERSION]).set(1);
    registry.register(Box::new(info))?;
    let build = IntGaugeVec::new(Opts::new("istio_build", HELP), &["component", "tag"])?;
    build.with_label_values(&["pilot", VERSION]).set(1);
    registry.register(Box::new(build))
}

impl Metrics {
    /// Registers everything.
    ///
    /// # Errors
    ///
    /// If a name is given twice: a bug.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let r = &registry;
        let metrics = Self {
            by_type: OfType::all(r)?,
            connected: {
                let gauge =
                    IntGaugeVec::new(Opts::new("pilot_xds", "Connected proxies."), &["version"])?;
                r.register(Box::new(gauge.clone()))?;
                Connected::new(gauge)
            },
            events: Events::new(r)?,
            convergence: histogram(
                r,
                "pilot_proxy_convergence_time",
                "Seconds from a change to its acknowledgement by a proxy.",
            )?,
            internal_errors: counter(
                r,
                "pilot_total_xds_internal_errors",
                "Faults of the control plane itself; panics caught are among them.",
            )?,
            sources: Sources::new(r)?,
            findings: {
                let gauge = IntGaugeVec::new(
                    Opts::new(
                        "pilothouse_findings",
                        "Parts of the configuration that cannot be honoured for connected proxies, by level.",
                    ),
                    &["level"],
                )?;
                r.register(Box::new(gauge.clone()))?;
                gauge
            },
            analysis: {
                let gauge = IntGaugeVec::new(
                    Opts::new(
                        "pilothouse_analysis_findings",
                        "Problems that analysis finds in the configuration, by code and level.",
                    ),
                    &["code", "level"],
                )?;
                r.register(Box::new(gauge.clone()))?;
                gauge
            },
            registration: Registrations::new(r)?,
            access_reviews: counters_of(
                r,
                "pilothouse_access_reviews_total",
                "Reviews of who may read Secrets, by result: allowed, denied or failed.",
                "result",
                &["allowed", "denied", "failed"],
            )?,
            root_writes: {
                let writes = IntCounterVec::new(
                    Opts::new(
                        "pilothouse_root_writes_total",
                        "Writes of the mesh's roots into objects, by kind and result: written, failed (tried again), refused or contended.",
                    ),
                    &["kind", "result"],
                )?;
                r.register(Box::new(writes.clone()))?;
                writes
            },
            deployments: counters_of(
                r,
                "pilothouse_gateway_deployments_total",
                "Deployments of Gateways and creations of GatewayClasses, by result: applied, foreign, failed (tried again), refused or contended.",
                "result",
                &["applied", "foreign", "failed", "refused", "contended"],
            )?,
            keys_fetched: counter(
                r,
                "pilot_jwks_resolver_network_fetch_success_total",
                "Keys of token issuers fetched.",
            )?,
            keys_failed: counter(
                r,
                "pilot_jwks_resolver_network_fetch_fail_total",
                "Attempts to fetch keys of token issuers that failed.",
            )?,
            modules: counters_of(
                r,
                "pilothouse_wasm_fetches_total",
                "Attempts to fetch Wasm modules, by result: fetched or failed.",
                "result",
                &["fetched", "failed"],
            )?,
            rejected_configs: counters_of(
                r,
                "pilot_total_rejected_configs",
                "Objects refused, by kind.",
                "type",
                &model::Kind::ALL
                    .iter()
                    .map(|kind| kind.name())
                    .collect::<Vec<_>>(),
            )?,
            slices: Slices::new(r)?,
            hosts_taken: gauge(
                r,
                "pilot_vservice_dup_domain",
                "Hosts of VirtualServices that another VirtualService has, for connected proxies.",
            )?,
            subsets_taken: gauge(
                r,
                "pilot_destrule_subsets",
                "Subsets of DestinationRules whose names are defined before, for connected proxies.",
            )?,
            write_timeouts: counter(
                r,
                "pilot_xds_write_timeout",
                "Responses that a proxy did not answer in time, upon which it was disconnected.",
            )?,
            services: gauge(r, "pilot_services", "Services known.")?,
            virtual_services: gauge(r, "pilot_virt_services", "VirtualServices known.")?,
            refused_streams: counter(
                r,
                "pilothouse_refused_streams_total",
                "Streams refused by admission.",
            )?,
            cut_connections: counters_of(
                r,
                "pilothouse_cut_connections_total",
                "Connections of proxies that were refused or closed, by reason: limit, handshakes (too many), system (could not be accepted), slow, stalled.",
                "reason",
                &["limit", "handshakes", "system", "slow", "stalled"],
            )?,
            handshakes: gauge(
                r,
                "pilothouse_tls_handshakes",
                "TLS handshakes of proxies that are under way.",
            )?,
            ended_handshakes: counters_of(
                r,
                "pilothouse_tls_handshakes_total",
                "TLS handshakes of proxies that ended, by result: ok, certificate (refused), protocol, slow, gone.",
                "result",
                &["ok", "certificate", "protocol", "slow", "gone"],
            )?,
            authenticated: counters(
                r,
                "pilothouse_authenticated_total",
                "Callers that proved who they are, by authenticator.",
                "authenticator",
            )?,
            unauthenticated: counters_of(
                r,
                "pilothouse_unauthenticated_total",
                "Callers that were turned away because they did not prove who they are, by reason.",
                "reason",
                &identity::Reason::ALL.map(identity::Reason::as_str),
            )?,
            limited_streams: counter(
                r,
                "pilothouse_limited_streams_total",
                "Streams ended because the client exceeded a limit.",
            )?,
            quieted: counter(
                r,
                "pilothouse_suppressed_log_lines_total",
                "Log lines caused by clients that were suppressed because there were too many.",
            )?,
            dropped_lines: counter(
                r,
                "pilothouse_log_lines_dropped_total",
                "Log lines that were dropped because whoever reads the log did not take them in time.",
            )?,
            dropped_lines_seen: AtomicU64::new(0),
            stages: Stages::new(r)?,
            evaluations: counter(r, "pilothouse_evaluations_total", "Queries evaluated.")?,
            memos: gauge(r, "pilothouse_memos", "Derived values kept.")?,
            views: gauge(
                r,
                "pilothouse_views",
                "Distinct views of the connected proxies.",
            )?,
            revision: gauge(r, "pilothouse_revision", "Batches applied to the store.")?,
            warm_proxies: gauge(
                r,
                "pilothouse_warm_proxies",
                "Proxies that are served their last configuration from disk until the sources have been read.",
            )?,
            warm_ignored: counters(
                r,
                "pilothouse_warm_ignored_total",
                "Saved resources that were not used at the start, by reason.",
                "reason",
            )?,
            warm_saved: counter(
                r,
                "pilothouse_warm_saved_bytes_total",
                "Bytes written to disk for the next start.",
            )?,
            warm_failures: counter(
                r,
                "pilothouse_warm_failures_total",
                "Attempts to save for the next start that failed.",
            )?,
            warm_size: gauge(
                r,
                "pilothouse_warm_file_bytes",
                "Size of the file for the next start.",
            )?,
            authority: Authority::new(r)?,
            remotes: Remotes::new(r)?,
            registries: Registries::new(r)?,
            acme: Acme::new(r)?,
            certificates: Certificates::new(r)?,
            writing: Writing::new(r)?,
            webhooks: Webhooks::new(r)?,
            startup: {
                let seconds =
                    Gauge::new("startup_duration_seconds", "Seconds from start to ready.")?;
                r.register(Box::new(seconds.clone()))?;
                seconds
            },
            uptime: {
                let seconds = Gauge::new("istiod_uptime_seconds", "Seconds since the start.")?;
                r.register(Box::new(seconds.clone()))?;
                seconds
            },
            started: Instant::now(),
            registry,
        };
        versions(&metrics.registry)?;
        #[cfg(target_os = "linux")]
        metrics.registry.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ))?;
        Ok(metrics)
    }

    /// Those of a type.
    pub fn of_type(&self, ty: TypeUrl) -> &OfType {
        &self.by_type[ty]
    }

    /// The exposition text.
    ///
    /// # Errors
    ///
    /// If a metric does not encode: a bug.
    pub fn text(&self) -> prometheus::Result<String> {
        self.uptime.set(self.started.elapsed().as_secs_f64());
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// Takes over how many lines of the log were dropped since the process began.
    pub(crate) fn note_dropped_lines(&self, total: u64) {
        let before = self.dropped_lines_seen.fetch_max(total, Ordering::Relaxed);
        self.dropped_lines.inc_by(total.saturating_sub(before));
    }

    /// Takes over how many findings analysis has. Every code is there, that of none with 0.
    pub fn analysed<'a>(&self, findings: impl Iterator<Item = &'a Diagnostic>) {
        let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for code in analysis::code::ALL {
            counts.insert((code.id, level(code.severity)), 0);
        }
        for finding in findings {
            *counts
                .entry((finding.code, level(finding.severity)))
                .or_default() += 1;
        }
        for ((code, level), count) in counts {
            self.analysis.with_label_values(&[code, level]).set(count);
        }
    }

    /// Counts a batch.
    pub fn batch(&self, batch: &Batch) {
        self.events.see(batch);
        let times = [
            (&self.stages.apply, batch.apply),
            (&self.stages.dirty, batch.dirty),
            (&self.stages.evaluate, batch.evaluate),
            (
                &self.stages.publish,
                batch.generate.saturating_sub(batch.dirty + batch.evaluate),
            ),
        ];
        for (stage, time) in times {
            stage.observe(time.as_secs_f64());
        }
        for (level, count) in [
            ("error", batch.findings.errors),
            ("warning", batch.findings.warnings),
        ] {
            self.findings.with_label_values(&[level]).set(count);
        }
        self.hosts_taken.set(batch.findings.hosts_taken);
        self.subsets_taken.set(batch.findings.subsets_taken);
        self.evaluations.inc_by(batch.runs);
        self.internal_errors.inc_by(batch.panics);
        self.revision
            .set(i64::try_from(batch.revision).unwrap_or(i64::MAX));
    }
}

/// The value of `level` of metrics about findings.
fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn counter(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntCounter> {
    let counter = IntCounter::new(name, help)?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
) -> prometheus::Result<IntCounterVec> {
    let counters = IntCounterVec::new(Opts::new(name, help), &[label])?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

/// The same, of a label whose values are known: each is there from the start.
fn counters_of(
    registry: &Registry,
    name: &str,
    help: &str,
    label: &str,
    values: &[&str],
) -> prometheus::Result<IntCounterVec> {
    let counters = counters(registry, name, help, label)?;
    for value in values {
        counters.with_label_values(&[value]);
    }
    Ok(counters)
}

fn gauge(registry: &Registry, name: &str, help: &str) -> prometheus::Result<IntGauge> {
    let gauge = IntGauge::new(name, help)?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

fn histogram(registry: &Registry, name: &str, help: &str) -> prometheus::Result<Histogram> {
    let histogram =
        Histogram::with_opts(HistogramOpts::new(name, help).buckets(LATENCY_BUCKETS.to_vec()))?;
    registry.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_by_a_known_label_is_there_from_the_start() {
        let text = Metrics::new().unwrap().text().unwrap();
        for line in [
            "pilot_k8s_cfg_events{event=\"add\",type=\"VirtualService\"} 0",
            "pilot_k8s_reg_events{event=\"delete\",type=\"EndpointSlice\"} 0",
            "pilot_inbound_updates{type=\"eds\"} 0",
            "pilot_push_triggers{type=\"global\"} 0",
            "pilot_total_rejected_configs{type=\"Gateway\"} 0",
            "pilot_xds_write_timeout 0",
            "pilothouse_rejecting_proxies{type=\"lds\"} 0",
            "pilothouse_silent_proxies{type=\"cds\"} 0",
            "pilothouse_cut_connections_total{reason=\"slow\"} 0",
            "galley_validation_passed{group=\"networking.istio.io\",resource=\"sidecars\",version=\"v1\"} 0",
            "citadel_server_csr_sign_err_count{error=\"CSR_ERROR\"} 0",
            "remote_cluster_secret_events_total{event=\"add\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    #[test]
    fn names_are_exposed_as_istio_has_them() {
        let metrics = Metrics::new().unwrap();
        metrics.of_type(TypeUrl::Cluster).pushes.inc();
        let text = metrics.text().unwrap();
        assert!(text.contains("pilot_xds_pushes{type=\"cds\"} 1"), "{text}");
        assert!(text.contains("pilot_services 0"));
        metrics.of_type(TypeUrl::Cluster).push_time.observe(0.1);
        let text = metrics.text().unwrap();
        assert!(text.contains("pilot_xds_push_time_count{type=\"cds\"} 1"));
        assert!(text.contains("\nistiod_uptime_seconds "));
    }
}
