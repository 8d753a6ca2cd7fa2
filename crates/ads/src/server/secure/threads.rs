//! The threads that shake hands, at a lower priority than those that serve connections.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// How much lower the priority is. A thread that serves connections gets three quarters of a processor that both want; with more,
/// other programs of a busy machine would leave handshakes nothing.
const NICE: i32 = 5;
/// So many tasks get their turn before the thread looks for what has arrived.
const BURST: u32 = 8;

/// The turns of clients that begin.
///
/// When thousands come at once, those whose handshake is half done go first: otherwise all would be done at the end, and most
/// clients have given up by then.
#[derive(Debug)]
pub(in super::super) struct Turns(Semaphore);

/// A client's turn to begin.
pub(super) struct Turn<'a>(Option<SemaphorePermit<'a>>);

impl Turns {
    fn new() -> Self {
        Self(Semaphore::new(1))
    }

    /// Waits for those who came before.
    pub(super) async fn take(&self) -> Turn<'_> {
        // It is never closed.
        Turn(self.0.acquire().await.ok())
    }
}

impl Turn<'_> {
    /// Lets the next one begin, after all that has arrived meanwhile.
    pub(super) async fn pass_on(self) {
        tokio::task::yield_now().await;
        drop(self.0);
    }
}

struct Thread {
    handle: Handle,
    turns: Arc<Turns>,
}

/// All of them; they end when this is dropped.
pub(in super::super) struct Threads {
    list: Vec<Thread>,
    next: AtomicUsize,
    _until: DropGuard,
}

impl Threads {
    /// One for each processor.
    pub(super) fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let list = (0..count).map(|number| thread(number, stop.clone()));
        Ok(Self {
            list: list.collect::<io::Result<_>>()?,
            next: AtomicUsize::new(0),
            _until: stop.drop_guard(),
        })
    }

    /// Runs a handshake on the next thread.
    pub(in super::super) fn spawn<F>(
        &self,
        tasks: &TaskTracker,
        handshake: impl FnOnce(Arc<Turns>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        // There is at least one.
        if let Some(thread) = self.list.get(turn % self.list.len().max(1)) {
            tasks.spawn_on(handshake(Arc::clone(&thread.turns)), &thread.handle);
        }
    }
}

fn thread(number: usize, stop: CancellationToken) -> io::Result<Thread> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(BURST)
        .build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name(format!("tls-{number}"))
        .spawn(move || {
            // Of this thread alone. Where it is refused, handshakes compete with streams.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(NICE);
            runtime.block_on(stop.cancelled());
        })?;
    Ok(Thread {
        handle,
        turns: Arc::new(Turns::new()),
    })
}
