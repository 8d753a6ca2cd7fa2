//! A CA that an operator plugs in: certificates and a key in a folder or a Secret, read again when they change.
//!
//! What cannot be used, or would make workloads refuse each other, is told, and what was read before stays in force.
//!
//! Istio: pilot/pkg/bootstrap/istio_ca.go, 1.32. A Secret is read there only to write it into the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;
use writeback::{Place, WriteError};
use zeroize::Zeroizing;

use crate::Clock;
use crate::authority::{Authority, Publisher};
use crate::certificate::Certificate;
use crate::issuer::{Issuer, IssuerError, Parts};
use crate::key::PrivateKey;
use crate::self_signed::{self, CACERTS, GENERATED, Storage, secret, value_of};
use crate::signer::Lifetimes;

const CRL: &str = "ca-crl.pem";

/// How soon an API that did not answer is asked again, at first.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The largest file.
const LARGEST: u64 = 1 << 20;

/// How the parts of a CA are called.
struct Form {
    certificate: &'static str,
    key: &'static str,
    /// What is sent behind a leaf, one after the other.
    chain: &'static [&'static str],
    roots: &'static str,
}

/// Istio's own.
const ISTIO: Form = Form {
    certificate: "ca-cert.pem",
    key: "ca-key.pem",
    chain: &["cert-chain.pem"],
    roots: "root-cert.pem",
};

/// That of Secrets of the type `kubernetes.io/tls`.
const TLS: Form = Form {
    certificate: "tls.crt",
    key: "tls.key",
    chain: &["tls.crt", "ca.crt"],
    roots: "ca.crt",
};

const NAMES: [&str; 9] = [
    "ca-cert.pem",
    "ca-key.pem",
    "cert-chain.pem",
    "root-cert.pem",
    "tls.crt",
    "tls.key",
    "ca.crt",
    CRL,
    GENERATED,
];

type Texts = BTreeMap<&'static str, Zeroizing<Vec<u8>>>;

/// Where a CA is plugged in.
#[derive(Clone)]
pub enum Source {
    /// A folder of files.
    Folder(PathBuf),
    /// The Secret `cacerts` of this namespace.
    Secret {
        /// The API.
        place: Arc<dyn Place>,
        /// The namespace of the control plane.
        namespace: Arc<str>,
    },
}

/// How a plugged-in CA is used.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Whether roots may change where old ones or new ones contain the others (`ISTIO_MULTIROOT_MESH`).
    pub multiroot: bool,
    /// Whether revocation lists are read.
    pub reads_crl: bool,
    /// Whether what a control plane made is left to it: a self-signed CA is kept there.
    pub leaves_generated: bool,
    /// Of what is signed.
    pub lifetimes: Lifetimes,
    /// How often it is looked whether something changed.
    pub look: Duration,
}

/// Why no CA is plugged in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PluggedError {
    /// It cannot be read.
    #[error("{0}")]
    Read(String),
    /// Some of it is there.
    #[error("the CA is incomplete: there is no {}", .0.join(", no "))]
    Incomplete(Vec<&'static str>),
    /// Nothing is there any longer.
    #[error("the CA is gone")]
    Gone,
    /// It cannot sign.
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// Workloads would refuse each other.
    #[error(
        "the roots changed, and workloads would refuse each other (with ISTIO_MULTIROOT_MESH, roots may be added to those in \
         force, or taken away)"
    )]
    OtherRoots,
}

impl From<WriteError> for PluggedError {
    fn from(error: WriteError) -> Self {
        Self::Read(error.to_string())
    }
}

impl Source {
    /// For people.
    fn describe(&self) -> String {
        match self {
            Self::Folder(folder) => format!("plugged in, in {}", folder.display()),
            Self::Secret { place, namespace } => {
                format!(
                    "plugged in, in Secret {namespace}/{CACERTS} of {}",
                    place.name()
                )
            }
        }
    }

