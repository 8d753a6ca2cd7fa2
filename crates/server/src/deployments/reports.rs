//! What is told of deployments: findings, log lines and counters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inject::gateway::Undeployed;
use model::{Diagnostic, Kind, ObjectKey, ObjectName, Severity};
use writeback::ObjectRef;
use writeback::objects;
use writeback::sets::{Event, Listener, Sets};

use super::plan::Plan;
use crate::metrics::Metrics;
use crate::writing::{Figures, Told};

/// Nothing can be deployed for a Gateway.
const FAULT: &str = "PIL0805";
/// Its author asks for what only the operator may set.
const RESERVED: &str = "PIL0424";
/// Objects of its names are somebody else's.
const FOREIGN: &str = "PIL0806";
/// The API refuses what is to be deployed.
const REFUSED: &str = "PIL0807";
/// Others keep changing what is deployed.
const CONTENDED: &str = "PIL0808";

/// How many Gateways are kept of which there is something to say.
const MOST_FINDINGS: usize = 1000;

/// What there is to say about Gateways.
pub(super) struct Reports {
    told: Told,
    found: Mutex<BTreeMap<ObjectName, (&'static str, String)>>,
}

impl Reports {
    /// Nothing yet.
    pub(super) fn new(told: Told) -> Self {
        Self {
            told,
            found: Mutex::default(),
        }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<ObjectName, (&'static str, String)>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what cannot be planned, and forgets Gateways that are no more.
    pub(super) fn planned(&self, plan: &Plan, sets: &Sets) {
        let mut found = self.found();
        let before = found.clone();
        found.retain(|name, (code, _)| {
            ![FAULT, RESERVED].contains(code)
                && sets.contains_key(&ObjectRef::of(Kind::KubeGateway, name))
        });
        for (name, why) in plan.faults().take(MOST_FINDINGS) {
            let message = format!("its proxies cannot be deployed: {why}");
            let code = match why {
                Undeployed::Reserved(_) => RESERVED,
                Undeployed::Fault(_) => FAULT,
            };
            found.insert(name.clone(), (code, message));
        }
        let differs = *found != before;
        drop(found);
        if differs {
            self.tell();
        }
    }

    /// Takes in what became of a Gateway.
    fn became(&self, gateway: &ObjectRef, what: Option<(&'static str, String)>) {
        let name = ObjectName::new(&*gateway.namespace, &*gateway.name);
        let mut found = self.found();
        if found.get(&name) == what.as_ref() {
            return;
        }
        match what {
            Some(_) if found.len() >= MOST_FINDINGS && !found.contains_key(&name) => return,
            Some(what) => _ = found.insert(name, what),
            None => _ = found.remove(&name),
        }
        drop(found);
        self.tell();
    }

    fn tell(&self) {
        let found = self.found();
        let all = found.iter().map(|(name, (code, message))| {
            let mut finding = Diagnostic::new(code, Severity::Warning, message.clone());
            finding.object = Some(ObjectKey {
                kind: Kind::KubeGateway,
                name: name.clone(),
            });
            finding
        });
        let all = all.collect();
        drop(found);
        (self.told)(all);
    }
}

/// Counts what a writer of sets tells, and says what people have to know.
pub(super) fn of_sets(
    reports: &Arc<Reports>,
    figures: &Arc<Mutex<Figures>>,
    metrics: &Arc<Metrics>,
) -> Listener {
    let (reports, figures, metrics) = (reports.clone(), figures.clone(), metrics.clone());
    Arc::new(move |event: Event<'_>| {
        let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Applied(_) => figures.written += 1,
            Event::Refused(..) => figures.refused += 1,
            Event::Foreign(..) | Event::Contended(..) => figures.contended += 1,
            Event::Failed(..) => figures.failed += 1,
        }
        drop(figures);
        let (gateway, result, what) = match event {
            Event::Applied(gateway) => (gateway, "applied", None),
            Event::Foreign(gateway, objects) => {
                let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
                let objects = objects.join(", ");
                let message = format!(
                    "what it is to be deployed as is there already and was made by somebody else, who keeps it: {objects}"
                );
                (gateway, "foreign", Some((FOREIGN, message)))
            }
            Event::Refused(gateway, object, error, _) => {
                let message = format!("{object} cannot be deployed for it: {error}");
                (gateway, "refused", Some((REFUSED, message)))
            }
            Event::Contended(gateway, truce) => {
                let message = format!(
                    "another controller keeps changing what is deployed for it, and is let be for {} s",
                    truce.as_secs()
                );
                (gateway, "contended", Some((CONTENDED, message)))
            }
            Event::Failed(gateway, object, error) => {
                tracing::debug!(%gateway, %object, %error, "A Gateway could not be deployed; it is tried again.");
                metrics.deployments.with_label_values(&["failed"]).inc();
                return;
            }
        };
        metrics.deployments.with_label_values(&[result]).inc();
        reports.became(gateway, what);
    })
}

/// Logs and counts what a writer of GatewayClasses tells.
pub(super) fn of_classes(
    figures: &Arc<Mutex<Figures>>,
    metrics: &Arc<Metrics>,
) -> objects::Listener {
    let (figures, metrics) = (figures.clone(), metrics.clone());
    Arc::new(move |event: objects::Event<'_>| {
        let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match event {
            objects::Event::Written(object) => {
                figures.written += 1;
                tracing::info!(%object, "A GatewayClass was created.");
                "applied"
            }
            objects::Event::Refused(object, error, _) => {
                figures.refused += 1;
                tracing::warn!(%object, %error, "A GatewayClass cannot be created.");
                "refused"
            }
            objects::Event::Contended(..) => {
                figures.contended += 1;
                "contended"
            }
            objects::Event::Failed(object, error) => {
                figures.failed += 1;
                tracing::debug!(%object, %error, "A GatewayClass could not be created; it is tried again.");
                "failed"
            }
        };
        metrics.deployments.with_label_values(&[result]).inc();
    })
}
