//! Signers of a cluster: requests are registered in the API for certificate signing requests, approved, and read back.
//!
//! The signer signs what the request says, so the request may ask for nothing but names of its caller; and what comes back is
//! judged before it is handed out.
//!
//! Istio: security/pkg/pki/ra and security/pkg/k8s/chiron, 1.32.

mod exchange;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use writeback::Place;

use crate::Clock;
use crate::authority::{Authority, State};
use crate::certificate::{Certificate, CertificateError};
use crate::csr::{Csr, Names};
use crate::path;
use crate::roots::{Roots, distinct};
use crate::signer::{Issued, Lifetimes, SignError, Signer, SigningRequest};
use exchange::Exchange;

/// Most requests that are with the API at the same time.
const AT_ONCE: usize = 32;

/// Most requests that wait for their turn.
const WAITING: usize = 1000;

/// How signers of a cluster are asked.
#[derive(Clone)]
pub struct Options {
    /// The domain of signers that requests name (`CERT_SIGNER_DOMAIN`).
    pub domain: Option<Arc<str>>,
    /// The signer of requests that name none (`K8S_SIGNER`).
    pub signer: Option<Arc<str>>,
    /// The roots of the signers, where they are known: PEM.
    pub roots: Option<Arc<str>>,
    /// Of what is signed.
    pub lifetimes: Lifetimes,
    /// How long a signer may take.
    pub patience: Duration,
}

/// The roots of signers, as the settings of the mesh state them: PEM by the full name of the signer.
pub type SignerRoots = BTreeMap<Arc<str>, Arc<str>>;

/// Starts to ask signers of a cluster, until `stop`.
///
/// # Errors
///
/// When the roots cannot be read.
pub fn start(
    place: Arc<dyn Place>,
    options: Options,
    stated: watch::Receiver<Arc<SignerRoots>>,
    clock: Clock,
    stop: CancellationToken,
) -> Result<Authority, CertificateError> {
    let known = match &options.roots {
        Some(pem) => Certificate::from_pem(pem.as_bytes())?,
        None => Vec::new(),
    };
    let roots = watch::Sender::default();
    let state = watch::Sender::new(Arc::new(State {
        about: format!("signers of {}", place.name()),
        ..State::default()
    }));
    let registration = Registration {
        place,
        clock,
        known: known.clone().into(),
        stated: stated.clone(),
        slots: Arc::new(Semaphore::new(AT_ONCE)),
        waiting: AtomicUsize::new(0),
        options,
    };
    let signer = Arc::new(registration);
    let authority = Authority::new(signer, roots.subscribe(), state.subscribe());
    let following = follow(known, stated, roots, state);
    tokio::spawn(async move { stop.run_until_cancelled(following).await });
    Ok(authority)
}

/// Keeps the roots as the settings have them.
async fn follow(
    known: Vec<Certificate>,
    mut stated: watch::Receiver<Arc<SignerRoots>>,
    roots: watch::Sender<Arc<Roots>>,
    state: watch::Sender<Arc<State>>,
) {
    let mut generation = 0;
    loop {
        let of_signers = stated.borrow_and_update().clone();
        let read = of_signers.iter().filter_map(|(signer, pem)| {
            let read = Certificate::from_pem(pem.as_bytes());
            read.inspect_err(|error| {
                tracing::error!(%signer, %error, "The roots of a signer in caCertificates cannot be read.");
            })
            .ok()
        });
        let all = distinct(known.iter().cloned().chain(read.flatten()));
        let pems: Vec<String> = all.iter().map(Certificate::pem).collect();
        if pems != roots.borrow().pems {
            generation += 1;
            let expires = all.first().map(Certificate::not_after);
            state.send_modify(|state| Arc::make_mut(state).root_expires = expires);
            roots.send_replace(Arc::new(Roots {
                pems,
                generation,
                ..Roots::default()
            }));
        }
        if stated.changed().await.is_err() {
            return;
        }
    }
}

struct Registration {
    place: Arc<dyn Place>,
    options: Options,
    clock: Clock,
    known: Arc<[Certificate]>,
    stated: watch::Receiver<Arc<SignerRoots>>,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Signer for Registration {
    fn sign(&self, request: SigningRequest) -> BoxFuture<'_, Result<Issued, SignError>> {
        Box::pin(self.answer(request))
    }
}

