//! Watches: what is there, then what happens.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::implied::{Implied, Row, Shown, with_implied};
use super::list::too_large;
use super::{Api, Call, Query, Response, body, output, table};
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
/// The bytes that are sent at once, and an object more.
const CHUNK: usize = 64 << 10;
/// Chunks that wait to be taken. A client that is behind gets what it missed from the store, chunk by chunk, and 410 when
/// the store remembers it no longer.
const WAITING: usize = 2;

struct Watcher {
    store: Store,
    implied: Implied,
    /// What the control plane shows of this resource, and all of it.
    known: Option<Arc<[Row]>>,
    shows: watch::Receiver<Shown>,
    resource: Arc<Resource>,
    name: ResourceName,
    version: String,
    namespace: Option<String>,
    selector: Selector,
    table: Option<(table::Form, Query)>,
    bookmarks: bool,
    /// Everything up to here was sent.
    seen: u64,
    /// How long a client may take nothing.
    stall: Duration,
}

/// What there is to be told.
enum Next {
    /// Lines, perhaps none; the flag says that there is more.
    Lines(Bytes, bool),
    /// The last line: the watch fell behind.
    Expired(Bytes),
}

/// The revision that a watch is to begin after; 0 where it names none.
fn revision(query: &Query) -> Result<u64, Failure> {
    match query.get("resourceVersion") {
        "" => Ok(0),
        text => text
            .parse()
            .map_err(|_| Failure::bad_request(format!("invalid resource version {text:?}"))),
    }
}

/// How long a watch is to last.
fn timeout(query: &Query) -> Result<Duration, Failure> {
    match query.get("timeoutSeconds") {
        "" => Ok(DEFAULT_TIMEOUT),
        text => {
            let seconds = text.parse();
            let seconds =
                seconds.map_err(|_| Failure::bad_request("timeoutSeconds is no number"))?;
            Ok(Duration::from_secs(seconds).min(LONGEST))
        }
    }
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
        let (asked, timeout) = (revision(query)?, timeout(query)?);
        let who = call.who();
        let place = match who.is_master() {
            true => self.watches().take_exempt(who.name.clone()),
            false => self.watches().take(who.name.clone()),
        };
        let place = place.ok_or_else(Failure::too_many)?;
        let mut granted = self.granted.subscribe();
        // Whoever asks for initial events, or names no revision, is told first what is there.
        let state_first = initial || (asked == 0 && !query.has("sendInitialEvents"));
        // Before what is there is read.
        let shows = self.implied.shows();
        let known = shows.borrow().get(call.resource.name()).cloned();
        let mut watcher = Watcher {
            store: self.store.clone(),
            known,
            shows,
            implied: self.implied.clone(),
            name: call.resource.name().clone(),
            resource: call.resource.clone(),
            version: call.version.clone(),
            namespace: call.namespace.clone(),
            selector,
            table: table::Form::asked(&call.request.accept).map(|form| (form, query.clone())),
            bookmarks: query.flag("allowWatchBookmarks"),
            seen: asked,
            stall: self.limits().stall,
        };
        let (send, pieces) = mpsc::channel(WAITING);
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
            let serving = async {
                if state_first && watcher.send_state(&send, initial).await.is_none() {
                    return;
                }
                watcher.run(send, revisions, end).await;
            };
            tokio::select! {
                () = serving => {}
                // Whether it is still allowed is looked at when the client asks anew.
                _ = granted.changed() => {}
            }
        });
        Ok(body::pieces(pieces))
    }
}

fn same_rows(a: Option<&Arc<[Row]>>, b: Option<&Arc<[Row]>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
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
    /// Sends a piece; `None` where nobody listens any more, or takes nothing for too long.
    async fn send(&self, to: &mpsc::Sender<Bytes>, piece: Bytes) -> Option<()> {
        to.send_timeout(piece, self.stall).await.ok()
    }

    /// Sends what is there; `None` where nobody listens any more.
    async fn send_state(&mut self, send: &mpsc::Sender<Bytes>, mark: bool) -> Option<()> {
        let objects: Vec<Arc<Stored>> = {
            let memory = self.store.read();
            self.seen = memory.revision();
            let namespace = self.namespace.as_deref();
            let implied = self.implied.all(&memory, &self.name, namespace, None);
            let all = with_implied(memory.list(&self.name, namespace, None), &implied);
            all.filter(|(id, stored)| self.selector.matches(id, stored))
                .map(|(_, s)| s.clone())
                .collect()
        };
        let mut text = BytesMut::new();
        for stored in &objects {
            put_line(&mut text, "ADDED", &self.shown(stored));
            if text.len() > CHUNK {
                self.send(send, text.split().freeze()).await?;
            }
        }
        if mark {
            put_line(&mut text, "BOOKMARK", &self.bookmark(true));
        }
        if !text.is_empty() {
            self.send(send, text.freeze()).await?;
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
            match self.next() {
                Next::Expired(line) => {
                    let _ = self.send(&send, line).await;
                    return;
                }
                Next::Lines(text, more) => {
                    if !text.is_empty() {
                        quiet_since = Instant::now();
                        if self.send(&send, text).await.is_none() {
                            return;
                        }
                    }
                    if more {
                        // What others have to do comes first.
                        tokio::task::yield_now().await;
                        continue;
                    }
                }
            }
            let mark_at = quiet_since + BOOKMARK;
            tokio::select! {
                changed = revisions.changed() => if changed.is_err() { return },
                // The sender is in `self`.
                _ = self.shows.changed() => {
                    let now = self.shows.borrow_and_update().get(&self.name).cloned();
                    if !same_rows(self.known.as_ref(), now.as_ref()) {
                        let why = "what the control plane shows has changed";
                        let told = Failure::expired(why.to_owned()).to_json().to_string();
                        let _ = self.send(&send, line("ERROR", told.as_bytes())).await;
                        return;
                    }
                }
                () = send.closed() => return,
                () = tokio::time::sleep_until(mark_at.min(end)) => {
                    if self.bookmarks {
                        let mark = line("BOOKMARK", &self.bookmark(false));
                        if self.send(&send, mark).await.is_none() {
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

    /// The lines of what happened since, up to a chunk.
    fn next(&mut self) -> Next {
        let mut text = BytesMut::new();
        let mut events: Vec<Event> = Vec::new();
        let mut bytes = 0;
        {
            let memory = self.store.read();
            let Some(all) = memory.events_after(self.seen) else {
                let failure = Failure::expired(format!("too old resource version: {}", self.seen));
                let told = failure.to_json().to_string();
                return Next::Expired(line("ERROR", told.as_bytes()));
            };
            let mine = all
                .filter_map(|e| self.implied.seen(&memory, &self.name, e))
                .filter(|e| {
                    let namespace = self.namespace.as_deref();
                    namespace.is_none_or(|n| *e.id.namespace == *n)
                });
            let mut seen = memory.revision();
            for event in mine {
                if bytes > CHUNK {
                    seen = event.object.revision - 1;
                    break;
                }
                bytes += event.object.json.len();
                events.push(event);
            }
            self.seen = seen;
        }
        for event in &events {
            if let Some(kind) = self.seen_as(event) {
                put_line(&mut text, kind, &self.shown(&event.object));
            }
        }
        Next::Lines(text.freeze(), bytes > CHUNK)
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
