//! What is wrong with a cluster, gathered from all kinds.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Diagnostic, Kind, SourceId};
use sources::{Closed, Sink, SourceEvent};
use tokio::sync::Mutex;

/// The findings of all kinds, which are told together. Clones share them.
#[derive(Clone)]
pub(super) struct Findings {
    source: SourceId,
    sink: Sink,
    /// Held while they are told, so that the newest are told last.
    found: Arc<Mutex<Found>>,
}

#[derive(Default)]
struct Found {
    by_kind: BTreeMap<Kind, Vec<Diagnostic>>,
    /// That the API does not answer at all.
    unreachable: Option<Diagnostic>,
}

impl Findings {
    pub(super) fn new(source: SourceId, sink: Sink) -> Self {
        Self {
            source,
            sink,
            found: Arc::default(),
        }
    }

    /// Replaces what is wrong with a kind.
    pub(super) async fn set(&self, kind: Kind, new: Vec<Diagnostic>) -> Result<(), Closed> {
        let mut found = self.found.lock().await;
        let known = found.by_kind.get(&kind).map_or(&[][..], Vec::as_slice);
        if *known == *new {
            return Ok(());
        }
        found.by_kind.insert(kind, new);
        self.tell(&found).await
    }

    /// Replaces why the API does not answer. The first that finds it out says so for all kinds.
    pub(super) async fn set_unreachable(&self, why: Option<Diagnostic>) -> Result<(), Closed> {
        let mut found = self.found.lock().await;
        if found.unreachable.is_some() == why.is_some() {
            return Ok(());
        }
        found.unreachable = why;
        self.tell(&found).await
    }

    async fn tell(&self, found: &Found) -> Result<(), Closed> {
        let of_kinds = found.by_kind.values().flatten();
        let all = found.unreachable.iter().chain(of_kinds).cloned();
        let told = SourceEvent::Findings(self.source.clone(), all.collect());
        self.sink.send(told).await
    }
}
