//! Who is at the other end of a connection, as far as the connection tells.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::CertificateDer;

/// The client of a connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// On an encrypted connection the certificates that it showed, its own first, which a trusted root has signed; empty if it
    /// showed none. `None` on a plaintext connection.
    pub certificates: Option<Arc<[CertificateDer<'static>]>>,
}

impl Client {
    /// One that nothing else is known of.
    pub fn plaintext(peer: SocketAddr) -> Self {
        Self {
            peer,
            certificates: None,
        }
    }

    /// Whether nobody else reads what it is sent.
    pub fn is_encrypted(&self) -> bool {
        self.certificates.is_some()
    }
}

/// What a client has proven.
#[derive(Clone, Default)]
pub struct Proven {
    /// Who it is, as the subscriber knows it, which gets it back when the client joins. `None` if nobody asked.
    pub caller: Option<Arc<dyn Any + Send + Sync>>,
    /// Up to when that holds. The connection ends then, so that the client proves it anew.
    pub until: Option<SystemTime>,
}

impl fmt::Debug for Proven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proven")
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}
