//! Certificates of workloads that have no agent: for which identities, by which authority, and when they are renewed.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ca::{Authority, Csr, KeyAlgorithm, PrivateKey, Roots, Signer, SigningRequest};
use clap::Args;
use model::Owner;
use model::certificate::WorkloadCertificate;
use model::trust::MeshRoots;
use sources::certificates::{
    Anchors, CertificatesSource, MOST, Made, Make, Making, Options, Watcher,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use xxhash_rust::xxh3::Xxh3;

use crate::config::duration;
use crate::http::Pages;
use crate::metrics::Metrics;
use crate::quiet::{Quiet, shown};
use crate::supervisor::Duplicate;

/// Identities are many, and fail together.
static FAILED: Quiet = Quiet::new();
static EXHAUSTED: Quiet = Quiet::new();

/// Flags of the certificates that are made for workloads.
#[derive(Args, Clone, Debug)]
pub struct CertificateOptions {
    /// The part of its life that a workload's certificate has left when it is renewed, for proxies that get theirs over
    /// ADS.
    #[arg(long, env = "SECRET_GRACE_PERIOD_RATIO", value_name = "RATIO", default_value_t = 0.5, value_parser = ratio)]
    pub workload_cert_grace_ratio: f64,

    /// How far that part may differ from one certificate to another, so that not all are renewed at once.
    #[arg(long, env = "SECRET_GRACE_PERIOD_RATIO_JITTER", value_name = "RATIO", default_value_t = 0.01, value_parser = ratio)]
    pub workload_cert_grace_ratio_jitter: f64,

    /// How long proxies have to take in new roots before they get certificates that lead to them.
    #[arg(long, env = "PILOTHOUSE_ROOTS_SETTLE", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub roots_settle: Duration,
}

/// Reads a number from 0 to 1.
fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(format!("{text:?} is not a number from 0 to 1")),
    }
}

/// Adds the source of the certificates that connected proxies want.
///
/// # Errors
///
/// When there is a source of that name already.
pub(crate) fn add(
    pages: &Pages,
    authority: &Authority,
    stated: &CertificateOptions,
    stop: &CancellationToken,
) -> Result<(), Duplicate> {
    let (tell, anchors) = watch::channel(Anchors::default());
    tokio::spawn(follow(authority.roots(), tell, stop.clone()));
    let maker = Arc::new(Maker(authority.signer()));
    let watcher = Arc::new(Told(pages.metrics.clone()));
    let wanted = pages.derive.wanted_certificates();
    let options = Options {
        left: stated.workload_cert_grace_ratio,
        jitter: stated.workload_cert_grace_ratio_jitter,
        settle: stated.roots_settle,
        clock: Arc::new(SystemTime::now),
    };
    pages.supervisor.add(Box::new(move |_| {
        Box::new(CertificatesSource {
            owner: Owner::new(0, "certificates"),
            wanted: wanted.clone(),
            anchors: anchors.clone(),
            maker: maker.clone(),
            watcher: watcher.clone(),
            options: options.clone(),
        })
    }))
}

/// Tells what the roots of an authority are, until it or we end.
async fn follow(
    mut roots: watch::Receiver<Arc<Roots>>,
    tell: watch::Sender<Anchors>,
    stop: CancellationToken,
) {
    loop {
        tell.send_replace(anchors(&roots.borrow_and_update()));
        tokio::select! {
            changed = roots.changed() => {
                if changed.is_err() {
                    // What was signed stays good.
                    return stop.cancelled().await;
                }
            }
            () = stop.cancelled() => return,
        }
    }
}

fn anchors(known: &Roots) -> Anchors {
    // What signs leads the chain, or is the first of the roots.
    let signing = match known.signing_chain.as_slice() {
        [] => &known.pems[..known.pems.len().min(1)],
        chain => chain,
    };
    let mut hash = Xxh3::new();
    signing.iter().for_each(|pem| hash.update(pem.as_bytes()));
    Anchors {
        roots: known.are_known().then(|| {
            Arc::new(MeshRoots {
                roots: known.pem().into(),
                revoked: known.crl.as_deref().map(Arc::from),
            })
        }),
        signing: hash.digest(),
    }
}

struct Maker(Arc<dyn Signer>);

impl Make for Maker {
    fn make(&self, identity: Arc<str>) -> Making {
        let signer = self.0.clone();
        Box::pin(async move {
            let text = |error: &dyn std::fmt::Display| error.to_string();
            let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).map_err(|e| text(&e))?;
            let csr = Csr::make(&key, &[&*identity]).map_err(|e| text(&e))?;
            let request = SigningRequest {
                csr,
                sans: vec![identity],
                ttl: None,
                signer: None,
            };
            let issued = signer.sign(request).await.map_err(|e| text(&e))?;
            let certificate = WorkloadCertificate {
                chain: issued.chain.concat().into(),
                key: model::certificate::PrivateKey::from_pem(key.pem()),
            };
            Ok(Made {
                certificate,
                expires: issued.not_after,
            })
        })
    }
}

/// Counts, and writes lines of the log.
struct Told(Arc<Metrics>);

impl Watcher for Told {
    fn attempted(&self, identity: &str, outcome: Result<(), &str>) {
        let metrics = &self.0.certificates;
        let Err(reason) = outcome else {
            metrics.made.inc();
            return;
        };
        metrics.failed.inc();
        if let Some(left_out) = FAILED.take(Instant::now()) {
            tracing::warn!(
                identity,
                reason,
                left_out = shown(left_out),
                "A certificate cannot be made; it is tried again, and what the proxy has stays."
            );
        }
    }

    fn exhausted(&self, left_out: usize) {
        if EXHAUSTED.take(Instant::now()).is_some() {
            tracing::error!(
                limit = MOST,
                left_out,
                "More identities want certificates than can have one."
            );
        }
    }

    fn holds(&self, count: usize, first_expires: Option<SystemTime>) {
        let metrics = &self.0.certificates;
        metrics.held.set(i64::try_from(count).unwrap_or(i64::MAX));
        let since = first_expires.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        metrics.expires.set(since.map_or(0.0, |d| d.as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_signs_tells_ways_of_signing_apart() {
        let known = |pems: &[&str], chain: &[&str]| Roots {
            pems: pems.iter().map(|p| (*p).to_owned()).collect(),
            signing_chain: chain.iter().map(|p| (*p).to_owned()).collect(),
            ..Roots::default()
        };
        let signing = |pems: &[&str], chain: &[&str]| anchors(&known(pems, chain)).signing;
        assert_eq!(signing(&["a"], &[]), signing(&["a", "b"], &[]));
        assert_ne!(signing(&["a", "b"], &[]), signing(&["b", "a"], &[]));
        assert_eq!(signing(&["a"], &["i"]), signing(&["b", "a"], &["i"]));
        assert_ne!(signing(&["a"], &["i"]), signing(&["a"], &["j"]));
        assert_eq!(anchors(&known(&[], &[])).roots, None);
        let two = anchors(&known(&["a", "b"], &[])).roots.unwrap();
        assert_eq!(&*two.roots, "ab");
    }

    #[test]
    fn a_ratio_is_a_number_from_0_to_1() {
        assert_eq!(ratio("0.5"), Ok(0.5));
        assert!(ratio("1.5").is_err() && ratio("NaN").is_err() && ratio("x").is_err());
    }
}
