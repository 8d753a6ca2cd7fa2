//! A CA that signs itself: made once, kept where every replica reads it, and rotated before it expires.

mod kept;
mod storage;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;
use writeback::WriteError;

use crate::authority::{Authority, Publisher};
use crate::key::KeyAlgorithm;
use crate::signer::Lifetimes;
use crate::{Clock, IssuerError};
pub use kept::KeptError;
use kept::{Kept, Policy};
pub(crate) use storage::value_of;
pub use storage::{CACERTS, GENERATED, Memory, SECRET, Storage, secret};

/// How a self-signed CA is made and rotated.
// Istio: security/pkg/cmd/constants.go, 1.32.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The organisation of its roots: the trust domain.
    pub organization: String,
    /// Of new keys.
    pub algorithm: KeyAlgorithm,
    /// Of new roots.
    pub lifetime: Duration,
    /// How often it is seen to whether the root is to be replaced; zero for never.
    pub check_interval: Duration,
    /// What share of its lifetime a root has left when it is replaced, in percent.
    pub grace_percent: u32,
    /// Whether the first check waits for a random part of the interval, so that replicas do not check at once.
    pub jitter: bool,
    /// How long a new root is trusted before it signs: until every workload has it.
    pub distribution: Duration,
    /// Of what is signed.
    pub lifetimes: Lifetimes,
    /// How often it is looked what other replicas have done.
    pub look: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            organization: "cluster.local".to_owned(),
            algorithm: KeyAlgorithm::default(),
            lifetime: Duration::from_hours(24 * 3650),
            check_interval: Duration::from_hours(1),
            grace_percent: 20,
            jitter: true,
            distribution: Duration::from_hours(24),
            lifetimes: Lifetimes::default(),
            look: Duration::from_secs(30),
        }
    }
}

/// How long it is waited after a failure, at first and at most.
const RETRY: Duration = Duration::from_secs(1);

/// Attempts to write against other replicas before it is left to the next look.
const CONTENTION: usize = 5;

/// Starts a CA that is kept in a storage, until `stop`. It signs once it has been read or made.
pub fn start(
    storage: Storage,
    options: Options,
    clock: Clock,
    stop: CancellationToken,
) -> Authority {
    let (publisher, authority) = Publisher::new("", options.lifetimes, clock.clone());
    tokio::spawn(stop.run_until_cancelled_owned(keep(storage, options, clock, publisher)));
    authority
}

/// Keeps a CA in a storage, and says which one is in force.
pub(crate) async fn keep(storage: Storage, options: Options, clock: Clock, publisher: Publisher) {
    let about = format!("self-signed, {}", storage.describe());
    publisher.tell(|state| {
        state.about = about;
        state.fault = None;
    });
    let policy = Policy {
        organization: options.organization.clone(),
        algorithm: options.algorithm,
        lifetime: options.lifetime,
        grace_percent: options.grace_percent,
        distribution: options.distribution,
        longest_leaf: options.lifetimes.longest,
    };
    let first_check = match options.jitter {
        true => random_part(options.check_interval),
        false => Duration::ZERO,
    };
    let keeper = Keeper {
        check_from: clock() + first_check,
        storage,
        options,
        policy,
        clock,
        publisher,
        known: None,
    };
    keeper.keep().await;
}

fn random_part(of: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without randomness there is no jitter, which is no fault.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    of.mul_f64(f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX))
}

