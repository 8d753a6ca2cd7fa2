//! Watches: what is there, then what happens.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::list::too_large;
use super::{Api, Call, Response, body, output, table};
use crate::resource::Resource;
use crate::selector::Selector;
use crate::status::Failure;
use crate::store::{Event, EventKind, ResourceName, Store, Stored};

/// How often a quiet watch is told the newest revision.
const BOOKMARK: Duration = Duration::from_secs(60);
/// How long a watch lasts that does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The longest that a watch may ask for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Watches that are served at once.
pub(super) const MOST: usize = 10_000;
/// The bytes that are sent at once.
const CHUNK: usize = 64 << 10;

struct Watcher {
    store: Store,
    resource: Arc<Resource>,
    name: ResourceName,
    version: String,
    namespace: Option<String>,
    selector: Selector,
    table: Option<(table::Form, super::Query)>,
    bookmarks: bool,
    /// Everything up to here was sent.
    seen: u64,
}

impl Api {
    pub(super) fn watch(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let query = &call.request.query;
        let selector = Self::selector(call)?;
        let initial = query.flag("sendInitialEvents");
        if initial && query.get("resourceVersionMatch") != "NotOlderThan" {
            let message = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(Failure::new(
                http::StatusCode::UNPROCESSABLE_ENTITY,
                "Invalid",
                message,
            ));
        }
        let asked: u64 = match query.get("resourceVersion") {
            "" => 0,
            text => text
                .parse()
                .map_err(|_| Failure::bad_request(format!("invalid resource version {text:?}")))?,
        };
        let timeout = match query.get("timeoutSeconds") {
            "" => DEFAULT_TIMEOUT,
            text => Duration::from_secs(
                text.parse()
                    .map_err(|_| Failure::bad_request("timeoutSeconds is no number"))?,
            )
            .min(LONGEST),
        };
        let Ok(place) = self.watches.clone().try_acquire_owned() else {
            return Err(Failure::too_many());
        };
        // Whoever asks for initial events, or names no revision, is told first what is there.
        let state_first = initial || (asked == 0 && !query.has("sendInitialEvents"));
        let mut watcher = Watcher {
            store: self.store.clone(),
            name: call.resource.name().clone(),
            resource: call.resource.clone(),
            version: call.version.clone(),
            namespace: call.namespace.clone(),
            selector,
            table: table::Form::asked(&call.request.accept).map(|form| (form, query.clone())),
            bookmarks: query.flag("allowWatchBookmarks"),
            seen: asked,
        };
        let (send, pieces) = mpsc::channel(16);
        let revisions = self.store.revisions();
        {
            let memory = self.store.read();
            if asked > memory.revision() {
                return Err(too_large(asked, memory.revision()));
            }
            if !state_first && asked > 0 && memory.events_after(asked).is_none() {
                let newest = memory.revision();
                drop(memory);
                // As kube-apiserver does: the watch starts, and its first event says no.
                let failure =
                    Failure::expired(format!("too old resource version: {asked} ({newest})"));
                let _ = send.try_send(line("ERROR", failure.to_json().to_string().as_bytes()));
                return Ok(body::pieces(pieces));
            }
            if !state_first && asked == 0 {
                watcher.seen = memory.revision();
            }
        }
        let end = Instant::now() + timeout;
        tokio::spawn(async move {
            let _place = place;
            if state_first && watcher.send_state(&send, initial).await.is_none() {
                return;
            }
            watcher.run(send, revisions, end).await;
        });
        Ok(body::pieces(pieces))
    }
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut text = BytesMut::with_capacity(object.len() + 40);
    put_line(&mut text, kind, object);
    text.freeze()
}

fn put_line(text: &mut BytesMut, kind: &str, object: &[u8]) {
    text.put_slice(b"{\"type\":\"");
    text.put_slice(kind.as_bytes());
    text.put_slice(b"\",\"object\":");
    text.put_slice(object);
    text.put_slice(b"}\n");
}

