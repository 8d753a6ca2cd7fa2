//! Certificates ordered from an ACME directory (RFC 8555): an account, orders that survive restarts, renewal, revocation.
//!
//! What is wanted comes from whoever knows the configuration; what was issued goes into Secrets of a [`writeback::Place`],
//! an API or a private folder ([`FolderPlace`]). A Secret that is not marked as ours is never written. Gateways answer
//! challenges over HTTP, which they learn from the Secret of an order ([`model::challenges`]); challenges of DNS are met by a
//! program. Nothing is asked of a directory while nothing is wanted.

mod account;
mod chain;
mod client;
mod dns;
mod error;
mod folder;
mod issue;
mod keeper;
mod plan;
mod record;
mod store;

pub use client::{Roots, RootsError, is_directory};
pub use dns::DnsHook;
pub use folder::{FolderError, FolderPlace};
pub use issue::Gateways;
pub use keeper::{Command, Event, Keeper, Row, State, Watcher};
pub use store::{CERTIFICATE, is_ours};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::ObjectName;

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The most certificates that are kept.
pub const MOST: usize = 10_000;

/// The most hosts of a certificate, as Let's Encrypt has it.
pub const MOST_HOSTS: usize = 100;

/// A certificate that is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The hosts that it names, in small letters, sorted, each once; some with a wildcard.
    pub hosts: Arc<[Arc<str>]>,
    /// How long before it expires it is renewed; less where its life is short.
    pub renew_before: Duration,
}

/// The certificates that are wanted, by the Secret that each is kept in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Whom the authority writes to.
    pub email: Option<Arc<str>>,
    /// By Secret.
    pub certificates: BTreeMap<ObjectName, Wish>,
}

/// A key of an account elsewhere that accounts of a directory are bound to.
#[derive(Clone)]
pub struct ExternalAccount {
    /// Its name.
    pub id: String,
    /// The key itself.
    pub key: model::certificate::PrivateKey,
}

/// What is asked, and how.
#[derive(Clone)]
pub struct Options {
    /// The URL of the directory.
    pub directory: Arc<str>,
    /// What its certificate has to lead to.
    pub roots: Roots,
    /// An account elsewhere, where the directory needs one.
    pub external: Option<ExternalAccount>,
    /// The program that makes records of DNS.
    pub dns: Option<DnsHook>,
    /// The namespace of the account and of orders.
    pub namespace: Arc<str>,
    /// Whether a Secret is known to be somebody else's, from wherever it comes: others than the place may have one of its name.
    pub is_foreign: Arc<dyn Fn(&ObjectName) -> bool + Send + Sync>,
    /// What time it is.
    pub clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Reads what a directory may answer, for fuzzing: nothing of it may panic, or take long.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let _ = serde_json::from_slice::<instant_acme::OrderState>(bytes);
    let _ = serde_json::from_slice::<instant_acme::AuthorizationState>(bytes);
    let problem = serde_json::from_slice::<instant_acme::Problem>(bytes);
    if let Ok(problem) = problem {
        let _ = error::Failure::of(instant_acme::Error::Api(problem), None).to_string();
    }
    let _ = record::Record::read(bytes);
    let _ = model::challenges::answers(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = client::retry_after(text, SystemTime::UNIX_EPOCH);
        let hosts = [Arc::from("a.example")];
        let _ = chain::check(text, bytes, &hosts, SystemTime::UNIX_EPOCH);
        let _ = chain::read(text);
    }
}

#[cfg(test)]
mod tests;
