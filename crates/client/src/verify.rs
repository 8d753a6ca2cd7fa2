//! Servers that are known by another name than that of their address.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Accepts a certificate that the roots have signed for one of several names.
#[derive(Debug)]
pub(crate) struct AnyName {
    issued: Arc<WebPkiServerVerifier>,
    names: Vec<ServerName<'static>>,
}

impl AnyName {
    /// For these names.
    ///
    /// # Errors
    /// When there are no roots.
    pub(crate) fn new(
        roots: Arc<RootCertStore>,
        provider: Arc<CryptoProvider>,
        names: Vec<ServerName<'static>>,
    ) -> Result<Self, Error> {
        let issued = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { issued, names })
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut verdict = Err(Error::InvalidCertificate(CertificateError::NotValidForName));
        for name in &self.names {
            let inner = &self.issued;
            verdict = inner.verify_server_cert(end_entity, intermediates, name, ocsp, now);
            if verdict.is_ok() {
                break;
            }
        }
        verdict
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
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    #[test]
    fn one_of_the_names_is_enough_and_none_is_not() {
        let key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = ca.self_signed(&key).unwrap();
        let issuer = Issuer::new(ca, key);
        let leaf = CertificateParams::new(vec!["istiod.istio-system.svc".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &issuer);
        let leaf = leaf.unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(root.der().clone()).unwrap();
        let roots = Arc::new(roots);
        let takes = |names: &[&str]| {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let names = names.iter().map(|name| {
                let name = (*name).to_owned();
                ServerName::try_from(name).unwrap()
            });
            let verifier = AnyName::new(roots.clone(), provider, names.collect()).unwrap();
            let dialled = ServerName::try_from("127.0.0.1").unwrap();
            let now = UnixTime::now();
            let verdict = verifier.verify_server_cert(leaf.der(), &[], &dialled, &[], now);
            verdict.is_ok()
        };
        assert!(takes(&["other.svc", "istiod.istio-system.svc"]));
        assert!(!takes(&["other.svc", "127.0.0.1"]));
        assert!(!takes(&[]));
    }
}
