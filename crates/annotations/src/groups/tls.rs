//! How clients connect: certificates, versions and ciphers, which hold for whole hosts.

use std::sync::Arc;

use super::Reference;

/// What an Ingress says of the hosts that it names. The first that says anything of a host decides.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct HostTls {
    /// `auth-tls-secret`: clients must show a certificate.
    pub client: Option<ClientCertificates>,
    /// `ssl-cipher`, `ssl-ciphers`: names of OpenSSL that Envoy knows.
    pub ciphers: Vec<Arc<str>>,
    /// `tls-min-protocol-version`.
    pub min: Option<Version>,
    /// `tls-max-protocol-version`.
    pub max: Option<Version>,
    /// `server-alias`: further hosts, valid ones.
    pub aliases: Vec<Arc<str>>,
    /// `ssl-passthrough`: TLS goes to the backend as it is.
    pub passthrough: bool,
}

/// Certificates of clients.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClientCertificates {
    /// The Secret with the authority.
    pub secret: Reference,
    /// Whether each client must show one; otherwise it may.
    pub required: bool,
    /// `auth-tls-pass-certificate-to-upstream`.
    pub pass: bool,
}

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Version {
    V1_0,
    V1_1,
    V1_2,
    V1_3,
}
