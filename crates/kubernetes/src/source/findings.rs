//! What is wrong with a cluster, gathered from all kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Diagnostic, Kind, Severity, SourceId};
use source_api::{Closed, Sink, SourceEvent};
use tokio::sync::{Mutex, watch};

use super::kind::code;

/// So many findings are told of a cluster.
const MOST: usize = 1000;

/// The findings of all kinds, which are told together. Clones share them.
#[derive(Clone)]
pub(super) struct Findings {
    source: SourceId,
    sink: Sink,
    /// Held while they are told, so that the newest are told last.
    found: Arc<Mutex<Found>>,
    /// Counts how often the API answered again.
    back: Arc<watch::Sender<u64>>,
}

/// Tells when an API that did not answer does so again.
pub(super) struct Back(watch::Receiver<u64>);

impl Back {
    /// Waits until the API answers again; no longer than until it did so since the last call.
    pub(super) async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// A kind, in one namespace or all.
type Place = (Kind, Option<Arc<str>>);

#[derive(Default)]
struct Found {
    by_kind: BTreeMap<Place, Vec<Diagnostic>>,
    /// Kinds that the API does not serve.
    absent: BTreeSet<Kind>,
    /// That the API does not answer at all.
    unreachable: Option<Diagnostic>,
}

impl Findings {
    pub(super) fn new(source: SourceId, sink: Sink) -> Self {
        Self {
            source,
            sink,
            found: Arc::default(),
            back: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Tells when an API that does not answer does so again.
    pub(super) fn back(&self) -> Back {
        Back(self.back.subscribe())
    }

    /// Replaces what is wrong with a kind.
    pub(super) async fn set(
        &self,
        kind: Kind,
        namespace: Option<Arc<str>>,
        new: Vec<Diagnostic>,
    ) -> Result<(), Closed> {
        let place = (kind, namespace);
        let mut found = self.found.lock().await;
        let known = found.by_kind.get(&place).map_or(&[][..], Vec::as_slice);
        if *known == *new {
            return Ok(());
        }
        found.by_kind.insert(place, new);
        self.tell(&found).await
    }

    /// Replaces why the API does not answer. The first that finds it out says so for all kinds.
    pub(super) async fn set_unreachable(&self, why: Option<Diagnostic>) -> Result<(), Closed> {
        let mut found = self.found.lock().await;
        if found.unreachable.is_some() == why.is_some() {
            return Ok(());
        }
        if why.is_none() {
            self.back.send_modify(|times| *times += 1);
        }
        found.unreachable = why;
        self.tell(&found).await
    }

    /// Whether the API serves a kind.
    pub(super) async fn set_absent(&self, kind: Kind, absent: bool) -> Result<(), Closed> {
        let mut found = self.found.lock().await;
        let differs = match absent {
            true => found.absent.insert(kind),
            false => found.absent.remove(&kind),
        };
        match differs {
            true => self.tell(&found).await,
            false => Ok(()),
        }
    }

    async fn tell(&self, found: &Found) -> Result<(), Closed> {
        let of_kinds = found.by_kind.values().flatten();
        // Troubles of kinds come before those of their objects.
        let absent = absent(&found.absent);
        let all = found.unreachable.iter().chain(&absent).chain(of_kinds);
        let all = all.cloned();
        let all = all.take(MOST);
        let told = SourceEvent::Findings(self.source.clone(), all.collect());
        self.sink.send(told).await
    }
}

/// The kinds that are not served, as one finding.
fn absent(kinds: &BTreeSet<Kind>) -> Option<Diagnostic> {
    if kinds.is_empty() {
        return None;
    }
    let names: Vec<String> = kinds
        .iter()
        .map(|kind| format!("{} ({})", kind.name(), kind.group()))
        .collect();
    let message = format!(
        "the cluster has no CustomResourceDefinition of {}: their objects are read once it has one",
        names.join(", ")
    );
    Some(Diagnostic::new(code::ABSENT, Severity::Info, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_not_served_are_one_finding() {
        assert_eq!(absent(&BTreeSet::new()), None);
        let kinds = BTreeSet::from([Kind::Gateway, Kind::KubeGateway]);
        assert_eq!(
            absent(&kinds)
                .map(|found| found.message.to_string())
                .as_deref(),
            Some(
                "the cluster has no CustomResourceDefinition of Gateway (networking.istio.io), Gateway \
                 (gateway.networking.k8s.io): their objects are read once it has one"
            )
        );
    }
}
