//! Figures of certificates by ACME.

use acme::{Row, State};
use prometheus::{Gauge, IntCounterVec, IntGaugeVec, Opts, Registry};

/// Certificates by ACME.
pub struct Acme {
    certificates: IntGaugeVec,
    expires: Gauge,
    /// What came of attempts to have one issued or revoked.
    pub attempts: IntCounterVec,
}

impl Acme {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let certificates = Opts::new(
            "pilothouse_acme_certificates",
            "Certificates that are ordered here, by how it stands with them.",
        );
        let certificates = IntGaugeVec::new(certificates, &["state"])?;
        let expires = Gauge::new(
            "pilothouse_acme_first_expiry_timestamp_seconds",
            "When the first of these certificates expires, in seconds since 1970; 0 without any.",
        )?;
        let attempts = Opts::new(
            "pilothouse_acme_attempts_total",
            "Attempts to have a certificate issued or revoked, by what came of them.",
        );
        let attempts = IntCounterVec::new(attempts, &["result"])?;
        registry.register(Box::new(certificates.clone()))?;
        registry.register(Box::new(expires.clone()))?;
        registry.register(Box::new(attempts.clone()))?;
        Ok(Self {
            certificates,
            expires,
            attempts,
        })
    }

    /// Takes in how it stands with each.
    pub fn set(&self, rows: &[Row]) {
        for state in State::ALL {
            let count = rows.iter().filter(|row| row.state == state).count();
            let gauge = self.certificates.with_label_values(&[state.name()]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let first = rows.iter().filter_map(|row| row.not_after).min();
        let since = first.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        self.expires
            .set(since.map_or(0.0, |since| since.as_secs_f64()));
    }
}
