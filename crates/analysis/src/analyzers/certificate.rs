//! What a gateway would show from a Secret.

use model::kinds::kube::Secret;
use model::x509::{Validity, certificate, pem};

/// Why a Secret has no certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// None of the pairs of keys that are looked for is there and filled.
    NoPair,
    /// What is there is no certificate.
    NoCertificate,
}

/// The validity of the first certificate that a gateway would show from a Secret.
///
/// Istio: pilot/pkg/credentials/kube/secrets.go ExtractCertInfo, pilot/pkg/xds/sds.go ValidateCertificate, 1.32.
pub(super) fn of_secret(secret: &Secret) -> Result<Validity, Fault> {
    let filled = |key: &str| secret.data.get(key).filter(|v| !v.is_empty());
    let pair = [("cert", "key"), ("tls.crt", "tls.key")]
        .into_iter()
        .find_map(|(certificate, key)| filled(key).and(filled(certificate)));
    let chain = pair.ok_or(Fault::NoPair)?;
    let text = std::str::from_utf8(chain).map_err(|_| Fault::NoCertificate)?;
    let first = pem(text).next().and_then(|block| block.der());
    let first = first.ok_or(Fault::NoCertificate)?;
    let read = certificate(&first).ok_or(Fault::NoCertificate)?;
    Ok(read.validity)
}
