//! What comes of one kind at once, and what it is read as.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, Stream, StreamExt};
use kube::ResourceExt;
use kube::runtime::watcher::{Error, Event};
use model::object::{ObjectKey, ObjectName};
use model::parse::Validation;
use model::{Change, Collection, Contents, Diagnostic, Kind, Owner};
use serde_json::Value;

use super::definitions::{self, Definition};
use super::select;
use crate::item::{Item, drop_unread};

/// How many events are told at once.
const LARGEST: usize = 1024;

/// From so many objects on, they are read where waiting is no harm.
const MANY: usize = 16;

/// Events that came together, and what came after them if that was no event.
pub(super) struct Part {
    events: Vec<Event<Item>>,
    noticed: Instant,
    pub(super) failure: Option<Error>,
}

/// Of what, for whom and how events are read.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) kind: Kind,
    pub(super) version: &'static str,
    pub(super) owner: Owner,
    pub(super) validation: Validation,
    pub(super) revision: Arc<str>,
}

/// What events are read as.
#[derive(Default)]
pub(super) struct Read {
    pub(super) changes: Vec<Change>,
    /// What was found out about the objects.
    pub(super) news: Vec<News>,
    /// What happened to definitions of kinds that are read.
    pub(super) definitions: Vec<Definition>,
    pub(super) took: Duration,
}

/// What is known of findings about objects.
pub(super) enum News {
    /// All objects are told anew.
    Restarted,
    /// What is wrong with an object, if anything. It may be gone.
    Object(ObjectKey, Vec<Diagnostic>),
    /// All objects have been told.
    Synced,
}

impl Part {
    /// Waits for the next event, and takes with it what has come already.
    pub(super) async fn next(
        events: &mut (impl Stream<Item = Result<Event<Item>, Error>> + Unpin),
    ) -> Self {
        let mut part = Self {
            events: Vec::new(),
            noticed: Instant::now(),
            failure: None,
        };
        let mut next = events.next().await;
        part.noticed = Instant::now();
        loop {
            match next {
                Some(Ok(event)) => part.events.push(event),
                Some(Err(error)) => {
                    part.failure = Some(error);
                    return part;
                }
                // The stream does not end.
                None => return part,
            }
            if part.events.len() == LARGEST {
                return part;
            }
            match events.next().now_or_never() {
                Some(more) => next = more,
                None => return part,
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// When it was known that there is something to read.
    pub(super) fn noticed(&self) -> Instant {
        self.noticed
    }

    /// Reads the events.
    pub(super) async fn read(self, reading: &Reading) -> Read {
        if self.events.len() < MANY {
            return reading.read(self.events);
        }
        let reading = reading.clone();
        let read = tokio::task::spawn_blocking(move || reading.read(self.events));
        match read.await {
            Ok(read) => read,
            // As if it had panicked here.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Read::default(),
            },
        }
    }
}

impl Reading {
    fn collection(&self) -> Collection {
        Collection {
            owner: self.owner.clone(),
            of: Contents::Objects(self.kind),
        }
    }

    /// The collection is told anew.
    pub(super) fn restart(&self) -> Change {
        Change::Restart(self.collection())
    }

    /// The collection has been told whole.
    pub(super) fn synced(&self) -> Change {
        Change::Synced(self.collection())
    }

    fn read(&self, events: Vec<Event<Item>>) -> Read {
        let start = Instant::now();
        let mut read = Read::default();
        for event in events {
            match event {
                Event::Init => {
                    read.changes.push(self.restart());
                    read.news.push(News::Restarted);
                    read.definitions.push(Definition::Restarted);
                }
                Event::InitApply(item) | Event::Apply(item) => self.object(item, &mut read),
                Event::Delete(item) => {
                    let key = self.key(&item);
                    let defined = self.defines(&key);
                    read.definitions.extend(defined.map(Definition::Gone));
                    self.gone(key, &mut read);
                }
                Event::InitDone => {
                    read.changes.push(self.synced());
                    read.news.push(News::Synced);
                }
            }
        }
        read.took = start.elapsed();
        read
    }

    fn key(&self, item: &Item) -> ObjectKey {
        let namespace = item.namespace().unwrap_or_default();
        ObjectKey {
            kind: self.kind,
            name: ObjectName::new(namespace, item.name_any()),
        }
    }

    fn gone(&self, key: ObjectKey, read: &mut Read) {
        let gone = Change::Delete(self.owner.clone(), key.clone());
        read.changes.push(gone);
        read.news.push(News::Object(key, Vec::new()));
    }

    /// The kind that a definition defines, if this is one of a kind that is read.
    fn defines(&self, key: &ObjectKey) -> Option<Kind> {
        match key.kind {
            Kind::CustomResourceDefinition => definitions::kind(key.name.name.as_str()),
            _ => None,
        }
    }

    fn object(&self, item: Item, read: &mut Read) {
        let key = self.key(&item);
        let mut object = item.object;
        if !select::is_read(self.kind, &object, &self.revision) {
            // It may have been read before it changed.
            return self.gone(key, read);
        }
        if let Some(kind) = self.defines(&key) {
            let versions = definitions::served(kind, &object);
            read.definitions.push(Definition::Serves(kind, versions));
        }
        drop_unread(self.kind, &mut object);
        // Items of lists do not say what they are.
        object.insert("kind".into(), self.kind.name().into());
        object.insert("apiVersion".into(), self.api_version().into());
        let object = Value::Object(object);
        let (change, found) =
            source_api::object::read(&self.owner, key.clone(), object, self.validation);
        read.changes.push(change);
        read.news.push(News::Object(key, found));
    }

    /// `group/version`, as objects are written.
    pub(super) fn api_version(&self) -> String {
        match self.kind.group() {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}
