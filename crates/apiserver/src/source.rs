//! The store as a source of configuration, like a folder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::kinds::Kind;
use model::object::{ObjectKey, ObjectName};
use model::parse::{Validation, code};
use model::{Change, Collection, Contents, Diagnostic, Origin, Owner, Severity};
use source_api::{Running, Sink, Source, SourceError, SourceEvent};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::object::meta_mut;
use crate::resource::Catalog;
use crate::store::{EventKind, ObjectId, ResourceName, Store, Stored};

/// How many objects are told at once while everything is told.
const PART: usize = 2048;
/// A kind that is stored for clients, and that stands for endpoints elsewhere.
const ENDPOINTS: &str = "endpoints";
/// What its authors are told.
pub(crate) const INSTEAD_OF_ENDPOINTS: &str =
    "write an EndpointSlice of discovery.k8s.io/v1 with the label kubernetes.io/service-name";
/// How many such parts may wait to be told.
const PARTS: usize = 4;

/// The objects that generation reads, as a source.
pub struct ApiSource {
    owner: Owner,
    store: Store,
    kinds: BTreeMap<ResourceName, Kind>,
    findings: BTreeMap<ObjectKey, Vec<Diagnostic>>,
    seen: u64,
}

impl ApiSource {
    /// The source of a store under a name and rank.
    pub fn new(owner: impl Into<Owner>, store: Store) -> Self {
        let catalog = Catalog::default();
        let kinds = catalog
            .all()
            .filter_map(|r| Some((r.name().clone(), r.model?)))
            .collect();
        Self {
            owner: owner.into(),
            store,
            kinds,
            findings: BTreeMap::new(),
            seen: 0,
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Tells what is stored, then what changes, until `stop`.
    async fn tell(mut self, sink: Sink, stop: CancellationToken) -> Result<(), SourceError> {
        let mut revisions = self.store.revisions();
        self.tell_all(&sink).await?;
        loop {
            tokio::select! {
                changed = revisions.changed() => changed.map_err(|_| SourceError::new("the store of the API is closed"))?,
                () = stop.cancelled() => return Ok(()),
            }
            revisions.mark_unchanged();
            self.tell_changes(&sink).await?;
        }
    }

    fn own_collections(&self) -> impl Iterator<Item = Collection> {
        let all = Source::collections(self).into_iter();
        all.map(|of| Collection {
            owner: self.owner.clone(),
            of,
        })
    }

    async fn tell_all(&mut self, sink: &Sink) -> Result<(), SourceError> {
        let all: Vec<(Kind, ObjectId, Arc<Stored>)> = {
            let memory = self.store.read();
            self.seen = memory.revision();
            let of = |(name, kind): (&ResourceName, &Kind)| {
                let kind = *kind;
                let list = memory.list(name, None, None);
                list.map(move |(id, s)| (kind, id.clone(), s.clone()))
                    .collect::<Vec<_>>()
            };
            self.kinds.iter().flat_map(of).collect()
        };
        self.findings.clear();
        let (send, mut parts) = mpsc::channel(PARTS);
        let owner = self.owner.clone();
        let reading = tokio::task::spawn_blocking(move || read_all(&owner, &all, &send));
        while let Some(part) = parts.recv().await {
            let mut changes = Vec::with_capacity(part.len());
            for (key, change, found) in part {
                if !found.is_empty() {
                    self.findings.insert(key, found);
                }
                changes.push(change);
            }
            sink.send(SourceEvent::Changes(changes)).await?;
        }
        reading.await.map_err(SourceError::new)?;
        let synced = self.own_collections().map(Change::Synced).collect();
        sink.send(SourceEvent::Changes(synced)).await?;
        self.tell_findings(sink).await
    }

    async fn tell_findings(&self, sink: &Sink) -> Result<(), SourceError> {
        let mut all: Vec<Diagnostic> = self.findings.values().flatten().cloned().collect();
        all.extend(self.unread());
        let id = self.owner.source.clone();
        Ok(sink.send(SourceEvent::Findings(id, all)).await?)
    }

    /// What is stored and read by nobody, though its authors may expect it.
    fn unread(&self) -> Vec<Diagnostic> {
        let memory = self.store.read();
        let stored = memory.list(&ENDPOINTS.into(), None, None);
        stored
            .map(|(id, _)| {
                let message = format!("Endpoints {}/{} is not read", id.namespace, id.name);
                let mut found = Diagnostic::new(code::UNKNOWN_KIND, Severity::Warning, message);
                found.help = Some(INSTEAD_OF_ENDPOINTS.into());
                found.origin = Some(Origin::Source(self.owner.source.clone()));
                found
            })
            .collect()
    }

    async fn tell_changes(&mut self, sink: &Sink) -> Result<(), SourceError> {
        let mut findings_differ = false;
        let events: Option<Vec<_>> = {
            let memory = self.store.read();
            let events = memory.events_after(self.seen);
            let seen = memory.revision();
            let ours = events.map(|all| {
                let all = all.inspect(|e| findings_differ |= e.resource.as_str() == ENDPOINTS);
                let known = all.filter_map(|e| Some((*self.kinds.get(&e.resource)?, e.clone())));
                known.collect()
            });
            if ours.is_some() {
                self.seen = seen;
            }
            ours
        };
        let Some(events) = events else {
            // Too far behind to be told one by one.
            let restart = self.own_collections().map(Change::Restart).collect();
            sink.send(SourceEvent::Changes(restart)).await?;
            return self.tell_all(sink).await;
        };
        let mut changes = Vec::with_capacity(events.len());
        for (kind, event) in events {
            let key = key(kind, &event.id);
            let known = self.findings.remove(&key);
            if event.kind == EventKind::Deleted {
                findings_differ |= known.is_some();
                changes.push(Change::Delete(self.owner.clone(), key));
                continue;
            }
            let (change, found) = read(&self.owner, key.clone(), &event.object);
            findings_differ |= known.unwrap_or_default() != found;
            if !found.is_empty() {
                self.findings.insert(key, found);
            }
            changes.push(change);
        }
        if !changes.is_empty() {
            sink.send(SourceEvent::Changes(changes)).await?;
        }
        if findings_differ {
            self.tell_findings(sink).await?;
        }
        Ok(())
    }
}

impl Source for ApiSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        let kinds = self.kinds.values();
        kinds.map(|kind| Contents::Objects(*kind)).collect()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(self.tell(out, stop))
    }
}

fn key(kind: Kind, id: &ObjectId) -> ObjectKey {
    ObjectKey {
        kind,
        name: ObjectName::new(&*id.namespace, &*id.name),
    }
}

type Read = (ObjectKey, Change, Vec<Diagnostic>);

/// Reads objects on every core, part by part, so that those that are read are put to use while others are read.
fn read_all(owner: &Owner, all: &[(Kind, ObjectId, Arc<Stored>)], send: &mpsc::Sender<Vec<Read>>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<_> = all.chunks(PART).collect();
    let next = AtomicUsize::new(0);
    let one = |(kind, id, stored): &(Kind, ObjectId, Arc<Stored>)| {
        let key = key(*kind, id);
        let (change, found) = read(owner, key.clone(), stored);
        (key, change, found)
    };
    let work = || {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = part.iter().map(one).collect();
            if send.blocking_send(read).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(parts.len()) {
            scope.spawn(work);
        }
    });
}

fn read(owner: &Owner, key: ObjectKey, stored: &Stored) -> (Change, Vec<Diagnostic>) {
    let mut object = stored.value();
    // Nothing in it means anything to generation, and it is long.
    meta_mut(&mut object).remove("managedFields");
    source_api::object::read(owner, key, object, Validation::Warn)
}