/// Why the CA is not as it should be.
#[derive(Debug, thiserror::Error)]
enum KeeperError {
    #[error("the CA cannot be read or written: {0}")]
    Storage(#[from] WriteError),
    #[error("the CA cannot be used: {0}")]
    Kept(#[from] KeptError),
    #[error("the CA cannot be used: {0}")]
    Issuer(#[from] IssuerError),
}

struct Keeper {
    storage: Storage,
    options: Options,
    policy: Policy,
    clock: Clock,
    publisher: Publisher,
    /// What was read or written last.
    known: Option<Kept>,
    /// When it is next seen to whether the root is to be replaced.
    check_from: SystemTime,
}

impl Keeper {
    async fn keep(mut self) {
        let mut retry = RETRY;
        loop {
            let wait = match self.look().await {
                Ok(()) => {
                    retry = RETRY;
                    self.until_next()
                }
                Err(error) => {
                    self.fault(&error);
                    retry = (retry * 2).min(self.options.look);
                    retry
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Until the next look, or the next step that is written down.
    fn until_next(&self) -> Duration {
        let now = (self.clock)();
        let step = self.known.as_ref().and_then(Kept::next_step);
        let until = step.map(|at| at.duration_since(now).unwrap_or(Duration::ZERO));
        // A step that could not be written is tried again at the next look.
        let until = until.filter(|wait| !wait.is_zero());
        until.map_or(self.options.look, |wait| wait.min(self.options.look))
    }

    /// Tells of a failure once, and goes on with what is known: a root that was to sign by now does.
    fn fault(&self, error: &KeeperError) {
        let text: Arc<str> = error.to_string().into();
        if self.publisher.fault().as_deref() != Some(&*text) {
            tracing::error!(%error, place = self.storage.describe(), "The CA is tried again.");
        }
        if let Some(known) = &self.known {
            // Whether it can sign is told by the signer.
            if let Ok(issuer) = known.issuer((self.clock)()) {
                self.publisher.put(Arc::new(issuer));
            }
        }
        self.publisher.tell(|state| state.fault = Some(text));
    }

    /// Reads what is kept, takes the steps that are due, and puts it in force.
    async fn look(&mut self) -> Result<(), KeeperError> {
        for _ in 0..CONTENTION {
            match self.attempt().await {
                // Another replica was faster: see what it did.
                Err(KeeperError::Storage(WriteError::Exists | WriteError::Conflict)) => {}
                other => return other,
            }
        }
        Err(KeeperError::Storage(WriteError::Conflict))
    }

    async fn attempt(&mut self) -> Result<(), KeeperError> {
        let Some(stored) = self.storage.load().await? else {
            return self.create().await;
        };
        let read = Kept::read(&stored.data)?;
        let now = (self.clock)();
        let rotates = !self.options.check_interval.is_zero();
        let may_begin = rotates && now >= self.check_from;
        let due = match rotates {
            true => read.advanced(&self.policy, now, may_begin)?,
            false => None,
        };
        let new = match due {
            Some(new) => {
                self.storage.replace(stored, &new.data()).await?;
                tell_steps(&read, &new);
                new
            }
            None => read,
        };
        if may_begin {
            self.check_from = now + self.options.check_interval;
        }
        self.put(new, now)
    }

    /// Keeps a new CA; the same one again where what was kept is gone.
    async fn create(&mut self) -> Result<(), KeeperError> {
        let now = (self.clock)();
        let new = match &self.known {
            Some(known) => known.clone(),
            None => Kept::new(&self.policy, now)?,
        };
        self.storage.create(&new.data()).await?;
        let root = &new.current.certificate;
        tracing::info!(
            place = self.storage.describe(),
            key = new.current.key.describe(),
            root = root.fingerprint(),
            "A new CA was made."
        );
        self.put(new, now)
    }

    fn put(&mut self, kept: Kept, now: SystemTime) -> Result<(), KeeperError> {
        let issuer = kept.issuer(now)?;
        let in_force = self.publisher.issuer();
        let same = in_force.is_some_and(|known| {
            known.certificate() == issuer.certificate() && known.roots() == issuer.roots()
        });
        if !same {
            let (root, roots) = (issuer.certificate().fingerprint(), issuer.roots().len());
            tracing::info!(root, roots, "The CA is in force.");
            self.publisher.put(Arc::new(issuer));
        }
        let from = kept.next.as_ref().map(|next| next.signs_from);
        self.publisher.tell(|state| {
            state.next_signs_from = from.filter(|from| *from > now);
            state.fault = None;
        });
        self.known = Some(kept);
        Ok(())
    }
}

/// Tells of the steps of a rotation.
fn tell_steps(before: &Kept, after: &Kept) {
    if after.current.certificate != before.current.certificate {
        let root = after.current.certificate.fingerprint();
        tracing::info!(
            root,
            "A new root signs from here on; the old one stays trusted."
        );
    }
    if let (Some(next), None) = (&after.next, &before.next) {
        let root = next.pair.certificate.fingerprint();
        tracing::info!(
            root,
            "The root is about to expire: a new one is trusted, and will sign once it is distributed."
        );
    }
    let gone = |trusted: &&kept::Trusted| {
        let same = |other: &kept::Trusted| other.certificate == trusted.certificate;
        !after.trusted.iter().any(same)
    };
    for trusted in before.trusted.iter().filter(gone) {
        let root = trusted.certificate.fingerprint();
        tracing::info!(
            root,
            "An old root is trusted no longer: what it signed has expired."
        );
    }
}

#[cfg(test)]
mod tests;
