//! Gives addresses to ServiceEntries while this replica leads.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use model::{Kind, ObjectName};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Allocated, Facts, Given, Identity, statuses};
use crate::lead::{Leading, Led};
use crate::place::{ObjectRef, Place, WriteError};
use crate::status::Statuses;

/// How soon reading the entries is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// An address in the status of an entry, for a host.
type Held = (Identity, Arc<str>, IpAddr);

/// Hears what was found while addresses were given.
pub type Report = Arc<dyn Fn(&Allocated) + Send + Sync>;

/// Gives addresses; a writer of statuses writes them.
pub struct Allocator {
    place: Arc<dyn Place>,
    leading: Leading,
    facts: watch::Receiver<Option<Arc<Facts>>>,
    wanted: watch::Sender<Statuses>,
    report: Report,
}

impl Allocator {
    /// An allocator for the entries that the facts tell of, as soon as they tell of any.
    pub fn new(
        place: &Arc<dyn Place>,
        leading: &Leading,
        facts: watch::Receiver<Option<Arc<Facts>>>,
        report: Report,
    ) -> Self {
        Self {
            place: place.clone(),
            leading: leading.clone(),
            facts,
            wanted: watch::Sender::default(),
            report,
        }
    }

    /// The statuses that give entries their addresses.
    pub fn wanted(&self) -> watch::Receiver<Statuses> {
        self.wanted.subscribe()
    }

    /// Gives addresses until `stop`, or there are no facts any more.
    pub async fn run(self, stop: CancellationToken) {
        self.leading.clone().work(self, &stop).await;
    }

    async fn read_until_known(&self) -> Vec<Held> {
        loop {
            match self.read().await {
                Ok(held) => return held,
                // Without the kind nobody has any.
                Err(WriteError::Missing) => return Vec::new(),
                Err(error) => {
                    tracing::warn!(%error, "ServiceEntries cannot be listed; no addresses are given until they can.");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Every address in the status of an entry.
    async fn read(&self) -> Result<Vec<Held>, WriteError> {
        let mut object = ObjectRef::of(Kind::ServiceEntry, &ObjectName::default());
        let mut result = Err(WriteError::Missing);
        for version in Kind::ServiceEntry.versions() {
            object.version = (*version).into();
            result = self.read_version(&object).await;
            if result != Err(WriteError::Missing) {
                break;
            }
        }
        result
    }

    async fn read_version(&self, object: &ObjectRef) -> Result<Vec<Held>, WriteError> {
        let (mut all, mut next) = (Vec::new(), None);
        loop {
            let page = self.place.list(object, next.as_deref()).await?;
            for item in &page.items {
                let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
                let name = ObjectName::new(text("namespace"), text("name"));
                let uid: Arc<str> = text("uid").into();
                let addresses = item["status"]["addresses"].as_array().into_iter().flatten();
                all.extend(addresses.filter_map(|address| {
                    let text = |field: &str| address.get(field).and_then(Value::as_str);
                    let ip = text("value")?.parse().ok()?;
                    let entry = (name.clone(), uid.clone());
                    Some((entry, Arc::from(text("host")?), ip))
                }));
            }
            match page.next {
                Some(token) => next = Some(token),
                None => return Ok(all),
            }
        }
    }
}

impl Led for Allocator {
    /// Ends when there are no facts any more.
    async fn lead(&mut self) {
        // What the leader before has written may not have come back through the facts.
        let mut given = Given::default();
        for (entry, host, address) in self.read_until_known().await {
            given.note(entry, host, address);
        }
        loop {
            let facts = self.facts.borrow_and_update().clone();
            if let Some(facts) = facts {
                let allocated = given.allocate(&facts);
                (self.report)(&allocated);
                let wanted = statuses(&facts, &allocated);
                self.wanted.send_if_modified(|known| {
                    let differs = *known != wanted;
                    *known = wanted;
                    differs
                });
            }
            if self.facts.changed().await.is_err() {
                return;
            }
        }
    }

    fn lost(&mut self) {
        // Whoever leads next may give others.
        self.wanted.send_replace(Statuses::default());
    }
}
