//! Metrics of the CA, by Istio's names.

use std::time::{SystemTime, UNIX_EPOCH};

use ca::State;
use prometheus::{Gauge, IntCounter, IntCounterVec, Opts, Registry};

/// Metrics of the CA.
// Istio: security/pkg/server/ca/monitoring.go, 1.32.
pub struct Authority {
    /// Requests received.
    pub requests: IntCounter,
    /// Requests of nobody who could prove an identity.
    pub unauthenticated: IntCounter,
    /// Requests that could not be read.
    pub unreadable: IntCounter,
    /// Requests whose caller has no names.
    pub nameless: IntCounter,
    /// Requests that were not signed, by why.
    pub unsigned: IntCounterVec,
    /// Certificates signed.
    pub signed: IntCounter,
    root_expires: Gauge,
    root_left: Gauge,
    chain_expires: Gauge,
    chain_left: Gauge,
}

impl Authority {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = Gauge::with_opts(Opts::new(name, help))?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        Ok(Self {
            requests: counter("citadel_server_csr_count", "Certificate signing requests.")?,
            unauthenticated: counter(
                "citadel_server_authentication_failure_count",
                "Certificate signing requests of nobody who could prove an identity.",
            )?,
            unreadable: counter(
                "citadel_server_csr_parsing_err_count",
                "Certificate signing requests that could not be read.",
            )?,
            nameless: counter(
                "citadel_server_id_extraction_err_count",
                "Certificate signing requests whose caller has no names.",
            )?,
            unsigned: super::counters_of(
                registry,
                "citadel_server_csr_sign_err_count",
                "Certificate signing requests that were not signed, by error.",
                "error",
                &["CA_NOT_READY", "CSR_ERROR", "TTL_ERROR", "CERT_GEN_ERROR"],
            )?,
            signed: counter(
                "citadel_server_success_cert_issuance_count",
                "Certificates that were signed.",
            )?,
            root_expires: gauge(
                "citadel_server_root_cert_expiry_timestamp",
                "When the first root expires, in seconds since 1970.",
            )?,
            root_left: gauge(
                "citadel_server_root_cert_expiry_seconds",
                "Seconds until the first root expires; negative if it has.",
            )?,
            chain_expires: gauge(
                "citadel_server_cert_chain_expiry_timestamp",
                "When the first certificate of the CA's chain expires, in seconds since 1970.",
            )?,
            chain_left: gauge(
                "citadel_server_cert_chain_expiry_seconds",
                "Seconds until the first certificate of the CA's chain expires; negative if it has.",
            )?,
        })
    }

    /// Takes in how the CA is.
    pub fn set_state(&self, state: &State, now: SystemTime) {
        let set = |time: Option<SystemTime>, at: &Gauge, left: &Gauge| {
            let Some(time) = time else {
                return;
            };
            at.set(seconds(time));
            left.set(seconds(time) - seconds(now));
        };
        set(state.root_expires, &self.root_expires, &self.root_left);
        set(state.chain_expires, &self.chain_expires, &self.chain_left);
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
