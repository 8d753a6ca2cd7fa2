//! A control plane as a source: what is known of it outlives streams, runs and, on disk, the process.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::TlsOptions;
use model::{Contents, Owner};
use source_api::backoff::Backoff;
use source_api::{Running, Sink, Source, SourceError};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::book::Book;
use crate::cache::Cache;
use crate::gate::{Gate, names};
use crate::limits::Limits;
pub use crate::request::Asker;
use crate::session::{End, Session};
pub use crate::tell::Reader;
use crate::teller::Teller;
use crate::topic::{Topic, topics};

/// A stream that has answered everything and lasted as long was not a failure: servers end streams from time to time.
const SETTLED: Duration = Duration::from_secs(10);
/// How long a source waits then.
const AGAIN: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: Duration::from_millis(500),
};

/// Takes the mesh configuration of a control plane as JSON; `None` when it has none any more.
pub type OnMesh = Arc<dyn Fn(Option<Arc<str>>) + Send + Sync>;

/// What is read of a control plane, and how it is reached.
#[derive(Clone)]
pub struct Options {
    /// Whose objects are told.
    pub reader: Reader,
    /// `HOST:PORT`.
    pub address: Arc<str>,
    /// How it is reached over TLS; in plaintext where nothing is said.
    pub tls: Option<TlsOptions>,
    /// File with the token that is shown.
    pub token_file: Option<PathBuf>,
    /// Who asks.
    pub asker: Asker,
    /// Whether the incremental variant of the protocol is spoken.
    pub delta: bool,
    /// What is asked for.
    pub topics: Arc<[Topic]>,
    /// How much is taken.
    pub limits: Limits,
    /// Where is kept what it said last.
    pub cache: Option<Cache>,
    /// Takes the mesh configuration.
    pub on_mesh: OnMesh,
}

impl Options {
    /// What is asked for, for kinds of objects and the mesh configuration.
    pub fn topics(kinds: &[model::Kind]) -> Arc<[Topic]> {
        topics(kinds).into()
    }
}

/// The address that a control plane without one of its own says that it has.
pub const NO_ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// What is known of a control plane. Clones share it.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Option<Kept>>>);

struct Kept {
    book: Book,
    gate: Gate,
    epoch: Instant,
}

/// A control plane as a source. Every run goes on with the same memory.
pub struct PeerSource {
    /// What is read, and how.
    pub options: Arc<Options>,
    /// What is known.
    pub memory: Memory,
}

impl Source for PeerSource {
    fn owner(&self) -> &Owner {
        &self.options.reader.owner
    }

    fn collections(&self) -> Vec<Contents> {
        let topics = self.options.topics.iter();
        topics.filter_map(|topic| topic.contents()).collect()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            tokio::select! {
                ended = self.follow(&out) => ended,
                () = stop.cancelled() => Ok(()),
            }
        })
    }
}

impl PeerSource {
    async fn follow(&self, out: &Sink) -> Result<(), SourceError> {
        let options = &self.options;
        let mut memory = self.memory.0.lock().await;
        let mut teller = Teller::new(options.clone(), out);
        let is_again = memory.is_some();
        let kept = match &mut *memory {
            Some(kept) => {
                kept.book.begin();
                kept
            }
            empty => empty.insert(Kept {
                book: restored(options).await,
                gate: Gate::closed(&options.topics),
                epoch: Instant::now(),
            }),
        };
        // Before it is told: what no stream has answered is in force as it was kept.
        kept.book.open();
        teller.stand(&kept.gate, &kept.book).await?;
        if !kept.gate.is_open() {
            // What was kept is enough to open the gate, or is not in force.
            let (gate, book, nothing) = (&mut kept.gate, &mut kept.book, Vec::new());
            teller.pass(gate, book, 0, nothing, Instant::now()).await?;
        }
        if is_again || (0..options.topics.len()).any(|n| kept.book.is_known(n)) {
            teller.warn_of(&kept.gate, &kept.book).await?;
        }
        loop {
            let started = Instant::now();
            let (gate, book) = (&mut kept.gate, &mut kept.book);
            let mut session = Session::new(options.clone(), book, gate, &mut teller, kept.epoch);
            let end = match session.run().await {
                Ok(never) => match never {},
                Err(end) => end,
            };
            let is_settled = started.elapsed() >= SETTLED && has_answered(options, &kept.book);
            match end {
                End::Closed(closed) => return Err(closed.into()),
                End::Connection(error) if is_settled => {
                    let wait = AGAIN.wait(&options.address, 0);
                    let retry_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    tracing::info!(source = %options.reader.owner, %error, retry_ms, "The stream of a control plane ended; what it said stays in force.");
                    kept.book.open();
                    teller.stand(&kept.gate, &kept.book).await?;
                    tokio::time::sleep(wait).await;
                }
                end => return Err(failed(end, kept)),
            }
        }
    }
}

/// Why a run has failed, and what is missing if nothing is in force.
fn failed(end: End, kept: &Kept) -> SourceError {
    let awaited = kept.gate.awaited(&kept.book);
    if awaited.is_empty() {
        return SourceError::new(end);
    }
    let types = names(&awaited);
    SourceError::new(format!(
        "{end}; nothing of it is in force before it answers about {types}"
    ))
}

/// Whether everything was answered, but for the mesh configuration, which not everyone has.
fn has_answered(options: &Options, book: &Book) -> bool {
    let mut silent = book.unanswered().map(|n| options.topics[n]);
    silent.all(|topic| topic == Topic::MeshConfig)
}

/// A book with what was kept on disk.
async fn restored(options: &Arc<Options>) -> Book {
    let mut book = Book::new(options.topics.len(), options.limits);
    let Some(cache) = options.cache.clone() else {
        return book;
    };
    let (topics, limits) = (options.topics.clone(), options.limits);
    let loaded = spawn_blocking(move || cache.load(&topics, &limits)).await;
    let reason = match loaded {
        Ok(Ok(known)) => {
            for (n, entries) in known {
                book.restore(n, entries);
            }
            return book;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked, which is a bug".to_owned(),
    };
    tracing::warn!(source = %options.reader.owner, reason, "What a control plane said last cannot be read.");
    book
}
