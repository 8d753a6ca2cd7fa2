//! Encrypted connections: TLS between the socket and HTTP/2.
//!
//! A client's certificate is optional: who it is may also be proven by a token in its calls. Sessions are never resumed: a
//! ticket would bring an identity back after its root or its certificate is gone, and a server that has just started, which is
//! when all proxies come at once, could not read one anyway.
//!
//! A handshake costs more processor time than thousands of responses, and anyone may ask for one. So handshakes have threads of
//! their own at a lower priority ([`threads`]), a rate over all clients and for each address, and a limit of how many may be under
//! way; each is bounded in time and octets ([`handshake`]).

mod clients;
mod handshake;
mod stream;
mod threads;

use std::io;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::watch;

use clients::Clients;
pub use handshake::HandshakeError;
pub(super) use handshake::{Failure, certificates, shake};
pub(super) use threads::Threads;

/// Why there is nothing to serve TLS with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no root, or a list of revocations cannot be read.
    #[error("clients cannot be judged by these roots and revocations")]
    Clients(#[source] rustls::server::VerifierBuilderError),
    /// A root is no certificate.
    #[error("a root cannot be used")]
    Root(#[source] rustls::Error),
    /// The library has no cipher suites for its own versions of TLS.
    #[error("TLS cannot be served")]
    Config(#[source] rustls::Error),
}

/// What connections are encrypted with, and whom they are judged by.
#[derive(Debug)]
pub struct Tls {
    pub(super) config: Arc<ServerConfig>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl Tls {
    /// The server shows `key`; certificates of clients are those that `roots` have signed and `revoked` does not list.
    ///
    /// # Errors
    /// A root or a list of revocations cannot be read.
    pub fn new(
        key: Arc<CertifiedKey>,
        roots: impl IntoIterator<Item = CertificateDer<'static>>,
        revoked: impl IntoIterator<Item = CertificateRevocationListDer<'static>>,
    ) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root).map_err(TlsError::Root)?;
        }
        let provider = Arc::new(default_provider());
        let judge = WebPkiClientVerifier::builder_with_provider(store.into(), provider.clone())
            .with_crls(revoked)
            // A list tells of those whom its issuer has signed, and there need not be one for each.
            .allow_unknown_revocation_status()
            .allow_unauthenticated()
            .build()
            .map_err(TlsError::Clients)?;
        let clients: Arc<dyn ClientCertVerifier> = Arc::new(Clients(judge));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Config)?
            .with_client_cert_verifier(Arc::clone(&clients))
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            clients,
        })
    }

    /// Whether a client that showed these certificates, its own first, would still be let in.
    pub(super) fn trusts(&self, certificates: &[CertificateDer<'_>]) -> bool {
        match certificates {
            [] => true,
            [own, others @ ..] => {
                let judged = self
                    .clients
                    .verify_client_cert(own, others, UnixTime::now());
                judged.is_ok()
            }
        }
    }
}

/// What connections are encrypted with now; `None` until that is known.
pub type Current = watch::Receiver<Option<Arc<Tls>>>;

/// A listener for encrypted connections. Clients wait until it is known what they are encrypted with. When that changes,
/// connections that begin have the new certificate, and those whose client would not be let in any more are ended.
pub struct Secure {
    pub(super) listener: TcpListener,
    pub(super) tls: Current,
    pub(super) threads: Threads,
}

impl Secure {
    /// Takes the listener, and starts threads for its handshakes.
    ///
    /// # Errors
    /// The system's, when it refuses a thread.
    pub fn new(listener: TcpListener, tls: Current) -> io::Result<Self> {
        Ok(Self {
            listener,
            tls,
            threads: Threads::start()?,
        })
    }
}
