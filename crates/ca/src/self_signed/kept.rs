//! What a self-signed CA keeps: the root that signs, the one that will, and those that are still trusted.
//!
//! A rotation has three steps, and every replica takes them by what is kept, not by what it remembers:
//!
//! 1. a new root is made and trusted beside the one that signs, for as long as it takes until everybody has it;
//! 2. from the time that was written down then, it signs;
//! 3. the old root stays trusted until everything that it signed has expired.
//!
//! istiod instead keeps the key for ever and replaces the certificate of the root in one step
//! (security/pkg/pki/ca/selfsignedcarootcertrotator.go, 1.32). Both programs read what the other one keeps.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::certificate::{Certificate, CertificateError};
use crate::issuer::{Issuer, IssuerError, Parts};
use crate::key::{KeyAlgorithm, PrivateKey};
use crate::roots::distinct;

/// Texts by name, as a Secret has them.
pub(crate) type Data = BTreeMap<&'static str, Zeroizing<Vec<u8>>>;

const CA_CERTIFICATE: &str = "ca-cert.pem";
const CA_KEY: &str = "ca-key.pem";
const ROOTS: &str = "root-cert.pem";
const NEXT_CERTIFICATE: &str = "next-ca-cert.pem";
const NEXT_KEY: &str = "next-ca-key.pem";
const ROTATION: &str = "rotation.json";

/// The names of everything that is kept.
pub(crate) const NAMES: [&str; 6] = [
    CA_CERTIFICATE,
    CA_KEY,
    ROOTS,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    ROTATION,
];

/// A replica that is late may sign with the old root for so much longer than the others.
const LATE: Duration = Duration::from_secs(600);

/// When a root is rotated, and how long the steps take.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Policy {
    pub(crate) organization: String,
    pub(crate) algorithm: KeyAlgorithm,
    /// Of a new root.
    pub(crate) lifetime: Duration,
    /// What share of its lifetime a root has left when it is replaced, in percent.
    pub(crate) grace_percent: u32,
    /// How long a new root is trusted before it signs.
    pub(crate) distribution: Duration,
    /// Of what is signed.
    pub(crate) longest_leaf: Duration,
}

/// A root with its key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: Certificate,
    pub(crate) key: PrivateKey,
}

/// The root that will sign.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) pair: Pair,
    pub(crate) signs_from: SystemTime,
}

/// A root that signs no longer.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    pub(crate) certificate: Certificate,
    pub(crate) until: SystemTime,
}

/// What is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) current: Pair,
    pub(crate) next: Option<Next>,
    pub(crate) trusted: Vec<Trusted>,
}

/// Why what is kept cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeptError {
    /// Something is missing.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// The rotation's times cannot be read.
    #[error("rotation.json: {0}")]
    Rotation(String),
    /// The CA cannot sign.
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// A new root cannot be made.
    #[error("a new root cannot be made: {0}")]
    Making(#[from] CertificateError),
}

/// The times of a rotation, in seconds since 1970.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Rotation {
    #[serde(skip_serializing_if = "Option::is_none")]
    next_signs_from: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trusted: Vec<TrustedUntil>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrustedUntil {
    /// SHA-256 of the certificate, as hexadecimal digits.
    certificate: String,
    until: u64,
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn time(seconds: u64) -> SystemTime {
    // Nothing is later than the year 9999, which the clock can say as well.
    UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799))
}

impl Pair {
    fn new(policy: &Policy, now: SystemTime) -> Result<Self, KeptError> {
        let (organization, lifetime) = (&policy.organization, policy.lifetime);
        let (certificate, key) =
            Issuer::self_signed(organization, policy.algorithm, now, lifetime)?;
        Ok(Self { certificate, key })
    }

    fn read(data: &Data, names: [&'static str; 2]) -> Result<Option<Self>, KeptError> {
        let [of_certificate, of_key] = names;
        let Some(text) = present(data, of_certificate) else {
            return Ok(None);
        };
        let certificate = certificates(of_certificate, text)?
            .into_iter()
            .next()
            .ok_or(IssuerError::Empty(of_certificate))?;
        let key = present(data, of_key).ok_or(KeptError::Missing(of_key))?;
        let key = PrivateKey::from_pem(key).map_err(|error| IssuerError::Key {
            file: of_key,
            error,
        })?;
        Ok(Some(Self { certificate, key }))
    }
}

fn present<'a>(data: &'a Data, name: &str) -> Option<&'a [u8]> {
    let text = data.get(name)?;
    (!text.is_empty()).then_some(text.as_slice())
}

fn certificates(file: &'static str, text: &[u8]) -> Result<Vec<Certificate>, IssuerError> {
    Certificate::from_pem(text).map_err(|error| IssuerError::Certificates { file, error })
}

impl Kept {
    /// A CA with a new root.
    pub(crate) fn new(policy: &Policy, now: SystemTime) -> Result<Self, KeptError> {
        Ok(Self {
            current: Pair::new(policy, now)?,
            next: None,
            trusted: Vec::new(),
        })
    }

