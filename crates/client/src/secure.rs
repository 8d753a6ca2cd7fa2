//! How the server is reached: in plaintext or over TLS, and what proves who the client is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::Error;
use crate::verify::AnyName;

/// How long connecting and shaking hands may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest file with certificates, a key or a token.
const LARGEST: u64 = 1 << 20;

/// How to reach a server over TLS. Without roots it is reached in plaintext.
#[derive(Args, Clone, Debug, Default)]
pub struct SecureOptions {
    /// Use TLS, and accept a server whose certificate these roots (PEM) have signed
    #[arg(long, alias = "xds-root", value_name = "FILE")]
    pub root_cert: Option<PathBuf>,

    /// Client certificate with its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key", requires = "root_cert")]
    pub cert: Option<PathBuf>,

    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,

    /// File with a bearer token, read again for each connection
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    pub token_file: Option<PathBuf>,

    /// Name that the server's certificate must have. Default: the host of its address
    #[arg(long, value_name = "NAME", requires = "root_cert")]
    pub tls_server_name: Option<String>,
}

/// How a control plane is reached over TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsOptions {
    /// File with the roots (PEM) that have signed its certificate; those of the system where there is none.
    pub roots: Option<PathBuf>,
    /// Files with the certificate that is shown to it, with its chain, and with the key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that it is asked for; the host of its address where there is none.
    pub server_name: Option<String>,
    /// Names of which its certificate must have one, in place of the one that it is asked for.
    pub names: Vec<String>,
}

/// A certificate with its chain, and its key.
pub(crate) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// TLS as a client speaks it.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    roots: Arc<RootCertStore>,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Names of which the certificate must have one; none where it must have `name`.
    names: Vec<ServerName<'static>>,
}

/// Where a server is, and how connections to it begin.
#[derive(Clone, Debug)]
pub struct Dialer {
    pub(crate) address: String,
    token: Option<String>,
    token_file: Option<PathBuf>,
    tls: Option<Tls>,
}

impl Dialer {
    /// Reads the files that the options name.
    pub(crate) fn new(
        address: &str,
        token: Option<&str>,
        options: &SecureOptions,
    ) -> Result<Self, Error> {
        let tls = match &options.root_cert {
            Some(roots) => {
                let identity = match (&options.cert, &options.key) {
                    (Some(certificate), Some(key)) => Some(identity_of(certificate, key)?),
                    _ => None,
                };
                let roots = certificates(roots)?;
                let name = options.tls_server_name.as_deref();
                Some(Tls::new(name.unwrap_or(host(address)), roots, identity)?)
            }
            None => None,
        };
        Ok(Self {
            address: address.to_owned(),
            token: token.map(str::to_owned),
            token_file: options.token_file.clone(),
            tls,
        })
    }

    /// To a control plane, over TLS or in plaintext. Files are read now; that of the token for each connection.
    ///
    /// # Errors
    /// When a file cannot be read, or holds nothing of use.
    pub fn to(
        address: &str,
        options: Option<&TlsOptions>,
        token_file: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let tls = options.map(|options| Tls::stated(options, address));
        Ok(Self {
            address: address.to_owned(),
            token: None,
            token_file,
            tls: tls.transpose()?,
        })
    }

    /// Over TLS.
    pub(crate) fn over(address: String, tls: Tls) -> Self {
        Self {
            address,
            token: None,
            token_file: None,
            tls: Some(tls),
        }
    }

    /// The same server for somebody else.
    pub(crate) fn with(&self, identity: Identity) -> Result<Self, Error> {
        let tls = self
            .tls
            .as_ref()
            .map(|tls| tls.with(identity))
            .transpose()?;
        Ok(Self {
            tls,
            ..self.clone()
        })
    }

    /// The scheme of requests.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }

    /// The token to show now.
    pub(crate) fn token(&self) -> Result<Option<String>, Error> {
        let Some(path) = &self.token_file else {
            return Ok(self.token.clone());
        };
        let text = String::from_utf8(read(path)?);
        let text = text.map_err(|_| unusable(path, "it is no text"))?;
        Ok(Some(text.trim().to_owned()))
    }

    /// A socket, and TLS on it if that is asked for.
    pub(crate) async fn dial(&self) -> Result<(TcpStream, Option<Tls>), Error> {
        let failed = |source| Error::Connect {
            address: self.address.clone(),
            source,
        };
        let connect = tokio::time::timeout(PATIENCE, TcpStream::connect(&self.address)).await;
        let connect = connect.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let socket = connect.map_err(failed)?;
        // Requests are small and must not wait for each other; a socket that cannot do without is still a socket.
        let _ = socket.set_nodelay(true);
        Ok((socket, self.tls.clone()))
    }
}

