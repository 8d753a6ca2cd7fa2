//! Of the webhooks that are served. Names and labels are istiod's.
// Istio: pkg/kube/inject/monitoring.go, pkg/webhooks/validation/server/monitoring.go, 1.32.

use admission::Reason;
use model::Kind;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry};

/// Metrics of admission webhooks.
pub struct Webhooks {
    /// Requests for injection.
    pub injections: IntCounter,
    /// Of these, those that were answered.
    pub injected: IntCounter,
    /// Of these, those that could not be.
    pub injection_failures: IntCounter,
    /// Of these, those about pods that get nothing.
    pub injections_skipped: IntCounter,
    /// How long injection took.
    pub injection_time: Histogram,
    /// Objects that are valid, by group, version and resource.
    pub passed: IntCounterVec,
    /// Objects that are not, by reason as well.
    pub failed: IntCounterVec,
    /// Requests for validation that were none, by status.
    pub http_errors: IntCounterVec,
}

impl Webhooks {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        const BUCKETS: [f64; 8] = [0.1, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0];
        let of_resource = ["group", "version", "resource"];
        let time = HistogramOpts::new(
            "sidecar_injection_time_seconds",
            "Seconds that sidecar injection took.",
        );
        let metrics = Self {
            injections: IntCounter::new(
                "sidecar_injection_requests_total",
                "Requests for sidecar injection.",
            )?,
            injected: IntCounter::new(
                "sidecar_injection_success_total",
                "Requests for sidecar injection that were answered.",
            )?,
            injection_failures: IntCounter::new(
                "sidecar_injection_failure_total",
                "Requests for sidecar injection that failed.",
            )?,
            injections_skipped: IntCounter::new(
                "sidecar_injection_skip_total",
                "Requests for sidecar injection into pods that get none.",
            )?,
            injection_time: Histogram::with_opts(time.buckets(BUCKETS.to_vec()))?,
            passed: IntCounterVec::new(
                Opts::new("galley_validation_passed", "Objects that are valid."),
                &of_resource,
            )?,
            failed: IntCounterVec::new(
                Opts::new("galley_validation_failed", "Objects that are not valid."),
                &["group", "version", "resource", "reason"],
            )?,
            http_errors: IntCounterVec::new(
                Opts::new(
                    "galley_validation_http_error",
                    "Requests for validation that are none, by HTTP status.",
                ),
                &["status"],
            )?,
        };
        let all: [Box<dyn prometheus::core::Collector>; 8] = [
            Box::new(metrics.injections.clone()),
            Box::new(metrics.injected.clone()),
            Box::new(metrics.injection_failures.clone()),
            Box::new(metrics.injections_skipped.clone()),
            Box::new(metrics.injection_time.clone()),
            Box::new(metrics.passed.clone()),
            Box::new(metrics.failed.clone()),
            Box::new(metrics.http_errors.clone()),
        ];
        for collector in all {
            registry.register(collector)?;
        }
        for kind in Kind::ALL
            .iter()
            .filter(|kind| kind.group().ends_with(".istio.io"))
        {
            let [version, ..] = kind.versions() else {
                continue;
            };
            let labels = [kind.group(), *version, kind.plural()];
            metrics.passed.with_label_values(&labels);
            let [group, version, resource] = labels;
            let labels = [group, version, resource, Reason::Invalid.name()];
            metrics.failed.with_label_values(&labels);
        }
        Ok(metrics)
    }
}