impl Watcher {
    /// Sends what is there; `None` where nobody listens any more.
    async fn send_state(&mut self, send: &mpsc::Sender<Bytes>, mark: bool) -> Option<()> {
        let objects: Vec<Arc<Stored>> = {
            let memory = self.store.read();
            self.seen = memory.revision();
            let all = memory.list(&self.name, self.namespace.as_deref(), None);
            all.filter(|(id, stored)| self.selector.matches(id, stored))
                .map(|(_, s)| s.clone())
                .collect()
        };
        let mut text = BytesMut::new();
        for stored in &objects {
            put_line(&mut text, "ADDED", &self.shown(stored));
            if text.len() > CHUNK {
                send.send(text.split().freeze()).await.ok()?;
            }
        }
        if mark {
            put_line(&mut text, "BOOKMARK", &self.bookmark(true));
        }
        if !text.is_empty() {
            send.send(text.freeze()).await.ok()?;
        }
        Some(())
    }

    async fn run(
        mut self,
        send: mpsc::Sender<Bytes>,
        mut revisions: watch::Receiver<u64>,
        end: Instant,
    ) {
        let mut quiet_since = Instant::now();
        loop {
            revisions.mark_unchanged();
            let (text, expired) = self.next();
            if let Some(text) = text {
                quiet_since = Instant::now();
                if send.send(text).await.is_err() {
                    return;
                }
            }
            if expired {
                return;
            }
            let mark_at = quiet_since + BOOKMARK;
            tokio::select! {
                changed = revisions.changed() => if changed.is_err() { return },
                () = send.closed() => return,
                () = tokio::time::sleep_until(mark_at.min(end)) => {
                    if self.bookmarks {
                        let mark = line("BOOKMARK", &self.bookmark(false));
                        if send.send(mark).await.is_err() {
                            return;
                        }
                    }
                    if Instant::now() >= end {
                        return;
                    }
                    quiet_since = Instant::now();
                }
            }
        }
    }

    /// The lines of what happened since, and whether the watch has to end because it fell behind.
    fn next(&mut self) -> (Option<Bytes>, bool) {
        let mut text = BytesMut::new();
        let events: Option<(u64, Vec<Event>)> = {
            let memory = self.store.read();
            let mine = |e: &&Event| {
                e.resource == self.name
                    && self
                        .namespace
                        .as_deref()
                        .is_none_or(|n| *e.id.namespace == *n)
            };
            memory
                .events_after(self.seen)
                .map(|events| (memory.revision(), events.filter(mine).cloned().collect()))
        };
        let Some((revision, events)) = events else {
            let failure = Failure::expired(format!("too old resource version: {}", self.seen));
            return (
                Some(line("ERROR", failure.to_json().to_string().as_bytes())),
                true,
            );
        };
        self.seen = revision;
        for event in &events {
            if let Some(kind) = self.seen_as(event) {
                put_line(&mut text, kind, &self.shown(&event.object));
            }
        }
        ((!text.is_empty()).then(|| text.freeze()), false)
    }

    /// What an event is to somebody who sees selected objects only.
    fn seen_as(&self, event: &Event) -> Option<&'static str> {
        let matches =
            |stored: &Stored| self.selector.is_empty() || self.selector.matches(&event.id, stored);
        let before = match (&event.before, event.kind) {
            (Some(before), _) => matches(before),
            (None, EventKind::Added) => false,
            // What it was before is not known; to delete what was never there does no harm.
            (None, _) => true,
        };
        let after = event.kind != EventKind::Deleted && matches(&event.object);
        match (before, after) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }

    fn shown(&self, stored: &Arc<Stored>) -> Bytes {
        match &self.table {
            None => output(&self.resource, &self.version, stored),
            Some((form, query)) => {
                let one = std::slice::from_ref(stored);
                table::of(one, &self.resource, &self.version, *form, query, None)
                    .to_string()
                    .into()
            }
        }
    }

    fn bookmark(&self, initial_end: bool) -> Vec<u8> {
        let mut object = json!({
            "kind": &*self.resource.kind,
            "apiVersion": self.resource.api_version(&self.version),
            "metadata": {"resourceVersion": self.seen.to_string(), "creationTimestamp": null},
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        if let Some((form, query)) = &self.table {
            let meta = object["metadata"].take();
            object = match form {
                table::Form::Metadata => table::of_metadata(meta),
                _ => table::of(&[], &self.resource, &self.version, *form, query, Some(meta)),
            };
        }
        object.to_string().into_bytes()
    }
}
