//! Which certificates of webhooks are taken.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_cert::der::Decode;

/// Takes what the CAs of a bundle have issued and, as Go does, a certificate that stands in the bundle itself: what
/// `openssl req -x509` makes is a server's certificate and its own CA.
// Go: crypto/x509/verify.go Certificate.Verify, 1.26.
#[derive(Debug)]
pub(super) struct Judge {
    issued: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl Judge {
    /// For the certificates of a bundle.
    ///
    /// # Errors
    ///
    /// When one is no certificate, or there is none.
    pub(super) fn new(
        bundle: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in &bundle {
            roots.add(certificate.clone()).map_err(|e| e.to_string())?;
        }
        let issued = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| e.to_string())?;
        Ok(Self { issued, bundle })
    }

    /// Whether a certificate that is in the bundle is valid by itself.
    fn itself(
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let bad = |why| Error::InvalidCertificate(why);
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        let parsed = x509_cert::Certificate::from_der(certificate)
            .map_err(|_| bad(CertificateError::BadEncoding))?;
        let validity = parsed.tbs_certificate.validity;
        let from = validity.not_before.to_unix_duration().as_secs();
        let until = validity.not_after.to_unix_duration().as_secs();
        if now.as_secs() < from {
            return Err(bad(CertificateError::NotValidYet));
        }
        if now.as_secs() > until {
            return Err(bad(CertificateError::Expired));
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let issued = self
            .issued
            .verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match issued {
            Err(_) if self.bundle.contains(end_entity) => Self::itself(end_entity, name, now),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    fn params(names: &[&str], is_ca: bool) -> CertificateParams {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    fn takes(bundle: &CertificateDer<'static>, shown: &CertificateDer<'_>, name: &str) -> bool {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let judge = Judge::new(vec![bundle.clone()], provider).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let judged = judge.verify_server_cert(shown, &[], &name, &[], UnixTime::now());
        judged.is_ok()
    }

    #[test]
    fn a_certificate_that_is_its_own_ca_is_taken_for_its_names() {
        let key = KeyPair::generate().unwrap();
        let own = params(&["hook.shop.svc"], true).self_signed(&key).unwrap();
        assert!(takes(own.der(), own.der(), "hook.shop.svc"));
        assert!(!takes(own.der(), own.der(), "other.shop.svc"));
        let other = params(&["hook.shop.svc"], true)
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap();
        assert!(!takes(own.der(), other.der(), "hook.shop.svc"));
    }

    #[test]
    fn its_time_counts() {
        let key = KeyPair::generate().unwrap();
        let mut expired = params(&["hook.shop.svc"], true);
        expired.not_before = rcgen::date_time_ymd(2001, 1, 1);
        expired.not_after = rcgen::date_time_ymd(2002, 1, 1);
        let expired = expired.self_signed(&key).unwrap();
        assert!(!takes(expired.der(), expired.der(), "hook.shop.svc"));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let judge = Judge::new(vec![expired.der().clone()], provider).unwrap();
        let then = UnixTime::since_unix_epoch(Duration::from_secs(990_000_000));
        let name = ServerName::try_from("hook.shop.svc").unwrap();
        let judged = judge.verify_server_cert(expired.der(), &[], &name, &[], then);
        assert!(judged.is_ok());
    }

    #[test]
    fn what_a_ca_of_the_bundle_has_issued_is_taken() {
        let key = KeyPair::generate().unwrap();
        let ca = params(&[], true);
        let root = ca.self_signed(&key).unwrap();
        let issuer = Issuer::new(ca, key);
        let leaf = params(&["hook.shop.svc"], false)
            .signed_by(&KeyPair::generate().unwrap(), &issuer)
            .unwrap();
        assert!(takes(root.der(), leaf.der(), "hook.shop.svc"));
        assert!(!takes(root.der(), leaf.der(), "other.shop.svc"));
    }
}
