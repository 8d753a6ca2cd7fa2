//! What changes, by istiod's names: events of objects, and the reasons for which proxies are told.
// Istio: pilot/pkg/xds/monitoring.go, pilot/pkg/config/kube/crdclient/monitoring.go,
// pilot/pkg/serviceregistry/kube/controller/controller.go, 1.32.

use std::sync::{Arc, Mutex, PoisonError};

use model::Kind;
use prometheus::{Histogram, IntCounterVec, Opts, Registry};
use store::{Reason, Snapshot};

use super::{counters_of, histogram};
use crate::derive::Batch;

/// The kinds that istiod counts as events of its registry.
const IN_REGISTRY: [Kind; 5] = [
    Kind::Service,
    Kind::EndpointSlice,
    Kind::Pod,
    Kind::Node,
    Kind::Namespace,
];
/// What happens to an object.
const EVENTS: [&str; 3] = ["add", "update", "delete"];
/// Every reason.
const REASONS: [Reason; 5] = [
    Reason::Config,
    Reason::Service,
    Reason::Endpoint,
    Reason::Global,
    Reason::Secret,
];

/// What changes.
pub struct Events {
    config: IntCounterVec,
    registry: IntCounterVec,
    updates: IntCounterVec,
    triggers: IntCounterVec,
    waits: Histogram,
    /// The objects before the next batch.
    before: Mutex<Option<Arc<Snapshot>>>,
}

impl Events {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let events = |name: &str, help: &str, kinds: &[Kind]| {
            let events = IntCounterVec::new(Opts::new(name, help), &["type", "event"])?;
            registry.register(Box::new(events.clone()))?;
            for kind in kinds {
                for event in EVENTS {
                    events.with_label_values(&[kind.name(), event]);
                }
            }
            Ok::<_, prometheus::Error>(events)
        };
        Ok(Self {
            config: events(
                "pilot_k8s_cfg_events",
                "Changes of objects, by kind and by what became of them.",
                Kind::ALL,
            )?,
            registry: events(
                "pilot_k8s_reg_events",
                "Changes of objects that services and workloads are made of, by kind and by what became of them.",
                &IN_REGISTRY,
            )?,
            updates: counters_of(
                registry,
                "pilot_inbound_updates",
                "Changes of configuration, services and endpoints that concern what proxies get.",
                "type",
                &REASONS.map(update_label),
            )?,
            triggers: counters_of(
                registry,
                "pilot_push_triggers",
                "Changes that led to pushes, by reason.",
                "type",
                &REASONS.map(trigger_label),
            )?,
            waits: histogram(
                registry,
                "pilot_debounce_time",
                "Seconds that the oldest change of a batch waited until the batch was worked on.",
            )?,
            before: Mutex::default(),
        })
    }

    /// Counts a batch.
    pub(super) fn see(&self, batch: &Batch) {
        let before = {
            let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
            before.replace(batch.snapshot.clone())
        };
        for key in &batch.changes.objects {
            let is_there = |snapshot: &Snapshot| {
                let object = snapshot.tables.get_any(key.kind, &key.name);
                object.is_some()
            };
            let was_there = before.as_deref().is_some_and(is_there);
            let event = match (was_there, is_there(&batch.snapshot)) {
                (false, true) => "add",
                (true, true) => "update",
                (_, false) => "delete",
            };
            let labels = [key.kind.name(), event];
            self.config.with_label_values(&labels).inc();
            if IN_REGISTRY.contains(&key.kind) {
                self.registry.with_label_values(&labels).inc();
            }
        }
        for (reason, count) in &batch.changes.reasons {
            let update = self.updates.with_label_values(&[update_label(*reason)]);
            update.inc_by(*count);
            let trigger = self.triggers.with_label_values(&[trigger_label(*reason)]);
            trigger.inc_by(*count);
        }
        if !batch.changes.is_empty() {
            let worked = batch.apply + batch.generate;
            let waited = batch.since.elapsed().saturating_sub(worked);
            self.waits.observe(waited.as_secs_f64());
        }
    }
}

/// The value of `type` in `pilot_inbound_updates`.
fn update_label(reason: Reason) -> &'static str {
    match reason {
        Reason::Config | Reason::Global | Reason::Secret => "config",
        Reason::Service => "svc",
        Reason::Endpoint => "eds",
    }
}

/// The value of `type` in `pilot_push_triggers`.
fn trigger_label(reason: Reason) -> &'static str {
    match reason {
        Reason::Config => "config",
        Reason::Service => "service",
        Reason::Endpoint => "endpoint",
        Reason::Global => "global",
        Reason::Secret => "secret",
    }
}