impl Registration {
    async fn answer(&self, request: SigningRequest) -> Result<Issued, SignError> {
        let signer = self.signer_of(&request)?;
        asks_for_own_names(&request)?;
        // Checked, and not applied: without a time the signer's own holds.
        self.options.lifetimes.of(request.ttl)?;
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let text = format!("{WAITING} requests wait for the signers already");
            return Err(SignError::NotReady(text));
        }
        let slot = self.slots.clone().acquire_owned().await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let slot = slot.map_err(|e| SignError::Failed(e.to_string()))?;
        let exchange = Exchange {
            place: self.place.clone(),
            signer: signer.clone(),
            csr: request.csr.pem(),
            ttl: request.ttl.filter(|ttl| !ttl.is_zero()),
            sans: request.sans.clone(),
            patience: self.options.patience,
        };
        // A caller that goes away leaves nothing behind in the API.
        let asked = tokio::spawn(async move {
            let chain = exchange.run().await;
            drop(slot);
            chain
        });
        let chain = asked
            .await
            .map_err(|e| SignError::Failed(e.to_string()))??;
        self.judge(&request, &signer, &chain)
    }

    /// The full name of the signer that is asked.
    fn signer_of(&self, request: &SigningRequest) -> Result<Arc<str>, SignError> {
        let (domain, own) = (&self.options.domain, &self.options.signer);
        let failed = |text: String| Err(SignError::Failed(text));
        match (&request.signer, domain) {
            (Some(name), Some(domain)) => Ok(format!("{domain}/{name}").into()),
            (Some(name), None) => failed(format!(
                "signer {name} has no domain: CERT_SIGNER_DOMAIN is not set"
            )),
            (None, _) => match own {
                Some(signer) => Ok(signer.clone()),
                None => failed("the request names no signer, and K8S_SIGNER is not set".to_owned()),
            },
        }
    }

    /// Whether what was signed is what was asked for, and those who have the roots would take it.
    fn judge(
        &self,
        request: &SigningRequest,
        signer: &Arc<str>,
        chain: &[u8],
    ) -> Result<Issued, SignError> {
        let failed = |text: &dyn std::fmt::Display| {
            SignError::Failed(format!("what {signer} signed cannot be used: {text}"))
        };
        let mut chain = Certificate::from_pem(chain).map_err(|e| failed(&e))?;
        let roots = self.roots_of(signer, &mut chain).map_err(|e| failed(&e))?;
        let Some(leaf) = chain.first() else {
            return Err(failed(&"it holds no certificate"));
        };
        if leaf.public_key() != request.csr.public_key() {
            return Err(failed(&"the key is another one"));
        }
        let names = leaf.names();
        let own = |name: &String| request.sans.iter().any(|san| **san == **name);
        if leaf.is_ca() || names.is_empty() || !names.iter().all(own) {
            return Err(failed(&"it is not of the names that were asked for"));
        }
        let now: SystemTime = (self.clock)();
        path::find(leaf, &chain[1..], &roots, now).map_err(|e| failed(&e))?;
        Ok(Issued {
            not_after: leaf.not_after(),
            serial: leaf.serial(),
            chain: chain.iter().map(Certificate::pem).collect(),
            roots: roots
                .iter()
                .map(Certificate::pem)
                .collect::<String>()
                .into(),
        })
    }

    /// Whom those who take what a signer signs trust: as known, as the settings of the mesh state, or the last of the chain,
    /// which is taken from it.
    fn roots_of(
        &self,
        signer: &Arc<str>,
        chain: &mut Vec<Certificate>,
    ) -> Result<Vec<Certificate>, CertificateError> {
        let own_root = |c: &Certificate| c.is_ca() && c.has_signed(c);
        let last = chain.pop_if(|last| own_root(last));
        if !self.known.is_empty() {
            return Ok(self.known.to_vec());
        }
        if let Some(pem) = self.stated.borrow().get(signer) {
            return Certificate::from_pem(pem.as_bytes());
        }
        Ok(last.into_iter().collect())
    }
}

/// The signer signs the request as it is, so it may ask for names of its caller only.
// Istio: ValidateCSR in security/pkg/pki/ra/common.go, 1.32.
fn asks_for_own_names(request: &SigningRequest) -> Result<(), SignError> {
    let csr: &Csr = &request.csr;
    let refused = |text: &str| Err(SignError::Csr(text.to_owned()));
    if !csr.is_plain() {
        return refused("a request for a signer of the cluster may ask for nothing but names");
    }
    let own = |name: &String| request.sans.iter().any(|san| **san == **name);
    match csr.names() {
        Names::Known(names) if !names.is_empty() && names.iter().all(own) => Ok(()),
        _ => refused("the names in the request are not those of its caller"),
    }
}

#[cfg(test)]
mod tests;
