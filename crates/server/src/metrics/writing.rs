//! What is written into an API.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// Metrics of what is written, by lock.
pub struct Writing {
    /// Whether this replica leads.
    pub leader: IntGaugeVec,
    /// Statuses, by what became of them.
    pub statuses: IntCounterVec,
    /// Statuses that wait to be written.
    pub waiting: IntGaugeVec,
}

impl Writing {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            leader: IntGaugeVec::new(
                Opts::new(
                    "leader_election_master_status",
                    "1 while this replica leads, by lock.",
                ),
                &["name"],
            )?,
            statuses: IntCounterVec::new(
                Opts::new(
                    "pilothouse_status_writes_total",
                    "Statuses of objects by lock and result: written, failed (tried again), refused or contended.",
                ),
                &["name", "result"],
            )?,
            waiting: IntGaugeVec::new(
                Opts::new(
                    "pilothouse_status_waiting",
                    "Statuses that wait to be written, by lock.",
                ),
                &["name"],
            )?,
        };
        registry.register(Box::new(metrics.leader.clone()))?;
        registry.register(Box::new(metrics.statuses.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        Ok(metrics)
    }
}
