//! The certificate of this server: signed by the CA of the mesh and renewed, or read from files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use ca::{Authority, Csr, KeyAlgorithm, PrivateKey, Roots, SigningRequest};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::config::ServeOptions;
use crate::watched::{self, Watched};

/// Names of istiod's Services, by which agents know it, and ours. Istio: pilot/pkg/bootstrap/server.go getDNSNames, 1.32.
const SERVICES: [&str; 4] = ["istiod", "istiod-remote", "istio-pilot", "pilothouse"];
/// Names for clients of this machine.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Between two attempts to get a certificate: first, and at most.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A certificate is not renewed more often than this, however short its life is.
const SHORTEST: Duration = Duration::from_secs(1);

/// The names by which clients call this server. The first is the one that API servers use.
pub(super) fn names(options: &ServeOptions) -> Vec<Arc<str>> {
    let namespace = &options.namespace;
    let revision = Some(&options.revision).filter(|r| !r.is_empty() && *r != "default");
    let services = SERVICES.map(str::to_owned).into_iter();
    let services = services.chain(revision.map(|revision| format!("istiod-{revision}")));
    let stated = options.secure.tls_names.iter();
    let stated = stated.map(|name| name.trim().to_owned());
    let mut names: Vec<Arc<str>> = Vec::new();
    let all = services
        .map(|service| format!("{service}.{namespace}.svc"))
        .chain(LOCAL.map(str::to_owned))
        .chain(stated);
    for name in all.filter(|name| !name.is_empty()) {
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
        }
    }
    names
}

/// Keeps a certificate of these names: a new one after half of its life, and when the roots change.
pub(super) async fn keep(
    authority: Authority,
    names: Vec<Arc<str>>,
    tell: watch::Sender<Option<Arc<CertifiedKey>>>,
) {
    let (mut roots, mut again) = (authority.roots(), AGAIN);
    loop {
        authority.ready().await;
        roots.borrow_and_update();
        let wait = match sign(&authority, &names).await {
            Ok((key, not_after)) => {
                tell.send_replace(Some(Arc::new(key)));
                again = AGAIN;
                let left = not_after.duration_since(SystemTime::now());
                (left.unwrap_or_default() / 2).max(SHORTEST)
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "The CA signs no certificate for this server.");
                let wait = again;
                again = (again * 2).min(LONGEST);
                wait
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            Ok(()) = roots.changed() => {}
        }
    }
}

async fn sign(
    authority: &Authority,
    names: &[Arc<str>],
) -> anyhow::Result<(CertifiedKey, SystemTime)> {
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256)?;
    let request = SigningRequest {
        csr: Csr::make(&key, names)?,
        sans: names.to_vec(),
        ttl: None,
        signer: None,
    };
    let issued = authority.signer().sign(request).await?;
    let key = certified(issued.chain.concat().as_bytes(), key.pem().as_bytes())?;
    Ok((key, issued.not_after))
}

/// A certificate with its key, as TLS shows it.
fn certified(chain: &[u8], key: &[u8]) -> anyhow::Result<CertifiedKey> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.context("the certificate cannot be read")?;
    ensure!(!chain.is_empty(), "there is no certificate");
    let key = PrivateKeyDer::from_pem_slice(key).context("the key cannot be read")?;
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    certified.context("the certificate and the key cannot be used together")
}

/// Files with a certificate, its key, and the roots of clients.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) roots: PathBuf,
}

impl Files {
    /// What they hold.
    pub(super) fn read(&self) -> anyhow::Result<(Arc<CertifiedKey>, Roots)> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let key = certified(&read(&self.certificate)?, &read(&self.key)?);
        let key = key.with_context(|| self.certificate.display().to_string())?;
        let roots = String::from_utf8(read(&self.roots)?);
        let roots = roots.with_context(|| self.roots.display().to_string())?;
        let count = CertificateDer::pem_slice_iter(roots.as_bytes()).count();
        ensure!(count > 0, "{} holds no certificate", self.roots.display());
        let roots = Roots {
            pems: vec![roots],
            generation: 1,
            ..Roots::default()
        };
        Ok((Arc::new(key), roots))
    }

    /// Keeps to what they hold. What cannot be used is told in the log, and what was read before stays.
    pub(super) async fn follow(
        self,
        tell: watch::Sender<Option<Arc<CertifiedKey>>>,
        roots: watch::Sender<Arc<Roots>>,
    ) {
        let all = [&self.certificate, &self.key, &self.roots];
        let mut watched = Watched::new(all.map(Clone::clone), watched::EVERY);
        loop {
            watched.changed().await;
            match self.read() {
                Ok((key, new)) => {
                    roots.send_replace(Arc::new(new));
                    tell.send_replace(Some(key));
                    tracing::info!("The certificates for TLS were reloaded.");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(
                        error,
                        "The certificates for TLS cannot be read; the previous ones stay in force."
                    );
                }
            }
        }
    }
}
