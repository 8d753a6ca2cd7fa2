//! What is logged and counted: findings of sources, and what each batch made of the objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use model::{Owner, SourceId};
use tokio_util::sync::CancellationToken;

use crate::derive::Batch;
use crate::findings::Findings;
use crate::metrics::Metrics;
use crate::quiet::{Quiet, shown};
use crate::shadows::Shadows;

/// Lines about changes, which a churn of endpoints makes many of.
static CHANGES: Quiet = Quiet::new();

/// Reports the objects that are not used because another source has them as well.
pub(super) async fn tell_shadowed(
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
pub(super) fn report(
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

/// Logs and counts what a batch did.
pub(super) fn on_batch(batch: &Batch, metrics: &Metrics) {
    metrics.batch(batch);
    for finding in &batch.found {
        match finding.severity {
            model::Severity::Error => tracing::error!("{finding}"),
            model::Severity::Warning => tracing::warn!("{finding}"),
            model::Severity::Info => tracing::debug!("{finding}"),
        }
    }
    let objects = batch.changes.objects.len();
    if objects > 0 {
        match CHANGES.take(Instant::now()) {
            Some(left_out) => {
                let (revision, proxies) = (batch.revision, batch.proxies);
                let ms = u64::try_from(batch.since.elapsed().as_millis()).unwrap_or(u64::MAX);
                let left_out = shown(left_out);
                tracing::info!(
                    revision,
                    objects,
                    proxies,
                    ms,
                    left_out,
                    "Changes are in force."
                );
            }
            None => metrics.quieted.inc(),
        }
    }
    if !batch.changes.is_empty() {
        tracing::debug!(
            revision = batch.revision,
            objects,
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
