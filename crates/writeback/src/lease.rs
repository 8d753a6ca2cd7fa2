//! Electing a leader by a Lease.
//!
//! One elector takes part for each lock. The rules are client-go's, with Istio's addition that the default revision takes
//! the lock from another: a lease is free when nobody holds it, or when it has not changed for nine tenths of its duration
//! by *this* replica's clock (an istiod stops after three quarters); what the lease says of times is never compared with a
//! clock. What is stricter here: the leader
//! writes only while it can be sure that nobody else leads ([`crate::lead`]), and who takes the lock from a leader that
//! lives begins once that one must have noticed.
//!
//! Istio: pilot/pkg/leaderelection/leaderelection.go and k8sleaderelection, 1.32. There most locks are ConfigMaps for
//! compatibility; here all are Leases, of the same names.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lead::{Announcer, Lead, Leading, Term, deadline, kept};
use crate::place::{ObjectRef, Part, Place, WriteError};

/// The annotation with the revision of the holder.
const HOLDER_KEY: &str = "leader.istio.io/holder-key";

/// The longest time that a lease of somebody else is waited for, whatever it says.
const LONGEST_LEASE: Duration = Duration::from_secs(600);

/// What is led.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lock {
    /// Status of Ingresses.
    Ingress,
    /// Status of Ingresses of a cluster that another one's control plane serves.
    RemoteIngress,
    /// What analysis says in the status of Istio's kinds.
    Analysis,
    /// Addresses of ServiceEntries.
    Addresses,
    /// The roots of the mesh in each namespace, or in a ClusterTrustBundle.
    Roots,
    /// What is deployed for Gateways, and GatewayClasses.
    Deployments,
    /// Status of the Gateway API's kinds.
    GatewayStatus,
    /// Certificates that are ordered by ACME.
    Acme,
}

impl Lock {
    /// The name of the Lease, as istiod has it; where each revision has one, without the revision.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress => "istio-leader",
            Self::RemoteIngress => "pilothouse-remote-ingress-leader",
            Self::Analysis => "istio-analyze-leader",
            Self::Addresses => "istio-ip-autoallocate",
            Self::Roots => "istio-namespace-controller-election",
            Self::Deployments => "istio-gateway-deployment",
            Self::GatewayStatus => "istio-gateway-status-leader",
            Self::Acme => "pilothouse-acme-leader",
        }
    }

    /// What its holder writes, for people.
    pub fn about(self) -> &'static str {
        match self {
            Self::Ingress => "the status of Ingresses",
            Self::RemoteIngress => "the status of Ingresses of a remote cluster",
            Self::Analysis => "findings in the status of Istio's kinds",
            Self::Addresses => "addresses of ServiceEntries",
            Self::Roots => "the roots of the mesh in each namespace",
            Self::Deployments => "what is deployed for Gateways",
            Self::GatewayStatus => {
                "the status of Gateways, routes and other objects of the Gateway API"
            }
            Self::Acme => "certificates that are ordered",
        }
    }

    /// Whether each revision has a leader of its own.
    fn is_per_revision(self) -> bool {
        matches!(self, Self::Deployments | Self::GatewayStatus)
    }

    /// The Lease of a revision.
    fn lease(self, revision: &str) -> String {
        match self.is_per_revision() {
            true => format!("{}-{revision}", self.name()),
            false => self.name().to_owned(),
        }
    }
}

/// Who takes part in an election.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The namespace of the Lease: the control plane's.
    pub namespace: Arc<str>,
    /// The name of this replica, which no other has: that of its Pod.
    pub identity: Arc<str>,
    /// The revision of this replica.
    pub revision: Arc<str>,
    /// How long a lease lasts that is not renewed.
    pub duration: Duration,
    /// The revision that is the default, empty where none is.
    pub default_revision: watch::Receiver<Arc<str>>,
}

/// A part in the election for a lock.
pub struct Elector {
    place: Arc<dyn Place>,
    object: ObjectRef,
    candidate: Candidate,
    announcer: Announcer,
    /// The lease as it was when it last differed, and when that was seen.
    seen: Option<Seen>,
    held: Option<Held>,
    /// Until when another may lead that the lease was taken from, or was to be.
    others_end: Instant,
    terms: u64,
    jitter: RandomState,
    attempts: u64,
    /// The error that was last told of.
    told: Option<String>,
}

/// A lease of somebody.
struct Seen {
    record: (LeaseSpec, String),
    at: Instant,
}

impl Seen {
    fn holder(&self) -> &str {
        self.record.0.holder_identity.as_deref().unwrap_or_default()
    }

    /// When it runs out; by what it says or by what we would say, whichever is later.
    fn end(&self, own: Duration) -> Instant {
        let seconds = self.record.0.lease_duration_seconds.unwrap_or_default();
        let said = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        self.at + kept(said.max(own).min(LONGEST_LEASE))
    }
}

