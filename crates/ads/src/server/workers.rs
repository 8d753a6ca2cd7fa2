//! The threads that serve connections.
//!
//! Each connection lives on one thread from its beginning to its end, so what it touches stays in one processor's caches,
//! threads do not contend for tasks, and a change wakes each of them once ([`WakeList`]).

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio_util::task::TaskTracker;

use super::{Options, processor};
use crate::fanout::Fanout;
use crate::wake::WakeList;

/// What the connections of one thread share.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// Wakes them.
    pub(super) wake_list: Arc<WakeList>,
    /// Their differences and responses.
    pub(super) fanout: Arc<Fanout>,
}

#[derive(Debug)]
struct Worker {
    handle: Handle,
    thread: Thread,
}

/// All of them; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    list: Vec<Worker>,
    next: AtomicUsize,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's, when it refuses a thread or what a thread needs.
    pub(super) fn start(options: &Options, fanout: &Arc<Fanout>) -> io::Result<Self> {
        let count = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let allowed = processor::allowed();
        // A limit on the time of the process makes fewer threads than there are processors: others have a right to these.
        let pins = options.pin_threads && allowed.len() == count;
        let started = (0..count).map(|number| {
            let processor = allowed.get(number).filter(|_| pins);
            worker(number, processor.copied(), fanout.of_thread())
        });
        let list = started.collect::<io::Result<_>>()?;
        Ok(Self {
            list,
            next: AtomicUsize::new(0),
        })
    }

    /// Runs a connection on the next thread.
    pub(super) fn spawn<F>(&self, tasks: &TaskTracker, connection: impl FnOnce(Thread) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        // There is at least one.
        if let Some(worker) = self.list.get(turn % self.list.len().max(1)) {
            tasks.spawn_on(connection(worker.thread.clone()), &worker.handle);
        }
    }

    /// Lets go of what no connection asked for lately.
    pub(super) fn sweep(&self) {
        self.list.iter().for_each(|w| w.thread.fanout.sweep());
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The last to hold them may be one of the threads, so none is waited for.
        self.list
            .iter()
            .for_each(|worker| worker.thread.wake_list.close());
    }
}

fn worker(number: usize, processor: Option<usize>, fanout: Arc<Fanout>) -> io::Result<Worker> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(BURST)
        .on_thread_park(moderate)
        .build()?;
    let worker = Worker {
        handle: runtime.handle().clone(),
        thread: Thread {
            wake_list: Arc::default(),
            fanout,
        },
    };
    let wake_list = Arc::clone(&worker.thread.wake_list);
    std::thread::Builder::new()
        .name(format!("xds-{number}"))
        .spawn(move || {
            if let Some(processor) = processor {
                processor::stay_on(processor);
            }
            runtime.block_on(wake_list.run())
        })?;
    Ok(worker)
}

/// So many tasks get their turn before the thread looks for what has arrived. A change is written to all whom it concerns
/// before their answers are read.
const BURST: u32 = 1024;

/// So many times in a [`WINDOW`] a thread may run out of work and wait for more without a pause.
const WAITS: u32 = 16;
const WINDOW: Duration = Duration::from_millis(2);
/// How long it then lets work gather.
const PAUSE: Duration = Duration::from_micros(150);

thread_local! {
    /// When the window began, and how often the thread has waited in it.
    static WAITED: Cell<Option<(Instant, u32)>> = const { Cell::new(None) };
}

/// Called before a thread waits. Thousands of proxies answer one by one, and a thread that sleeps and wakes for each of
/// them spends a good part of its time on that.
fn moderate() {
    let now = Instant::now();
    let (began, times) = match WAITED.get() {
        Some((began, times)) if now - began < WINDOW => (began, times + 1),
        _ => (now, 1),
    };
    WAITED.set(Some((began, times)));
    if times > WAITS {
        std::thread::sleep(PAUSE);
    }
}
