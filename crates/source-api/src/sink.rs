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
    pub room: OwnedSemaphorePermit,
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
        let room = self.room.clone().acquire_owned().await;
        let delivery = Delivery {
            owner: self.owner.clone(),
            run: self.run,
            event,
            room: room.map_err(|_| Closed)?,
        };
        self.queue.send(delivery).map_err(|_| Closed)
    }

    /// Resolves when nobody listens any more.
    pub async fn closed(&self) {
        self.queue.closed().await;
    }
}
