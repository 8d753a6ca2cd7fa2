//! Where sources send their events, and the one bound on what waits there.

use std::sync::Arc;

use model::Owner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::SourceEvent;

/// An event on its way, with its room in the queue: whoever takes the event keeps the room until its changes are applied.
#[derive(Debug)]
pub struct Delivery {
    /// Who sent it.
    pub owner: Owner,
    /// Which run of the source sent it.
    pub run: u64,
    /// What was sent.
    pub event: SourceEvent,
    /// Its room.
    pub room: Room,
}

/// The room of an event in the queue, which is given back when this is dropped.
#[derive(Debug)]
pub struct Room {
    _of_all: OwnedSemaphorePermit,
    _part: Option<Part>,
}

impl From<OwnedSemaphorePermit> for Room {
    fn from(of_all: OwnedSemaphorePermit) -> Self {
        Self {
            _of_all: of_all,
            _part: None,
        }
    }
}

/// The turn of a part of something large: no other part of the same run waits in the queue.
#[derive(Debug)]
pub struct Part {
    _turn: Option<OwnedSemaphorePermit>,
}

/// Nobody listens any more.
#[derive(Debug, thiserror::Error)]
#[error("nobody listens to the sources any more")]
pub struct Closed;

/// Where one run of a source sends its events. Sending waits while too many events, of all sources together, were not yet
/// applied.
#[derive(Clone, Debug)]
pub struct Sink {
    owner: Owner,
    run: u64,
    queue: mpsc::UnboundedSender<Delivery>,
    room: Arc<Semaphore>,
    /// One turn.
    parts: Arc<Semaphore>,
}

impl Sink {
    /// A sink that sends to `queue` as long as there is `room`.
    pub fn new(
        owner: Owner,
        run: u64,
        queue: mpsc::UnboundedSender<Delivery>,
        room: Arc<Semaphore>,
    ) -> Self {
        Self {
            owner,
            run,
            queue,
            room,
            parts: Arc::new(Semaphore::new(1)),
        }
    }

    /// A sink by itself, and what comes out of it.
    pub fn channel(owner: Owner, room: usize) -> (Self, mpsc::UnboundedReceiver<Delivery>) {
        let (queue, deliveries) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(room));
        (Self::new(owner, 0, queue, room), deliveries)
    }

    /// Sends an event once there is room.
    ///
    /// # Errors
    ///
    /// When nobody listens any more.
    pub async fn send(&self, event: SourceEvent) -> Result<(), Closed> {
        self.send_in(None, event).await
    }

    /// As [`Sink::send`], for a part of something large whose turn it is.
    ///
    /// # Errors
    ///
    /// When nobody listens any more.
    pub async fn send_in(&self, part: Option<Part>, event: SourceEvent) -> Result<(), Closed> {
        let of_all = self.room.clone().acquire_owned().await;
        let delivery = Delivery {
            owner: self.owner.clone(),
            run: self.run,
            event,
            room: Room {
                _of_all: of_all.map_err(|_| Closed)?,
                _part: part,
            },
        };
        self.queue.send(delivery).map_err(|_| Closed)
    }

    /// Resolves when the part that was sent last is being applied. Whoever has more to say than can be applied at once says it in
    /// parts, so that what others say comes in between.
    pub async fn part(&self) -> Part {
        Part {
            // It is never closed.
            _turn: self.parts.clone().acquire_owned().await.ok(),
        }
    }

    /// Resolves when nobody listens any more.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }
}
