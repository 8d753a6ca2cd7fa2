//! A Kubernetes API that can be told to fail in every way that clients meet: it goes away, forgets its history, stops answering
//! on connections that stay open, answers slowly, half, or nonsense.
//!
//! It serves discovery, lists, pages and watches of the few kinds below over plain HTTP, and nothing can be written through it:
//! the test writes, and knows each state that every object ever had ([`World::states`]).

mod connection;
mod request;
mod watching;
mod world;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

pub use world::{Id, RESOURCES, Resource, World};

/// How one request goes wrong. Each is taken by the next request for a list or a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// A status instead of an answer, and for how many seconds the client should not come back.
    Status(u16, Option<u32>),
    /// The connection is closed after so many bytes of the answer.
    Cut(usize),
    /// The answer ends early, but as if it were whole.
    Short,
    /// Something that is not JSON.
    Garbage,
    /// JSON, but of something else.
    Nonsense,
    /// The answer never comes, on a connection that stays open.
    Silence,
}

/// What happens to every watch that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blow {
    /// The connection is reset.
    Reset,
    /// The connection is closed in the middle of an event.
    HalfAnEvent,
    /// A line that is not JSON.
    Garbage,
    /// Instead of the next event a line that is not JSON.
    GarbledEvent,
    /// The event ERROR with the status 410.
    Expired,
    /// The event ERROR with the status 500.
    Failed,
    /// The watch ends in order, as after its timeout.
    End,
    /// A bookmark.
    Bookmark,
    /// The same bookmark three times.
    Bookmarks,
}

/// What is wrong with the API at present.
#[derive(Default)]
struct Trouble {
    /// Connections are reset as soon as they are opened.
    down: bool,
    /// No byte gets through, and connections stay open.
    partitioned: bool,
    /// Connections with lower numbers were opened before a partition ended: no byte gets through on them any more.
    dead_below: u64,
    /// Connections with lower numbers are reset.
    reset_below: u64,
    /// The number of the next connection.
    next: u64,
    /// Before each piece of an answer.
    delay: Duration,
    /// Lists with `resourceVersion=0` come from a replica that is behind.
    behind: bool,
    /// Taken by the next requests, last first.
    mishaps: Vec<Mishap>,
}

/// The fake and what is wrong with it. It ends when this is dropped.
pub struct Fake {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// What connections share.
struct Shared {
    world: Mutex<World>,
    trouble: Mutex<Trouble>,
    /// The newest revision.
    revision: watch::Sender<u64>,
    /// Told whenever connections have to look at what is wrong anew.
    trouble_changed: watch::Sender<u64>,
    blows: broadcast::Sender<Blow>,
}

impl Fake {
    /// An API that holds what `world` holds, on a free port.
    pub async fn start(world: World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            revision: watch::Sender::new(world.revision()),
            world: Mutex::new(world),
            trouble: Mutex::default(),
            trouble_changed: watch::Sender::new(0),
            blows: broadcast::Sender::new(64),
        });
        let accepting = tokio::spawn(connection::accept(listener, shared.clone()));
        Self {
            shared,
            address,
            accepting,
        }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it holds.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap()
    }

    /// Changes what it holds, and tells who watches.
    pub fn write(&self, change: impl FnOnce(&mut World)) {
        let revision = {
            let mut world = self.world();
            change(&mut world);
            world.revision()
        };
        self.shared.revision.send_replace(revision);
    }

    fn trouble(&self, change: impl FnOnce(&mut Trouble)) {
        change(&mut self.shared.trouble.lock().unwrap());
        self.shared.trouble_changed.send_modify(|n| *n += 1);
    }

    /// Whether it is there at all. All connections are reset when it goes.
    pub fn down(&self, down: bool) {
        self.trouble(|t| {
            t.down = down;
            t.reset_below = t.next;
        });
    }

    /// Resets every connection; the next ones are served.
    pub fn restart(&self) {
        self.trouble(|t| t.reset_below = t.next);
    }

    /// Whether packets are swallowed. Connections that were open in the meantime stay dead afterwards: the API has forgotten
    /// them, and the client does not know it.
    pub fn partition(&self, on: bool) {
        self.trouble(|t| {
            t.partitioned = on;
            t.dead_below = t.next;
        });
    }

    /// How long each piece of an answer takes.
    pub fn slow(&self, delay: Duration) {
        self.trouble(|t| t.delay = delay);
    }

    /// Whether lists that may be old are old.
    pub fn behind(&self, behind: bool) {
        self.trouble(|t| t.behind = behind);
    }

    /// How the next requests for lists and watches go wrong, first to last.
    pub fn mishaps(&self, mut mishaps: Vec<Mishap>) {
        mishaps.reverse();
        self.trouble(|t| t.mishaps = mishaps);
    }

    /// Happens to every watch that is under way.
    pub fn blow(&self, blow: Blow) {
        // Nobody may be watching.
        let _ = self.shared.blows.send(blow);
    }

    /// Nothing is wrong any more; what was done to connections stays done.
    pub fn mend(&self) {
        self.trouble(|t| {
            if t.partitioned {
                t.dead_below = t.next;
            }
            t.partitioned = false;
            t.down = false;
            t.behind = false;
            t.delay = Duration::ZERO;
            t.mishaps.clear();
        });
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.accepting.abort();
        self.down(true);
    }
}
