//! An order that is under way, as it is kept: who goes on with it needs nothing else.

use std::fmt;
use std::sync::Arc;

use model::ObjectName;
use model::certificate::PrivateKey;
use model::challenges::{ANSWERS, Answer, ORDER, answers};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::store::{Content, Kept, Store, StoreError};

/// The keys in the Secret of an order.
const ABOUT: &str = "order.json";
const KEY: &str = "tls.key";
/// The largest order that is read.
const LARGEST: usize = 64 << 10;

/// A record of DNS that a challenge wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DnsRecord {
    /// The host that is proven.
    pub(crate) domain: String,
    /// `_acme-challenge.` and the host.
    pub(crate) name: String,
    /// Its text.
    pub(crate) value: String,
}

/// What an order is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The directory that it was made at.
    pub(crate) directory: String,
    /// The URL of the account that made it.
    pub(crate) account: String,
    /// Its URL.
    pub(crate) url: String,
    /// The hosts that it names.
    pub(crate) hosts: Vec<Arc<str>>,
    /// The Secret that the certificate goes to.
    pub(crate) secret: String,
    /// Records of DNS that were made for it.
    #[serde(default)]
    pub(crate) dns: Vec<DnsRecord>,
}

impl Record {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let fits = bytes.len() <= LARGEST;
        fits.then(|| serde_json::from_slice(bytes).ok())?
    }
}

/// An order with the key of its certificate.
pub(crate) struct Pending {
    pub(crate) record: Record,
    pub(crate) key: PrivateKey,
    /// What gateways answer for it.
    pub(crate) answers: Vec<Answer>,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("record", &self.record)
            .field("answers", &self.answers.len())
            .finish_non_exhaustive()
    }
}

/// Orders in a namespace.
#[derive(Clone)]
pub(crate) struct Orders {
    pub(crate) store: Store,
    pub(crate) namespace: Arc<str>,
}

impl Orders {
    /// The Secret of the order for a certificate.
    fn name(&self, secret: &ObjectName) -> ObjectName {
        let hash = xxh3_64(format!("{}/{}", secret.namespace, secret.name).as_bytes());
        let name = format!("pilothouse-acme-order-{hash:016x}");
        ObjectName::new(&*self.namespace, name)
    }

    /// The order for a certificate that is under way.
    pub(crate) async fn get(&self, secret: &ObjectName) -> Result<Option<Pending>, StoreError> {
        let kept = self.store.own(&self.name(secret), ORDER).await?;
        Ok(kept.as_ref().and_then(pending))
    }

    /// Keeps an order.
    pub(crate) async fn put(
        &self,
        secret: &ObjectName,
        pending: &Pending,
    ) -> Result<(), StoreError> {
        let about = serde_json::to_vec(&pending.record).unwrap_or_default();
        let answers = serde_json::to_vec(&pending.answers).unwrap_or_default();
        let content = Content {
            what: ORDER,
            of_type: "Opaque",
            annotations: Default::default(),
            data: vec![
                (ABOUT, &about),
                (KEY, pending.key.expose()),
                (ANSWERS, &answers),
            ],
        };
        self.store.put(&self.name(secret), &content).await
    }

    /// Forgets the order for a certificate.
    pub(crate) async fn remove(&self, secret: &ObjectName) -> Result<(), StoreError> {
        self.store.remove(&self.name(secret), ORDER).await
    }
}

fn pending(kept: &Kept) -> Option<Pending> {
    Some(Pending {
        record: Record::read(kept.value(ABOUT))?,
        key: PrivateKey::from_pem(kept.value(KEY)),
        answers: answers(kept.value(ANSWERS)),
    })
}
