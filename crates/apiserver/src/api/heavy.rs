//! Work that may take a second: it is done beside the threads that serve sockets, a little at a time.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::Failure;

/// Bodies and objects above this are worked on aside.
pub(super) const BYTES: usize = 32 << 10;
/// Requests that may wait for it.
const WAITING: usize = 64;

tokio::task_local! {
    /// The room that work has, and where it is from.
    static ROOM: RefCell<(Arc<Semaphore>, Option<OwnedSemaphorePermit>)>;
}

/// Waits for something that others do, without keeping the room from other work.
pub(super) async fn outside<T>(waiting: impl Future<Output = T>) -> T {
    let given_back = ROOM.try_with(|room| room.borrow_mut().1.take().is_some());
    let done = waiting.await;
    if given_back != Ok(true) {
        return done;
    }
    let rooms = ROOM.with(|room| room.borrow().0.clone());
    if let Ok(again) = rooms.acquire_owned().await {
        ROOM.with(|room| room.borrow_mut().1 = Some(again));
    }
    done
}

/// Room for heavy work.
pub(super) struct Heavy {
    working: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Heavy {
    /// Half of the cores, so that the other half answers whatever else is asked.
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            working: Arc::new(Semaphore::new((cores / 2).max(1))),
            waiting: Semaphore::new(WAITING),
        }
    }

    /// Does work aside when there is room. Once begun it is finished, whether or not anybody waits for it.
    ///
    /// # Errors
    ///
    /// When too many wait already, or the work panics.
    pub(super) async fn run<T, F>(
        &self,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = T>,
    {
        let room = {
            let _place = self
                .waiting
                .try_acquire()
                .map_err(|_| Failure::too_many())?;
            let room = self.working.clone().acquire_owned().await;
            room.map_err(|_| Failure::internal("the server stops"))?
        };
        let runtime = Handle::current();
        let room = RefCell::new((self.working.clone(), Some(room)));
        let done = tokio::task::spawn_blocking(move || {
            runtime.block_on(async { ROOM.scope(room, work()).await })
        });
        done.await
            .map_err(|_| Failure::internal("the request could not be worked on"))
    }
}
