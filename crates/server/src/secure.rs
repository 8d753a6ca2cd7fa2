//! The port for xDS and certificates over TLS: what it shows, and by whom clients are judged.
//!
//! The certificate is signed by the mesh's own CA, or read from files. Both it and the roots change while proxies are connected;
//! who is not trusted any more is disconnected, everybody else stays.

mod certificate;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ads::server::Tls;
use anyhow::{Context, bail};
use ca::{Authority, Roots, Signer};
use clap::Args;
use identity::Authenticators;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::{ServeOptions, address};
use crate::issuing::{Account, account};
use certificate::Files;

/// Where it listens unless a flag says otherwise.
const DEFAULT: &str = "127.0.0.1:15012";

/// Flags of the port for TLS.
#[derive(Args, Clone, Debug)]
pub struct SecureOptions {
    /// Address for xDS and certificates over TLS; `:15012` is every address, `off` or nothing is none. Default:
    /// 127.0.0.1:15012 where there is a CA or --tls-cert-file.
    #[arg(long, alias = "secureGRPCAddr", env = "PILOTHOUSE_SECURE_GRPC_ADDR", value_name = "HOST:PORT", value_parser = listen)]
    pub secure_grpc_addr: Option<Listen>,

    /// Certificate chain of the server (PEM), reloaded when it changes. Default: signed by the CA, and renewed.
    #[arg(long, alias = "tlsCertFile", env = "PILOTHOUSE_TLS_CERT_FILE", value_name = "FILE", requires_all = ["tls_key_file", "ca_cert_file"])]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file (PEM).
    #[arg(
        long,
        alias = "tlsKeyFile",
        env = "PILOTHOUSE_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    pub tls_key_file: Option<PathBuf>,

    /// Root certificates (PEM) that client certificates must lead to, with --tls-cert-file, instead of those of the CA.
    #[arg(
        long,
        alias = "caCertFile",
        env = "PILOTHOUSE_CA_CERT_FILE",
        value_name = "FILE",
        requires = "tls_cert_file"
    )]
    pub ca_cert_file: Option<PathBuf>,

    /// Further names of this server in the certificate that the CA signs for it. Comma-separated.
    #[arg(
        long,
        env = "ISTIOD_CUSTOM_HOST",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub tls_names: Vec<String>,

    /// Service accounts (NAMESPACE/NAME) that may ask for certificates of the pods on their node, as ztunnel does.
    /// Comma-separated.
    #[arg(long, env = "CA_TRUSTED_NODE_ACCOUNTS", value_name = "ACCOUNTS", value_delimiter = ',', value_parser = account)]
    pub ca_trusted_node_accounts: Vec<Account>,

    /// Namespaces from which everything may be asked over xDS that /debug shows, as from the root namespace; from others it is what
    /// proxies of the same namespace have. Comma-separated.
    #[arg(
        long,
        env = "DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES",
        value_name = "NAMESPACES",
        value_delimiter = ','
    )]
    pub debug_namespaces: Vec<String>,

    /// TLS handshakes admitted per second, of which one address gets half; the burst is four seconds' worth. 0 means no
    /// limit.
    #[arg(
        long,
        env = "PILOTHOUSE_MAX_HANDSHAKES_PER_SECOND",
        value_name = "N",
        default_value_t = 5000.0
    )]
    pub max_handshakes_per_second: f64,
}

/// Whether to listen, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listen {
    /// Not at all.
    Off,
    /// There.
    At(SocketAddr),
}

impl Listen {
    /// Where, if at all.
    pub fn at(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }
}

pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    match text {
        "" | "off" => Ok(Listen::Off),
        text => address(text).map(Listen::At),
    }
}

impl SecureOptions {
    /// Where to listen, and whether that was asked for; `None` for not at all.
    pub(crate) fn address(&self) -> Option<(SocketAddr, bool)> {
        match self.secure_grpc_addr {
            Some(Listen::Off) => None,
            Some(Listen::At(address)) => Some((address, true)),
            None => address(DEFAULT).ok().map(|address| (address, false)),
        }
    }

    fn files(&self) -> Option<Files> {
        Some(Files {
            certificate: self.tls_cert_file.clone()?,
            key: self.tls_key_file.clone()?,
            roots: self.ca_cert_file.clone()?,
        })
    }
}

/// Who is believed, and what signs for them. Known once sources have been started, after the first connections may have come.
#[derive(Clone, Default)]
pub struct Trust(Arc<OnceLock<Known>>);

