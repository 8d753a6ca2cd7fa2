//! Certificates of workloads as a source: made for the identities of connected proxies, and renewed before they expire.
//!
//! Proxies of one identity share a certificate. The roots are told as soon as they change; certificates that are signed
//! in another way from then on follow once every proxy has had time to take the roots in, so that no peer meets a
//! certificate that it cannot judge. A certificate that cannot be renewed stays in force.
//!
//! Istio: security/pkg/nodeagent/cache/secretcache.go, 1.32, where each agent does this for itself.

mod keeping;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::certificate::WorkloadCertificate;
use model::trust::MeshRoots;
use model::{Contents, Owner};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use keeping::Keeping;
use source_api::{Running, Sink, Source, SourceEvent};

/// Identities (`spiffe://...`) whose certificates are wanted.
pub type Wanted = Arc<BTreeSet<Arc<str>>>;

/// The most identities that have certificates at a time.
pub const MOST: usize = 32_768;
/// Changes that are told together.
const TOGETHER: usize = 256;

/// What certificates lead to, and how they are signed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Anchors {
    /// The roots; `None` while none are known.
    pub roots: Option<Arc<MeshRoots>>,
    /// Tells ways of signing apart: a certificate that was signed in another one is replaced.
    pub signing: u64,
}

/// A certificate that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The certificate, with its key.
    pub certificate: WorkloadCertificate,
    /// When it expires.
    pub expires: SystemTime,
}

/// A certificate that is being made.
pub type Making = Pin<Box<dyn Future<Output = Result<Made, String>> + Send>>;

/// Makes certificates.
pub trait Make: Send + Sync + 'static {
    /// A key, and a certificate for it that names the identity and nothing else.
    fn make(&self, identity: Arc<str>) -> Making;
}

/// What a source of certificates tells others of.
pub trait Watcher: Send + Sync + 'static {
    /// A certificate was made, or why it could not be.
    fn attempted(&self, identity: &str, outcome: Result<(), &str>);
    /// More identities want certificates than can have one.
    fn exhausted(&self, left_out: usize);
    /// So many certificates are there, the first of which expires then.
    fn holds(&self, count: usize, first_expires: Option<SystemTime>);
}

/// When certificates are renewed.
#[derive(Clone)]
pub struct Options {
    /// The part of its life that a certificate has left when it is renewed.
    pub left: f64,
    /// How far that part may differ from one certificate to another.
    pub jitter: f64,
    /// How long proxies have to take in new roots before certificates follow, which takes as long again.
    pub settle: Duration,
    /// What time it is.
    pub clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// The certificates of workloads as a source.
pub struct CertificatesSource {
    /// The name under which it is shown.
    pub owner: Owner,
    /// Who wants one.
    pub wanted: watch::Receiver<Wanted>,
    /// What they lead to.
    pub anchors: watch::Receiver<Anchors>,
    /// Makes them.
    pub maker: Arc<dyn Make>,
    /// Hears what happens.
    pub watcher: Arc<dyn Watcher>,
    /// When.
    pub options: Options,
}

impl Source for CertificatesSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        Vec::new()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            let keeping = Keeping::new(self.maker, self.watcher, self.options);
            run(keeping, self.wanted, self.anchors, &out, &stop).await;
            Ok(())
        })
    }
}

/// Makes and renews what is wanted until `stop`.
async fn run(
    mut keeping: Keeping,
    mut wanted: watch::Receiver<Wanted>,
    mut anchors: watch::Receiver<Anchors>,
    out: &Sink,
    stop: &CancellationToken,
) {
    wanted.mark_changed();
    anchors.mark_changed();
    loop {
        let mut changes = keeping.work(Instant::now());
        let next = keeping.next(Instant::now());
        if changes.is_empty() {
            tokio::select! {
                // Roots come before the certificates that lead to them.
                biased;
                () = stop.cancelled() => return,
                changed = anchors.changed() => match changed {
                    Ok(()) => {
                        let anchors = anchors.borrow_and_update().clone();
                        changes.extend(keeping.anchor(anchors, Instant::now()));
                    }
                    Err(_) => return,
                },
                changed = wanted.changed() => match changed {
                    Ok(()) => keeping.want(wanted.borrow_and_update().clone(), Instant::now()),
                    Err(_) => return,
                },
                Some(change) = keeping.made() => {
                    changes.extend(change);
                    while changes.len() < TOGETHER && let Some(change) = keeping.already_made() {
                        changes.extend(change);
                    }
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
        if !changes.is_empty() {
            keeping.tell();
            if out.send(SourceEvent::Changes(changes)).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
