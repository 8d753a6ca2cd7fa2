//! Watches: what there is if that is asked for, then what happens, until something goes wrong.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::connection::{Connection, Ended, shown, status};
use super::request::Asked;
use super::world::Resource;
use super::{Blow, Mishap};

/// Longer than a schedule, where the client names no time.
const TIMEOUT: u64 = 300;

struct Watch<'a> {
    connection: &'a mut Connection,
    asked: &'a Asked,
    resource: &'static Resource,
    namespace: &'a str,
    /// What was sent.
    seen: u64,
    /// How many bytes may still be sent.
    left: usize,
    /// Whether the next event is not to be read.
    garbled: bool,
}

pub(super) async fn serve(
    connection: &mut Connection,
    asked: &Asked,
    resource: &'static Resource,
    namespace: &str,
    mishap: Option<Mishap>,
) -> Result<(), Ended> {
    let wanted = asked.parameter("resourceVersion").parse().unwrap_or(0_u64);
    let initial = asked.is("sendInitialEvents");
    let (forgotten, streaming, now) = {
        let world = connection.shared.world.lock().unwrap();
        (
            world.is_forgotten(wanted),
            world.streaming,
            world.revision(),
        )
    };
    if initial && !streaming {
        return connection.status(422, None).await;
    }
    // Before anything is read, so that no blow and no change is missed.
    let blows = connection.shared.blows.subscribe();
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.write(head.as_bytes()).await?;
    let mut watch = Watch {
        connection,
        asked,
        resource,
        namespace,
        seen: wanted,
        left: match mishap {
            Some(Mishap::Cut(after)) => after,
            _ => usize::MAX,
        },
        garbled: false,
    };
    match mishap {
        Some(Mishap::Short) => return watch.end().await,
        Some(Mishap::Garbage) => {
            watch.chunk(b"<html>Bad gateway</html>\n").await?;
            return watch.end().await;
        }
        Some(Mishap::Nonsense) => {
            watch.chunk(b"{\"type\":\"LUNCH\",\"object\":7}\n").await?;
            return watch.end().await;
        }
        _ => {}
    }
    if initial || wanted == 0 {
        watch.what_there_is(initial).await?;
    } else if forgotten {
        watch.event("ERROR", &status(410)).await?;
        return watch.end().await;
    } else if wanted > now {
        watch.event("ERROR", &status(504)).await?;
        return watch.end().await;
    }
    watch.follow(blows).await
}

impl Watch<'_> {
    async fn what_there_is(&mut self, initial: bool) -> Result<(), Ended> {
        let (now, objects) = {
            let world = self.connection.shared.world.lock().unwrap();
            (world.revision(), world.list(self.resource, self.namespace))
        };
        for object in objects {
            self.event("ADDED", &shown(object, self.asked)).await?;
        }
        self.seen = now;
        if initial {
            self.bookmark(json!({"k8s.io/initial-events-end": "true"}))
                .await?;
        }
        Ok(())
    }

    async fn follow(&mut self, mut blows: broadcast::Receiver<Blow>) -> Result<(), Ended> {
        let mut revisions = self.connection.shared.revision.subscribe();
        let seconds = self
            .asked
            .parameter("timeoutSeconds")
            .parse()
            .unwrap_or(TIMEOUT);
        let until = Instant::now() + Duration::from_secs(seconds);
        loop {
            revisions.borrow_and_update();
            self.news().await?;
            tokio::select! {
                changed = revisions.changed() => changed.map_err(|_| Ended)?,
                blow = blows.recv() => self.take(blow.map_err(|_| Ended)?).await?,
                () = tokio::time::sleep_until(until) => return self.end().await,
            }
        }
    }

    async fn news(&mut self) -> Result<(), Ended> {
        let (now, events) = {
            let world = self.connection.shared.world.lock().unwrap();
            let events = world.since(self.resource, self.namespace, self.seen);
            (world.revision(), events)
        };
        for event in events {
            self.event(event.how, &shown(event.object, self.asked))
                .await?;
            self.seen = event.revision;
        }
        self.seen = now;
        Ok(())
    }

    async fn take(&mut self, blow: Blow) -> Result<(), Ended> {
        match blow {
            Blow::Reset => Err(Ended),
            Blow::HalfAnEvent => {
                self.chunk(b"{\"type\":\"MODIFIED\",\"object\":{\"kind\":")
                    .await?;
                Err(Ended)
            }
            Blow::Garbage => self.chunk(b"\x00\xff}{ not json\n").await,
            Blow::GarbledEvent => {
                self.garbled = true;
                Ok(())
            }
            Blow::Expired => {
                self.event("ERROR", &status(410)).await?;
                self.end().await?;
                Err(Ended)
            }
            Blow::Failed => self.event("ERROR", &status(500)).await,
            Blow::End => {
                self.end().await?;
                Err(Ended)
            }
            Blow::Bookmark => self.bookmark(json!({})).await,
            Blow::Bookmarks => {
                for _ in 0..3 {
                    self.bookmark(json!({})).await?;
                }
                Ok(())
            }
        }
    }

    async fn bookmark(&mut self, annotations: Value) -> Result<(), Ended> {
        if !self.asked.is("allowWatchBookmarks") {
            return Ok(());
        }
        let meta = json!({"resourceVersion": self.seen.to_string(), "annotations": annotations});
        let object = json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": meta});
        self.event("BOOKMARK", &object).await
    }

    async fn event(&mut self, how: &str, object: &Value) -> Result<(), Ended> {
        let mut line = format!("{}\n", json!({"type": how, "object": object}));
        if std::mem::take(&mut self.garbled) {
            line = line.replace(':', ";");
        }
        self.chunk(line.as_bytes()).await
    }

    async fn chunk(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let cut = bytes.len() >= self.left;
        let part = &bytes[..bytes.len().min(self.left)];
        self.left -= part.len();
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(part);
        if cut {
            self.connection.write(&framed).await?;
            return Err(Ended);
        }
        framed.extend_from_slice(b"\r\n");
        self.connection.write(&framed).await
    }

    /// The end of the answer, in order; the connection may be used again.
    async fn end(&mut self) -> Result<(), Ended> {
        self.connection.write(b"0\r\n\r\n").await
    }
}
