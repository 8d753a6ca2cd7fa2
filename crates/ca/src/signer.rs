//! What signs certificates, and what it answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::Clock;
use crate::csr::Csr;
use crate::issuer::Issuer;

/// How long a request waits for the first key.
const SOON: Duration = Duration::from_millis(100);

/// A request of a caller whose names are proven.
#[derive(Clone, Debug)]
pub struct SigningRequest {
    /// Which key.
    pub csr: Csr,
    /// What the certificate says of whom it is of: SPIFFE identities, or DNS names of servers. Never taken from the request
    /// of somebody who has not proven them.
    pub sans: Vec<Arc<str>>,
    /// How long it is to be valid; none or zero for the default.
    pub ttl: Option<Duration>,
    /// Which signer of the cluster is asked, without its domain; none for the CA itself.
    pub signer: Option<Arc<str>>,
}

/// A certificate, with what it takes to use it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    /// One certificate in PEM each: the leaf, then what leads to a root.
    pub chain: Vec<String>,
    /// What peers are judged by, as one text.
    pub roots: Arc<str>,
    /// Until when the leaf is valid.
    pub not_after: SystemTime,
    /// The number of the leaf, as hexadecimal digits.
    pub serial: String,
}

/// How long certificates are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lifetimes {
    /// Where nothing is asked for.
    pub default: Duration,
    /// More is refused.
    pub longest: Duration,
}

impl Default for Lifetimes {
    // Istio: security/pkg/cmd/constants.go, 1.32.
    fn default() -> Self {
        Self {
            default: Duration::from_hours(24),
            longest: Duration::from_hours(24 * 90),
        }
    }
}

impl Lifetimes {
    /// The one that a request gets.
    ///
    /// # Errors
    ///
    /// When it asks for more than the longest.
    pub fn of(&self, asked: Option<Duration>) -> Result<Duration, SignError> {
        match asked.filter(|ttl| !ttl.is_zero()) {
            None => Ok(self.default.min(self.longest)),
            Some(ttl) if ttl > self.longest => Err(SignError::Ttl {
                asked: ttl,
                longest: self.longest,
            }),
            Some(ttl) => Ok(ttl),
        }
    }
}

/// Why nothing was signed.
// Istio: security/pkg/pki/error/error.go, 1.32.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SignError {
    /// There is no CA yet, or it has no time: try again.
    #[error("the CA is not ready: {0}")]
    NotReady(String),
    /// The request cannot be signed.
    #[error("{0}")]
    Csr(String),
    /// It asks for too long a time.
    #[error("requested TTL {asked:?} is greater than the max allowed TTL {longest:?}")]
    Ttl {
        /// As asked.
        asked: Duration,
        /// The longest.
        longest: Duration,
    },
    /// Signing failed.
    #[error("{0}")]
    Failed(String),
}

impl SignError {
    /// The value of the label `error` of `citadel_server_csr_sign_err_count`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotReady(_) => "CA_NOT_READY",
            Self::Csr(_) => "CSR_ERROR",
            Self::Ttl { .. } => "TTL_ERROR",
            Self::Failed(_) => "CERT_GEN_ERROR",
        }
    }

    /// Whether whoever asked can mend it: INVALID_ARGUMENT, else INTERNAL.
    pub fn is_of_request(&self) -> bool {
        matches!(self, Self::Csr(_) | Self::Ttl { .. })
    }
}

/// What signs certificates: a CA of ours, or signers of a cluster.
pub trait Signer: Send + Sync + 'static {
    /// Signs a request.
    fn sign(&self, request: SigningRequest) -> BoxFuture<'_, Result<Issued, SignError>>;
}

/// A CA of ours as a signer: whichever is in force.
pub(crate) struct OwnSigner {
    pub(crate) issuer: watch::Receiver<Option<Arc<Issuer>>>,
    pub(crate) lifetimes: Lifetimes,
    pub(crate) clock: Clock,
    /// Signatures that take long, at the same time: one for each processor.
    slow: Arc<Semaphore>,
}

impl OwnSigner {
    pub(crate) fn new(
        issuer: watch::Receiver<Option<Arc<Issuer>>>,
        lifetimes: Lifetimes,
        clock: Clock,
    ) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            issuer,
            lifetimes,
            clock,
            slow: Arc::new(Semaphore::new(processors)),
        }
    }

    async fn answer(&self, request: SigningRequest) -> Result<Issued, SignError> {
        // A request that names a signer is signed by the CA where that is ours, as by istiod.
        let mut known = self.issuer.clone();
        // Roots are told before what signs, which comes at once then.
        let issuer = match timeout(SOON, known.wait_for(Option::is_some)).await {
            Ok(Ok(issuer)) => issuer.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        let issuer = issuer.ok_or_else(|| SignError::NotReady("it has no key yet".to_owned()))?;
        let (ttl, now) = (self.lifetimes.of(request.ttl)?, (self.clock)());
        if !issuer.is_slow() {
            return issue(&issuer, &request, now, ttl);
        }
        let failed = |e: &dyn std::fmt::Display| SignError::Failed(e.to_string());
        let _slot = self.slow.acquire().await.map_err(|e| failed(&e))?;
        tokio::task::spawn_blocking(move || issue(&issuer, &request, now, ttl))
            .await
            .map_err(|e| failed(&e))?
    }
}

impl Signer for OwnSigner {
    fn sign(&self, request: SigningRequest) -> BoxFuture<'_, Result<Issued, SignError>> {
        Box::pin(self.answer(request))
    }
}

fn issue(
    issuer: &Issuer,
    request: &SigningRequest,
    now: SystemTime,
    ttl: Duration,
) -> Result<Issued, SignError> {
    if now >= issuer.not_after() {
        return Err(SignError::Failed(
            "the certificate of the CA, or of one above it, has expired".to_owned(),
        ));
    }
    let csr = &request.csr;
    let names = &request.sans;
    let leaf = issuer
        .leaf(
            csr.public_key(),
            names,
            csr.has_common_name(),
            now,
            now + ttl,
        )
        .map_err(|e| SignError::Failed(e.to_string()))?;
    let mut chain = vec![leaf.pem()];
    chain.extend_from_slice(issuer.chain_pems());
    Ok(Issued {
        chain,
        roots: issuer.bundle().clone(),
        not_after: leaf.not_after(),
        serial: leaf.serial(),
    })
}