    async fn read(&self) -> Result<Texts, PluggedError> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.clone();
                let read = tokio::task::spawn_blocking(move || read_folder(&folder)).await;
                read.map_err(|e| PluggedError::Read(e.to_string()))?
            }
            Self::Secret { place, namespace } => {
                let object = place.get(&secret(namespace, CACERTS)).await?;
                let object = object.unwrap_or_default();
                let named = |name| Some((name, value_of(&object, name)?));
                Ok(NAMES.into_iter().filter_map(named).collect())
            }
        }
    }
}

fn read_folder(folder: &Path) -> Result<Texts, PluggedError> {
    let mut texts = Texts::new();
    for name in NAMES {
        let path = folder.join(name);
        if path.exists() {
            let read = disk::open::read(&path, LARGEST);
            let read = read.map_err(|e| PluggedError::Read(format!("{}: {e}", path.display())))?;
            texts.insert(name, Zeroizing::new(read.bytes));
        }
    }
    Ok(texts)
}

/// The CA in these texts; `None` where there is nothing of one.
fn issuer(
    texts: &Texts,
    options: &Options,
    now: SystemTime,
) -> Result<Option<Issuer>, PluggedError> {
    if options.leaves_generated && texts.contains_key(GENERATED) {
        return Ok(None);
    }
    let form = match texts.contains_key(TLS.certificate) {
        true => TLS,
        false => ISTIO,
    };
    let mut parts = vec![form.certificate, form.key, form.roots];
    parts.extend(form.chain);
    let missing: BTreeSet<_> = parts.iter().filter(|n| !texts.contains_key(**n)).collect();
    if missing.len() == parts.iter().collect::<BTreeSet<_>>().len() {
        return Ok(None);
    }
    if !missing.is_empty() {
        return Err(PluggedError::Incomplete(
            missing.into_iter().copied().collect(),
        ));
    }
    let text = |name: &str| texts.get(name).map_or(&[][..], |text| text);
    let certificates = |file: &'static str| {
        Certificate::from_pem(text(file)).map_err(|error| IssuerError::Certificates { file, error })
    };
    let mut chain = Vec::new();
    for file in form.chain {
        chain.extend(certificates(file)?);
    }
    let crl = match texts.get(CRL) {
        Some(text) if options.reads_crl && !text.is_empty() => {
            Some(String::from_utf8_lossy(text).into_owned())
        }
        _ => None,
    };
    let key = PrivateKey::from_pem(text(form.key)).map_err(|error| IssuerError::Key {
        file: form.key,
        error,
    })?;
    let certificate = certificates(form.certificate)?.into_iter().next();
    let parts = Parts {
        certificate: certificate.ok_or(IssuerError::Empty(form.certificate))?,
        key,
        chain,
        roots: certificates(form.roots)?,
        crl,
    };
    Ok(Some(Issuer::new(parts, now)?))
}

/// A plugged-in CA that was found.
pub struct Plugged {
    source: Source,
    options: Options,
    clock: Clock,
    texts: Texts,
    issuer: Issuer,
}

/// Looks whether a CA is plugged in; `None` where there is nothing of one.
///
/// # Errors
///
/// When there is something that cannot be used.
pub async fn open(
    source: Source,
    options: Options,
    clock: Clock,
) -> Result<Option<Plugged>, PluggedError> {
    let texts = source.read().await?;
    let found = issuer(&texts, &options, clock())?;
    Ok(found.map(|issuer| Plugged {
        source,
        options,
        clock,
        texts,
        issuer,
    }))
}

impl Plugged {
    /// Puts it in force, and looks for changes until `stop`.
    pub fn start(self, stop: CancellationToken) -> Authority {
        let (lifetimes, clock) = (self.options.lifetimes, self.clock.clone());
        let (publisher, authority) = Publisher::new("", lifetimes, clock);
        let mut watched = self.put(publisher);
        tokio::spawn(async move { stop.run_until_cancelled(watched.watch()).await });
        authority
    }

