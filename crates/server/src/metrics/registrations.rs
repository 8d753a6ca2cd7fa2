//! Figures of workloads that register themselves, under Istio's names.

use prometheus::{IntCounter, Registry};

use super::counter;

/// Workloads that register themselves.
pub struct Registrations {
    /// Entries made.
    pub registered: IntCounter,
    /// Entries whose workload came again.
    pub updated: IntCounter,
    /// Entries whose workload disconnected.
    pub unregistered: IntCounter,
    /// Entries deleted.
    pub deleted: IntCounter,
    /// Claims refused, and writes that failed.
    pub failed: IntCounter,
}

impl Registrations {
    pub(super) fn new(r: &Registry) -> prometheus::Result<Self> {
        let total =
            |name: &str, help: &str| counter(r, &format!("auto_registration_{name}_total"), help);
        Ok(Self {
            registered: total(
                "success",
                "WorkloadEntries made for workloads that connected.",
            )?,
            updated: total(
                "updates",
                "Workloads with a WorkloadEntry that connected again.",
            )?,
            unregistered: total("unregister", "Registered workloads that disconnected.")?,
            deleted: total(
                "deletes",
                "WorkloadEntries deleted because their workloads did not come back.",
            )?,
            failed: total(
                "errors",
                "Workloads that could not be registered, and WorkloadEntries that could not be written at once.",
            )?,
        })
    }
}
