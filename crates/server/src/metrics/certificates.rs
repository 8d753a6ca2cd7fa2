//! Figures of the certificates that are made for workloads.

use prometheus::{Gauge, IntCounter, IntGauge, Registry};

use super::{counter, gauge};

/// Certificates that are made for workloads.
pub struct Certificates {
    /// Those that are there.
    pub held: IntGauge,
    /// When the first of them expires.
    pub expires: Gauge,
    /// Those made.
    pub made: IntCounter,
    /// Those that could not be made.
    pub failed: IntCounter,
}

impl Certificates {
    pub(super) fn new(r: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            held: gauge(
                r,
                "pilothouse_workload_certificates",
                "Certificates for identities of connected proxies.",
            )?,
            expires: {
                let at = Gauge::new(
                    "pilothouse_workload_certificate_first_expiry_timestamp_seconds",
                    "When the first of these certificates expires, in seconds since 1970; 0 without any.",
                )?;
                r.register(Box::new(at.clone()))?;
                at
            },
            made: counter(
                r,
                "pilothouse_workload_certificates_made_total",
                "Certificates made for identities of connected proxies, renewals included.",
            )?,
            failed: counter(
                r,
                "pilothouse_workload_certificate_failures_total",
                "Attempts to make such a certificate that failed.",
            )?,
        })
    }
}