    /// Puts it in force.
    fn put(self, publisher: Publisher) -> Watched {
        let Self {
            source,
            options,
            clock,
            texts,
            issuer,
        } = self;
        let about = source.describe();
        let root = issuer.roots().first().map(Certificate::fingerprint);
        tracing::info!(ca = about, root, "The CA is in force.");
        publisher.tell(|state| state.about = about);
        publisher.put(Arc::new(issuer));
        Watched {
            source,
            options,
            clock,
            publisher,
            seen: Ok(texts),
        }
    }
}

/// Starts the CA that is plugged in at `source`; where there is nothing of one, the self-signed one of a storage. Until `source`
/// answers, there is none: an API that is late must not make a CA in place of the operator's.
pub fn start_or_self_signed(
    source: Source,
    options: Options,
    storage: Storage,
    otherwise: self_signed::Options,
    clock: Clock,
    stop: CancellationToken,
) -> Authority {
    let (publisher, authority) =
        Publisher::new(source.describe(), options.lifetimes, clock.clone());
    let starting = async move {
        match answered(&source, &options, &clock, &publisher).await {
            Some(plugged) => plugged.put(publisher).watch().await,
            None => self_signed::keep(storage, otherwise, clock, publisher).await,
        }
    };
    tokio::spawn(async move { stop.run_until_cancelled(starting).await });
    authority
}

/// What is plugged in at `source`, once it answers and what it has can be used.
async fn answered(
    source: &Source,
    options: &Options,
    clock: &Clock,
    publisher: &Publisher,
) -> Option<Plugged> {
    let mut pause = FIRST_PAUSE;
    loop {
        match open(source.clone(), options.clone(), clock.clone()).await {
            Ok(found) => return found,
            Err(error) => {
                let fault: Arc<str> = error.to_string().into();
                if publisher.fault().as_ref() != Some(&fault) {
                    let ca = source.describe();
                    tracing::error!(ca, %error, "The CA cannot be used, and is tried again.");
                }
                publisher.tell(|state| state.fault = Some(fault));
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(options.look);
    }
}

struct Watched {
    source: Source,
    options: Options,
    clock: Clock,
    publisher: Publisher,
    /// What was read last, or why nothing was.
    seen: Result<Texts, PluggedError>,
}

impl Watched {
    async fn watch(&mut self) {
        loop {
            tokio::time::sleep(self.options.look).await;
            let now = self.source.read().await;
            if now == self.seen {
                continue;
            }
            let done = now.clone().and_then(|texts| self.reload(&texts));
            self.seen = now;
            match done {
                Ok(()) => tracing::info!("The plugged-in CA was reloaded."),
                Err(error) => {
                    tracing::error!(%error, "The plugged-in CA has changed and cannot be used; the previous one stays in force.");
                    let fault: Arc<str> = error.to_string().into();
                    self.publisher.tell(|state| state.fault = Some(fault));
                }
            }
        }
    }

    fn reload(&self, texts: &Texts) -> Result<(), PluggedError> {
        let new = issuer(texts, &self.options, (self.clock)())?.ok_or(PluggedError::Gone)?;
        if let Some(known) = self.publisher.issuer()
            && !may_replace(known.roots(), new.roots(), self.options.multiroot)
        {
            return Err(PluggedError::OtherRoots);
        }
        self.publisher.put(Arc::new(new));
        Ok(())
    }
}

/// Whether workloads with the one roots and workloads with the others take each other.
fn may_replace(known: &[Certificate], new: &[Certificate], multiroot: bool) -> bool {
    let set = |roots: &[Certificate]| -> BTreeSet<Vec<u8>> {
        roots.iter().map(|root| root.der().to_vec()).collect()
    };
    let (known, new) = (set(known), set(new));
    known == new || (multiroot && (known.is_subset(&new) || new.is_subset(&known)))
}

#[cfg(test)]
mod tests;
