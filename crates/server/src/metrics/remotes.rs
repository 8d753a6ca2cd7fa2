//! Metrics of remote clusters, by Istio's names.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use crate::remotes::{STATES, statuses};
use crate::supervisor::SourceStatus;

/// Metrics of remote clusters.
pub struct Remotes {
    /// How many clusters are read.
    pub clusters: IntGaugeVec,
    /// Clusters that took too long at first.
    pub timeouts: IntCounterVec,
    /// Kubeconfigs that came, changed and went.
    pub events: IntCounterVec,
    states: IntGaugeVec,
}

impl Remotes {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let clusters = gauges(
            "istiod_managed_clusters",
            "Clusters that are read, by type: local or remote.",
            &["cluster_type"],
        )?;
        clusters.with_label_values(&["local"]).set(1);
        clusters.with_label_values(&["remote"]).set(0);
        Ok(Self {
            clusters,
            timeouts: super::counters(
                registry,
                "remote_cluster_sync_timeouts_total",
                "Remote clusters that could not be read within PILOT_REMOTE_CLUSTER_TIMEOUT of being added.",
                "cluster",
            )?,
            events: super::counters_of(
                registry,
                "remote_cluster_secret_events_total",
                "Kubeconfigs of remote clusters that were added, changed and removed.",
                "event",
                &["add", "update", "delete"],
            )?,
            states: gauges(
                "istiod_remote_cluster_sync_status",
                "1 for the state that a remote cluster is in, else 0.",
                &["cluster", "cluster_type", "status"],
            )?,
        })
    }

    /// Takes in how far each cluster is.
    pub fn set_states(&self, sources: &[SourceStatus]) {
        self.states.reset();
        for (cluster, state) in statuses(sources) {
            for name in STATES {
                let labels = [cluster.as_str(), "remote", name];
                let gauge = self.states.with_label_values(&labels);
                gauge.set(i64::from(name == state));
            }
        }
    }
}
