//! Roots that peers are judged by: as PEM, and as the bundles that SPIFFE endpoints publish.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::x509;

/// The Secrets of the control plane's namespace that a CA may be kept in. Whoever reads one can be anybody in the mesh.
pub const CA_SECRETS: [&str; 2] = ["istio-ca-secret", "cacerts"];

/// Most roots that are taken of one text.
pub const MOST_ROOTS: usize = 256;

/// The roots of the mesh's own authority.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MeshRoots {
    /// Root certificates, in PEM.
    pub roots: Arc<str>,
    /// Certificates that are revoked, in PEM.
    pub revoked: Option<Arc<str>>,
}

/// Why a text holds no roots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRoots {
    /// Nothing in PEM, or something that is no certificate.
    #[error("holds no certificate in PEM")]
    NoCertificate,
    /// A certificate that can sign none.
    #[error("holds a certificate that is no authority's")]
    NoAuthority,
    /// More than are taken.
    #[error("holds more than {MOST_ROOTS} certificates")]
    TooMany,
    /// No SPIFFE bundle: RFC 7517, with certificates of use `x509-svid`.
    #[error("is no SPIFFE bundle")]
    NoBundle,
}

/// The roots in a text of PEM, each in a text of its own that is equal for equal roots.
///
/// # Errors
///
/// When any of it is no root. Who wrote it can act.
pub fn of_pem(text: &str) -> Result<Vec<Arc<str>>, BadRoots> {
    let mut roots = Vec::new();
    for block in x509::pem(text) {
        let der = block.der().filter(|_| block.label == "CERTIFICATE");
        roots.push(root(&der.ok_or(BadRoots::NoCertificate)?)?);
        if roots.len() > MOST_ROOTS {
            return Err(BadRoots::TooMany);
        }
    }
    match roots.is_empty() {
        true => Err(BadRoots::NoCertificate),
        false => Ok(roots),
    }
}

/// The roots that a SPIFFE bundle holds.
///
/// Istio: pkg/spiffe/spiffe.go RetrieveSpiffeBundleRootCerts, 1.32.
///
/// # Errors
///
/// When it is none, or holds none. Whoever publishes it can act.
pub fn of_bundle(text: &str) -> Result<Vec<Arc<str>>, BadRoots> {
    let bundle: Value = serde_json::from_str(text).map_err(|_| BadRoots::NoBundle)?;
    let keys = bundle["keys"].as_array().ok_or(BadRoots::NoBundle)?;
    let of_certificates = keys.iter().filter(|key| key["use"] == "x509-svid");
    let mut roots = Vec::new();
    for key in of_certificates {
        let [Value::String(certificate)] = key["x5c"].as_array().map_or(&[][..], Vec::as_slice)
        else {
            return Err(BadRoots::NoBundle);
        };
        let der = STANDARD.decode(certificate).ok();
        roots.push(root(&der.ok_or(BadRoots::NoCertificate)?)?);
        if roots.len() > MOST_ROOTS {
            return Err(BadRoots::TooMany);
        }
    }
    match roots.is_empty() {
        true => Err(BadRoots::NoCertificate),
        false => Ok(roots),
    }
}

/// How soon a bundle wants to be fetched again, if it says so.
pub fn refresh_hint(bundle: &str) -> Option<Duration> {
    let bundle: Value = serde_json::from_str(bundle).ok()?;
    bundle["spiffe_refresh_hint"]
        .as_u64()
        .map(Duration::from_secs)
}

/// A root in PEM.
fn root(der: &[u8]) -> Result<Arc<str>, BadRoots> {
    let certificate = x509::certificate(der).ok_or(BadRoots::NoCertificate)?;
    if !certificate.authority {
        return Err(BadRoots::NoAuthority);
    }
    let body = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in body.as_bytes().chunks(64) {
        // Base64 is ASCII.
        pem.extend(line.iter().map(|b| char::from(*b)));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    Ok(pem.into())
}

#[cfg(test)]
mod tests;
