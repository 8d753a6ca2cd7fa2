//! Requests for certificates, under Istio's names.

use ca::SignError;
use prometheus::{IntCounter, IntCounterVec, Registry};

use super::{counter, counters};

/// What became of requests for certificates.
pub struct Citadel {
    /// All of them.
    pub csr_count: IntCounter,
    /// Of somebody who has not proven who it is.
    pub authentication_failures: IntCounter,
    /// Whose CSR cannot be read.
    pub parsing_errors: IntCounter,
    /// That were not signed, by reason.
    pub sign_errors: IntCounterVec,
    /// That were signed.
    pub successes: IntCounter,
}

impl Citadel {
    pub(super) fn new(r: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            csr_count: counter(r, "citadel_server_csr_count", "Requests for certificates.")?,
            authentication_failures: counter(
                r,
                "citadel_server_authentication_failure_count",
                "Requests for certificates by callers that have not proven who they are.",
            )?,
            parsing_errors: counter(
                r,
                "citadel_server_csr_parsing_err_count",
                "Requests for certificates whose CSR cannot be signed.",
            )?,
            sign_errors: counters(
                r,
                "citadel_server_csr_sign_err_count",
                "Requests for certificates that were not signed, by reason.",
                "error",
            )?,
            successes: counter(
                r,
                "citadel_server_success_cert_issuance_count",
                "Certificates that were issued.",
            )?,
        })
    }

    /// A request was not signed.
    pub(crate) fn sign_error(&self, error: &SignError) {
        if matches!(error, SignError::Csr(_)) {
            self.parsing_errors.inc();
        }
        self.sign_errors.with_label_values(&[error.label()]).inc();
    }
}
