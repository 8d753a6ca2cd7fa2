//! Of the sources of configuration.

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// Why a run of a source does not go on.
const REASONS: [&str; 3] = ["error", "ended", "panic"];

/// Metrics of sources.
pub struct Sources {
    in_sync: IntGaugeVec,
    failures: IntCounterVec,
}

impl Sources {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let in_sync = IntGaugeVec::new(
            Opts::new(
                "pilothouse_source_in_sync",
                "1 while everything that a source holds has been read, nothing of it was refused and nothing is still as it was kept on disk; else 0.",
            ),
            &["source"],
        )?;
        registry.register(Box::new(in_sync.clone()))?;
        let failures = IntCounterVec::new(
            Opts::new(
                "pilothouse_source_failures_total",
                "Runs of a source that did not go on, by reason: error, ended or panic. It is started again.",
            ),
            &["source", "reason"],
        )?;
        registry.register(Box::new(failures.clone()))?;
        Ok(Self { in_sync, failures })
    }

    /// Takes in whether a source is in sync.
    pub fn set(&self, source: &str, in_sync: bool) {
        let gauge = self.in_sync.with_label_values(&[source]);
        gauge.set(i64::from(in_sync));
        for reason in REASONS {
            self.failures.with_label_values(&[source, reason]);
        }
    }

    /// Counts a run that did not go on.
    pub fn failed(&self, source: &str, reason: &str) {
        self.failures.with_label_values(&[source, reason]).inc();
    }

    /// How many runs did not go on for a reason.
    #[cfg(test)]
    pub(crate) fn failures(&self, source: &str, reason: &str) -> u64 {
        self.failures.with_label_values(&[source, reason]).get()
    }

    /// Whether a source is shown to be in sync.
    #[cfg(test)]
    pub(crate) fn shows_sync(&self, source: &str) -> bool {
        self.in_sync.with_label_values(&[source]).get() == 1
    }

    /// The source is there no more.
    pub fn forget(&self, source: &str) {
        // It may have been removed before it told anything.
        let _ = self.in_sync.remove_label_values(&[source]);
        for reason in REASONS {
            let _ = self.failures.remove_label_values(&[source, reason]);
        }
    }
}