impl Tls {
    /// For a server of this name, which one of the roots has signed.
    pub(crate) fn new(
        name: &str,
        roots: Vec<CertificateDer<'static>>,
        identity: Option<Identity>,
    ) -> Result<Self, Error> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root).map_err(Error::Tls)?;
        }
        let roots = Arc::new(store);
        Ok(Self {
            config: config(&roots, &[], identity)?,
            name: server_name(name)?,
            names: Vec::new(),
            roots,
        })
    }

    /// As options say, for a server at `address`.
    fn stated(options: &TlsOptions, address: &str) -> Result<Self, Error> {
        let mut store = RootCertStore::empty();
        match &options.roots {
            Some(path) => {
                for root in certificates(path)? {
                    store.add(root).map_err(Error::Tls)?;
                }
            }
            // What of the system's cannot be read, others make up for; without any, every server is refused.
            None => {
                let system = rustls_native_certs::load_native_certs().certs;
                store.add_parsable_certificates(system);
            }
        }
        let roots = Arc::new(store);
        let identity = options.identity.as_ref();
        let identity = identity.map(|(certificate, key)| identity_of(certificate, key));
        let name = options.server_name.as_deref();
        let names = options.names.iter().map(|name| server_name(name));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            config: config(&roots, &names, identity.transpose()?)?,
            name: server_name(name.unwrap_or(host(address)))?,
            names,
            roots,
        })
    }

    fn with(&self, identity: Identity) -> Result<Self, Error> {
        Ok(Self {
            config: config(&self.roots, &self.names, Some(identity))?,
            ..self.clone()
        })
    }

    /// Shakes hands.
    pub(crate) async fn over(
        self,
        socket: TcpStream,
        address: &str,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let shaking = TlsConnector::from(self.config).connect(self.name, socket);
        let shaken = tokio::time::timeout(PATIENCE, shaking).await;
        let shaken = shaken.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        shaken.map_err(|source| Error::Connect {
            address: address.to_owned(),
            source,
        })
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, Error> {
    let bad = |_| {
        Error::Tls(rustls::Error::General(format!(
            "{name:?} is not a server name"
        )))
    };
    ServerName::try_from(name.to_owned()).map_err(bad)
}

fn config(
    roots: &Arc<RootCertStore>,
    names: &[ServerName<'static>],
    identity: Option<Identity>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?;
    let builder = match names {
        [] => builder.with_root_certificates(Arc::clone(roots)),
        names => {
            let any = AnyName::new(Arc::clone(roots), provider, names.to_vec());
            let any = Arc::new(any.map_err(Error::Tls)?);
            builder.dangerous().with_custom_certificate_verifier(any)
        }
    };
    let mut config = match identity {
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(Error::Tls)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    // The server resumes nothing.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let open = std::fs::File::open(path).map_err(|e| unusable(path, e))?;
    let read = open.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|e| unusable(path, e))?;
    if bytes.len() as u64 > LARGEST {
        return Err(unusable(path, "it is larger than 1 MiB"));
    }
    Ok(bytes)
}

/// The certificates of a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|e| unusable(path, e))?;
    if all.is_empty() {
        return Err(unusable(path, "it holds no certificate"));
    }
    Ok(all)
}

fn identity_of(certificate: &Path, key: &Path) -> Result<Identity, Error> {
    let bytes = read(key)?;
    let read = PrivateKeyDer::from_pem_slice(&bytes);
    Ok((
        certificates(certificate)?,
        read.map_err(|e| unusable(key, e))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_has_no_port_and_no_brackets() {
        assert_eq!(host("127.0.0.1:15012"), "127.0.0.1");
        assert_eq!(host("[::1]:15012"), "::1");
        assert_eq!(
            host("istiod.istio-system.svc:15012"),
            "istiod.istio-system.svc"
        );
    }

    #[test]
    fn files_that_are_of_no_use_are_named() {
        let options = SecureOptions {
            root_cert: Some("/dev/null".into()),
            ..SecureOptions::default()
        };
        let error = Dialer::new("localhost:1", None, &options).unwrap_err();
        assert_eq!(error.to_string(), "/dev/null: it holds no certificate");
        let options = SecureOptions {
            token_file: Some("/dev/zero".into()),
            ..SecureOptions::default()
        };
        let dialer = Dialer::new("localhost:1", None, &options).unwrap();
        let error = dialer.token().unwrap_err();
        assert_eq!(error.to_string(), "/dev/zero: it is larger than 1 MiB");
    }
}
