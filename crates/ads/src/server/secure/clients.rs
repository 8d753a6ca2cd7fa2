//! Certificates of clients: as the roots say, if there are not too many of them.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Certificates in a chain. Ways from one of them to a root are tried in turn, so they multiply.
const MOST: usize = 8;
/// Octets of them.
const LARGEST: usize = 32 << 10;

/// Looks at how much there is before anything of it is parsed.
#[derive(Debug)]
pub(super) struct Clients(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let octets = own.len() + others.iter().map(|c| c.len()).sum::<usize>();
        if others.len() >= MOST || octets > LARGEST {
            let refused = CertificateError::ApplicationVerificationFailure;
            return Err(Error::InvalidCertificate(refused));
        }
        self.0.verify_client_cert(own, others, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