/// Our lease.
#[derive(Clone, Copy)]
struct Held {
    term: Term,
    /// When its first write may begin.
    begin: Instant,
}

impl Elector {
    /// A candidate for a lock, and what is known of the election.
    pub fn new(place: Arc<dyn Place>, lock: Lock, candidate: Candidate) -> (Self, Leading) {
        let (announcer, leading) = Announcer::new();
        let object = ObjectRef {
            group: "coordination.k8s.io".into(),
            version: "v1".into(),
            kind: "Lease".into(),
            plural: "leases".into(),
            namespace: candidate.namespace.clone(),
            name: lock.lease(&candidate.revision).into(),
        };
        let elector = Self {
            place,
            object,
            candidate,
            announcer,
            seen: None,
            held: None,
            others_end: Instant::now(),
            terms: 0,
            jitter: RandomState::new(),
            attempts: 0,
            told: None,
        };
        (elector, leading)
    }

    /// Takes part until `stop`, then gives the lease back, so that the next one need not wait for it to run out.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut default_revision = self.candidate.default_revision.clone();
        default_revision.mark_unchanged();
        loop {
            self.attempt().await;
            self.announce();
            let mut next = Instant::now() + self.pause();
            loop {
                let wake = self.wake(next);
                tokio::select! {
                    () = tokio::time::sleep_until(wake) => {}
                    () = stop.cancelled() => return self.release().await,
                    Ok(()) = default_revision.changed() => next = Instant::now(),
                }
                self.announce();
                if Instant::now() >= next {
                    break;
                }
            }
        }
    }

    /// How long until the next attempt: as Istio renews, and sooner while somebody else leads.
    fn pause(&mut self) -> Duration {
        let duration = self.candidate.duration;
        self.attempts += 1;
        if self.held.is_some() {
            return duration / 4;
        }
        let part = u32::try_from(self.jitter.hash_one(self.attempts) % 256).unwrap_or_default();
        let base = (duration / 15).max(Duration::from_millis(10));
        base + base * part / 1280
    }

    /// When there is something to do: the next attempt, the begin or the end of our term, or the end of somebody's lease.
    fn wake(&self, next: Instant) -> Instant {
        let now = Instant::now();
        let own = self.held.iter().flat_map(|held| {
            let ends = held.term.end.iter().flat_map(|d| [d.last_begin, d.end]);
            ends.chain([held.begin])
        });
        let theirs = self.seen.iter().filter(|_| self.held.is_none());
        let theirs = theirs.map(|seen| seen.end(self.candidate.duration));
        own.chain(theirs)
            .filter(|at| *at > now)
            .fold(next, Instant::min)
    }

    /// Tells who leads by what is known.
    fn announce(&mut self) {
        let now = Instant::now();
        if let Some(held) = self.held {
            if held.term.end.is_none_or(|d| now < d.last_begin) {
                if now >= held.begin {
                    self.announcer.tell(Lead::Ours(held.term));
                }
                return;
            }
            self.lose("it could not be renewed in time");
        }
        let holder = self.seen.as_ref().map_or("", Seen::holder);
        // Our own lease of before, which may still last, leads nothing.
        let holder = if holder == &*self.candidate.identity {
            ""
        } else {
            holder
        };
        self.announcer.tell(Lead::Theirs(holder.into()));
    }

    fn lose(&mut self, why: &str) {
        if self.held.take().is_some() {
            tracing::warn!(lock = %self.object.name, why, "This replica no longer leads.");
        }
    }

    /// Takes or renews the lease, if that is possible.
    async fn attempt(&mut self) {
        let asked = Instant::now();
        // A renewal that hangs must not keep the next one from being tried.
        let patience = self.candidate.duration / 4;
        let tried = tokio::time::timeout(patience, self.try_once(asked)).await;
        let result = tried.unwrap_or_else(|_| {
            Err(WriteError::Unavailable(format!(
                "no answer within {patience:?}"
            )))
        });
        match result {
            Ok(()) | Err(WriteError::Conflict | WriteError::Exists) => self.told = None,
            Err(error) => {
                let error = match error {
                    // A lease that is missing is created: what is missing then is its namespace.
                    WriteError::Missing => {
                        format!("there is no namespace {}", self.object.namespace)
                    }
                    error => error.to_string(),
                };
                if self.told.as_ref() != Some(&error) {
                    tracing::warn!(
                        lock = %self.object.name, place = self.place.name(), %error,
                        "The lease cannot be read or written; it is tried again."
                    );
                    self.told = Some(error);
                }
            }
        }
    }

    async fn try_once(&mut self, asked: Instant) -> Result<(), WriteError> {
        let Some(current) = self.place.get(&self.object).await? else {
            let wanted = self.wanted(Lease::default(), None);
            let made = self.place.create(&self.object, json(&wanted)).await?;
            self.hold(asked, &made);
            return Ok(());
        };
        let mut lease: Lease = serde_json::from_value(current)
            .map_err(|e| WriteError::Refused(format!("it is no Lease: {e}")))?;
        let record = record_of(&lease);
        let now = Instant::now();
        let seen = match self.seen.take() {
            Some(seen) if seen.record == record => seen,
            _ => Seen { record, at: now },
        };
        let (holder, end) = (seen.holder().to_owned(), seen.end(self.candidate.duration));
        let key = seen.record.1.clone();
        self.seen = Some(seen);
        let ours = holder == *self.candidate.identity;
        let free = holder.is_empty() || ours || end <= now;
        if !ours {
            self.lose(&format!("{holder:?} has the lease"));
        }
        if !free && !self.takes_over(&key) {
            return Ok(());
        }
        let spec = lease.spec.take().unwrap_or_default();
        let wanted = self.wanted(lease, Some((spec, ours)));
        if !free {
            // Whoever led notices at its next renewal, and stops when its lease has run out at the latest. Noted before,
            // as the answer may be lost.
            self.others_end = self.others_end.max(end);
        }
        let stored = self
            .place
            .replace(&self.object, Part::Object, json(&wanted))
            .await?;
        if !free {
            tracing::info!(lock = %self.object.name, from = holder, "The lease was taken over, as this is the default revision.");
        }
        self.hold(asked, &stored);
        Ok(())
    }

    /// Whether a lease is taken from its holder of some revision: by the default revision.
    fn takes_over(&self, holder: &str) -> bool {
        // The control plane of another cluster marks its revision so.
        let of_remote = holder.strip_prefix('^');
        let own = &*self.candidate.revision;
        let default = self.candidate.default_revision.borrow();
        match of_remote.unwrap_or(holder) == own {
            true => of_remote.is_some(),
            false => **default == *own,
        }
    }

    /// The lease as we want it, over what it is.
    fn wanted(&self, mut lease: Lease, before: Option<(LeaseSpec, bool)>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let (before, ours) = before.unwrap_or_default();
        let transitions = before.lease_transitions.unwrap_or_default();
        let seconds = self.candidate.duration.as_millis().div_ceil(1000);
        lease.metadata.managed_fields = None;
        let notes = lease.metadata.annotations.get_or_insert_default();
        notes.insert(HOLDER_KEY.to_owned(), self.candidate.revision.to_string());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.candidate.identity.to_string()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: before.acquire_time.filter(|_| ours).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(match ours {
                true => transitions,
                false => transitions.saturating_add(1),
            }),
            ..LeaseSpec::default()
        });
        lease
    }

    /// Notes that we have the lease, which we asked for at `asked`.
    fn hold(&mut self, asked: Instant, stored: &Value) {
        if let Ok(lease) = serde_json::from_value::<Lease>(stored.clone()) {
            self.seen = Some(Seen {
                record: record_of(&lease),
                at: Instant::now(),
            });
        }
        let end = Some(deadline(asked, self.candidate.duration));
        match &mut self.held {
            Some(held) => held.term.end = end,
            None => {
                self.terms += 1;
                let term = Term {
                    number: self.terms,
                    end,
                };
                let begin = self.others_end.max(asked);
                self.held = Some(Held { term, begin });
                tracing::info!(lock = %self.object.name, identity = %self.candidate.identity, "This replica leads.");
            }
        }
    }

    /// Gives the lease back, once nothing is being written.
    async fn release(mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        if Instant::now() < held.begin {
            // Whoever took it from us would not know of the one before.
            return;
        }
        self.announcer.tell(Lead::Theirs("".into()));
        let end = held.term.end.map_or_else(Instant::now, |d| d.end);
        let released = tokio::time::timeout_at(end, async {
            self.announcer.quiet().await;
            let Some(current) = self.place.get(&self.object).await? else {
                return Ok(());
            };
            let mut lease: Lease =
                serde_json::from_value(current).map_err(|e| WriteError::Refused(e.to_string()))?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&*self.candidate.identity) {
                return Ok(());
            }
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            lease.metadata.managed_fields = None;
            self.place
                .replace(&self.object, Part::Object, json(&lease))
                .await
                .map(|_| ())
        });
        match released.await {
            Ok(Ok(())) => tracing::info!(lock = %self.object.name, "The lease was given back."),
            Ok(Err(error)) => {
                tracing::warn!(lock = %self.object.name, %error, "The lease could not be given back; it will run out.");
            }
            Err(_) => {}
        }
    }
}

/// What of a Lease tells that its holder lives: all that it writes.
fn record_of(lease: &Lease) -> (LeaseSpec, String) {
    let spec = lease.spec.clone().unwrap_or_default();
    let notes = lease.metadata.annotations.as_ref();
    let key = notes.and_then(|a| a.get(HOLDER_KEY)).cloned();
    (spec, key.unwrap_or_default())
}

fn json(lease: &Lease) -> Value {
    serde_json::to_value(lease).unwrap_or_default()
}

#[cfg(test)]
mod tests;
