//! Client certificates: TLS has verified the chain; here is read whose it is.
//!
//! Istio: security/pkg/server/ca/authenticate/cert_authenticator.go and pkg/spiffe/spiffe.go VerifyPeerCert, 1.32.

use std::time::SystemTime;

use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::SpiffeId;
use crate::authenticators::Authenticator;
use crate::caller::{Caller, Source};
use crate::domains::Domains;
use crate::evidence::Evidence;
use crate::refusal::{Reason, Refusal, quoted};

/// Takes the identity in a client certificate.
pub struct ClientCertificate {
    domains: Domains,
}

impl ClientCertificate {
    /// Takes identities of these trust domains.
    pub fn new(domains: Domains) -> Self {
        Self { domains }
    }

    fn judge(&self, certificates: &[CertificateDer<'_>]) -> Result<Option<Caller>, Refusal> {
        let Some(leaf) = certificates.first() else {
            return Ok(None);
        };
        let (id, until) = identity(leaf, SystemTime::now())?;
        if !self.domains.has(&id) {
            let detail = format!(
                "the certificate is of trust domain {}",
                quoted(&id.trust_domain)
            );
            return Err(Refusal::new(Reason::TrustDomain, detail));
        }
        Ok(Some(Caller {
            source: Source::ClientCertificate,
            ids: vec![id],
            pod: None,
            until: Some(until),
        }))
    }
}

impl Authenticator for ClientCertificate {
    fn name(&self) -> &'static str {
        "ClientCertAuthenticator"
    }

    fn authenticate<'a>(
        &'a self,
        evidence: &'a Evidence<'a>,
    ) -> BoxFuture<'a, Result<Option<Caller>, Refusal>> {
        Box::pin(async { self.judge(evidence.certificates) })
    }
}

/// The identity in a certificate, and when it expires. It must be valid now: it may have expired since the connection began.
fn identity(leaf: &CertificateDer<'_>, now: SystemTime) -> Result<(SpiffeId, SystemTime), Refusal> {
    let none = |detail: &str| Refusal::new(Reason::Certificate, detail);
    let malformed = |_| Refusal::new(Reason::Malformed, "the client certificate cannot be read");
    let certificate = Certificate::from_der(leaf).map_err(malformed)?;
    let certificate = certificate.tbs_certificate;
    let until = certificate.validity.not_after.to_system_time();
    if until <= now {
        let detail = "the client certificate has expired";
        return Err(Refusal::new(Reason::Expired, detail));
    }
    if certificate.validity.not_before.to_system_time() > now {
        let detail = "the client certificate is not valid yet";
        return Err(Refusal::new(Reason::Early, detail));
    }
    let names = certificate.get::<SubjectAltName>().map_err(malformed)?;
    let names = names.map_or_else(Vec::new, |(_, names)| names.0);
    let mut uris = names.iter().filter_map(|name| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str()),
        _ => None,
    });
    let uri = uri_of(&mut uris)
        .ok_or_else(|| none("the client certificate has not exactly one URI among its names"))?;
    let id = uri.parse::<SpiffeId>().ok().filter(SpiffeId::is_whole);
    let id = id.ok_or_else(|| none(&format!("the client certificate is of {}", quoted(uri))))?;
    Ok((id, until))
}

/// The only one: of several nobody could say whose the key is.
fn uri_of<'n>(uris: &mut impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let uri = uris.next()?;
    uris.next().is_none().then_some(uri)
}