    /// Reads what a Secret holds, be it ours or istiod's. Roots in it that nothing else is said of are trusted until they
    /// expire.
    pub(crate) fn read(data: &Data) -> Result<Self, KeptError> {
        let current = Pair::read(data, [CA_CERTIFICATE, CA_KEY])?
            .ok_or(KeptError::Missing(CA_CERTIFICATE))?;
        let rotation: Rotation = match present(data, ROTATION) {
            Some(text) => {
                serde_json::from_slice(text).map_err(|e| KeptError::Rotation(e.to_string()))?
            }
            None => Rotation::default(),
        };
        let next = match (
            Pair::read(data, [NEXT_CERTIFICATE, NEXT_KEY])?,
            rotation.next_signs_from,
        ) {
            (Some(pair), Some(from)) => Some(Next {
                pair,
                signs_from: time(from),
            }),
            (Some(_), None) => {
                return Err(KeptError::Rotation(
                    "it does not say from when the next root signs".to_owned(),
                ));
            }
            (None, _) => None,
        };
        let roots = certificates(ROOTS, present(data, ROOTS).unwrap_or_default())?;
        let signs = |root: &Certificate| {
            *root == current.certificate
                || next.as_ref().is_some_and(|n| *root == n.pair.certificate)
        };
        let until = |root: &Certificate| {
            let id = root.fingerprint();
            let stated = rotation.trusted.iter().find(|t| t.certificate == id);
            stated.map_or_else(|| root.not_after(), |t| time(t.until))
        };
        let trusted = roots.into_iter().filter(|root| !signs(root));
        let trusted = trusted.map(|certificate| Trusted {
            until: until(&certificate),
            certificate,
        });
        Ok(Self {
            trusted: trusted.collect(),
            current,
            next,
        })
    }

    /// As texts of a Secret.
    pub(crate) fn data(&self) -> Data {
        let roots: String = self.all_roots().map(Certificate::pem).collect();
        let rotation = Rotation {
            next_signs_from: self.next.as_ref().map(|next| seconds(next.signs_from)),
            trusted: self.trusted.iter().map(TrustedUntil::of).collect(),
        };
        let text = |text: &str| Zeroizing::new(text.as_bytes().to_vec());
        let mut data = Data::from([
            (CA_CERTIFICATE, text(&self.current.certificate.pem())),
            (CA_KEY, text(self.current.key.pem())),
            (ROOTS, text(&roots)),
        ]);
        if let Some(next) = &self.next {
            data.insert(NEXT_CERTIFICATE, text(&next.pair.certificate.pem()));
            data.insert(NEXT_KEY, text(next.pair.key.pem()));
        }
        if self.next.is_some() || !self.trusted.is_empty() {
            // Numbers and digits cannot fail to be written.
            let json = serde_json::to_vec(&rotation).unwrap_or_default();
            data.insert(ROTATION, Zeroizing::new(json));
        }
        data
    }

    fn all_roots(&self) -> impl Iterator<Item = &Certificate> {
        let next = self.next.iter().map(|next| &next.pair.certificate);
        let trusted = self.trusted.iter().map(|trusted| &trusted.certificate);
        std::iter::once(&self.current.certificate)
            .chain(next)
            .chain(trusted)
    }

    /// The root that signs at a time, written down already or not.
    pub(crate) fn signing(&self, now: SystemTime) -> &Pair {
        match &self.next {
            Some(next) if next.signs_from <= now => &next.pair,
            _ => &self.current,
        }
    }

    /// The CA at a time.
    pub(crate) fn issuer(&self, now: SystemTime) -> Result<Issuer, IssuerError> {
        let signing = self.signing(now);
        let alive = self.all_roots().filter(|root| root.not_after() > now);
        let roots = std::iter::once(&signing.certificate).chain(alive);
        let parts = Parts {
            certificate: signing.certificate.clone(),
            key: signing.key.clone(),
            chain: Vec::new(),
            roots: distinct(roots.cloned()),
            crl: None,
        };
        Issuer::new(parts, now)
    }

    /// What is kept after the steps that are due; `None` where none is. A rotation begins only if `may_begin`.
    pub(crate) fn advanced(
        &self,
        policy: &Policy,
        now: SystemTime,
        may_begin: bool,
    ) -> Result<Option<Self>, KeptError> {
        let mut new = self.clone();
        let mut changed = false;
        if let Some(next) = new.next.take_if(|next| next.signs_from <= now) {
            let old = std::mem::replace(&mut new.current, next.pair).certificate;
            let until = (now + policy.longest_leaf + LATE).min(old.not_after());
            new.trusted.push(Trusted {
                certificate: old,
                until,
            });
            changed = true;
        }
        let before = new.trusted.len();
        new.trusted.retain(|trusted| trusted.until > now);
        changed |= new.trusted.len() < before;
        let (begins, ends) = (
            new.replaced_from(policy),
            new.current.certificate.not_after(),
        );
        let is_due = now >= begins && (may_begin || now >= ends);
        if new.next.is_none() && is_due {
            let left = ends.duration_since(now).unwrap_or(Duration::ZERO);
            new.next = Some(Next {
                pair: Pair::new(policy, now)?,
                // A root that signs until the end signs nothing that is worth having.
                signs_from: now + policy.distribution.min(left / 2),
            });
            changed = true;
        }
        Ok(changed.then_some(new))
    }

    /// From when the root that signs is to be replaced.
    // Istio: security/pkg/util/certutil.go, 1.32.
    fn replaced_from(&self, policy: &Policy) -> SystemTime {
        let root = &self.current.certificate;
        let lifetime = root.not_after().duration_since(root.not_before());
        let grace = lifetime.unwrap_or_default() * policy.grace_percent.min(100) / 100;
        root.not_after() - grace
    }

    /// When the next step is due that is written down.
    pub(crate) fn next_step(&self) -> Option<SystemTime> {
        let switch = self.next.iter().map(|next| next.signs_from);
        let ends = self.trusted.iter().map(|trusted| trusted.until);
        switch.chain(ends).min()
    }
}

impl TrustedUntil {
    fn of(trusted: &Trusted) -> Self {
        Self {
            certificate: trusted.certificate.fingerprint(),
            until: seconds(trusted.until),
        }
    }
}