struct Known {
    authenticators: Arc<Authenticators>,
    signer: Option<Arc<dyn Signer>>,
}

impl Trust {
    /// From now on these authenticators are asked, and this signer signs. The first that are told stay.
    pub fn tell(&self, authenticators: Arc<Authenticators>, signer: Option<Arc<dyn Signer>>) {
        let _ = self.0.set(Known {
            authenticators,
            signer,
        });
    }

    /// Who finds out who somebody is; `None` until that is known.
    pub fn authenticators(&self) -> Option<&Arc<Authenticators>> {
        self.0.get().map(|known| &known.authenticators)
    }

    /// What signs, if anything does.
    pub fn signer(&self) -> Option<&Arc<dyn Signer>> {
        self.0.get()?.signer.as_ref()
    }
}

/// What this server shows of itself over TLS, which changes; nothing until there is something to show.
#[derive(Clone)]
pub struct Shown {
    /// Its certificate.
    pub key: watch::Receiver<Option<Arc<CertifiedKey>>>,
    /// That, with those whom clients are judged by.
    pub tls: watch::Receiver<Option<Arc<Tls>>>,
}

/// Begins to keep what this server shows, until `stop`. `None` where there is neither a CA nor a file.
///
/// # Errors
///
/// When the files cannot be used.
pub(crate) fn start(
    options: &ServeOptions,
    authority: Option<&Authority>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Shown>> {
    let (tell_key, key) = watch::channel(None);
    let (tell_tls, tls) = watch::channel(None);
    let roots = match (options.secure.files(), authority) {
        (Some(files), _) => {
            let (first, roots) = files.read()?;
            tell_key.send_replace(Some(first));
            let (tell_roots, known) = watch::channel(Arc::new(roots));
            let following = files.follow(tell_key, tell_roots);
            tokio::spawn(stop.clone().run_until_cancelled_owned(following));
            known
        }
        (None, Some(authority)) => {
            let names = certificate::names(options);
            tracing::debug!(?names, "The names of this server.");
            let keeping = certificate::keep(authority.clone(), names, tell_key);
            tokio::spawn(stop.clone().run_until_cancelled_owned(keeping));
            authority.roots()
        }
        (None, None) if matches!(options.secure.secure_grpc_addr, Some(Listen::At(_))) => {
            bail!("--secure-grpc-addr needs a certificate: from a CA or --tls-cert-file")
        }
        (None, None) => return Ok(None),
    };
    let combining = combine(key.clone(), roots, tell_tls);
    tokio::spawn(stop.clone().run_until_cancelled_owned(combining));
    Ok(Some(Shown { key, tls }))
}

/// Puts each certificate and the roots together. What cannot be used is told in the log, and what was used before stays.
async fn combine(
    mut keys: watch::Receiver<Option<Arc<CertifiedKey>>>,
    mut roots: watch::Receiver<Arc<Roots>>,
    tell: watch::Sender<Option<Arc<Tls>>>,
) {
    loop {
        let key = keys.borrow_and_update().clone();
        let known = roots.borrow_and_update().clone();
        if let Some(key) = key.filter(|_| known.are_known()) {
            match judged_by(key, &known) {
                Ok(tls) => {
                    tell.send_replace(Some(Arc::new(tls)));
                }
                Err(error) => {
                    tracing::error!(
                        error = format!("{error:#}"),
                        "TLS cannot be served with these certificates; the previous ones stay in force."
                    );
                }
            }
        }
        let changed = tokio::select! {
            changed = keys.changed() => changed,
            changed = roots.changed() => changed,
        };
        if changed.is_err() {
            // Nothing changes any more.
            return std::future::pending().await;
        }
    }
}

fn judged_by(key: Arc<CertifiedKey>, known: &Roots) -> anyhow::Result<Tls> {
    let pem = known.pem();
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let revoked = known.crl.as_deref().unwrap_or_default();
    let revoked: Result<Vec<_>, _> =
        CertificateRevocationListDer::pem_slice_iter(revoked.as_bytes()).collect();
    let roots = roots.context("the roots cannot be read")?;
    let revoked = revoked.context("the list of revocations cannot be read")?;
    Ok(Tls::new(key, roots, revoked)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_none() {
        assert_eq!(listen(""), Ok(Listen::Off));
        assert_eq!(listen("off"), Ok(Listen::Off));
        assert!(matches!(listen(":15012"), Ok(Listen::At(a)) if a.ip().is_unspecified()));
        assert!(listen("15012").is_err());
    }
}
