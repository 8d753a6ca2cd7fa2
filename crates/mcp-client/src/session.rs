//! One stream to a control plane: what is asked, and what becomes of each response.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::{Connection, Dialer};
use source_api::Closed;
use tokio::task::spawn_blocking;

use crate::book::{Book, Outcome};
use crate::gate::Gate;
use crate::read::Read;
use crate::request::{self, Answer};
use crate::source::Options;
use crate::teller::Teller;
use crate::topic::Topic;
use crate::wire::{Response, Unreadable};

/// What a control plane may send before it is read.
const WINDOW: u32 = 1 << 20;
/// How often a control plane is asked whether it is there, and how long it may take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));
/// After which time of silence about a type the log says so.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a response may take to be read before the next one has to wait as long: nobody gets more than half a processor.
const BUSY: Duration = Duration::from_millis(50);

/// Why a stream has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// The other side, or the way to it.
    #[error(transparent)]
    Connection(#[from] client::Error),
    /// What it says.
    #[error(transparent)]
    Response(#[from] Unreadable),
    /// A bug of this program.
    #[error("reading a response panicked, which is a bug")]
    Panicked,
    /// Nobody listens any more.
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// A stream.
pub(crate) struct Session<'a, 'b> {
    options: Arc<Options>,
    book: &'a mut Book,
    gate: &'a mut Gate,
    teller: &'a mut Teller<'b>,
    /// From when the book counts time.
    epoch: Instant,
    /// Versions of the responses that were acknowledged.
    accepted: Vec<String>,
    /// Whether what is in force could not be kept on disk.
    is_unkept: bool,
}

/// What was read of a response.
struct Heard {
    type_url: String,
    version: String,
    nonce: String,
    /// `None` where it is about something that nobody asked for.
    read: Option<(usize, Read)>,
}

impl<'a, 'b> Session<'a, 'b> {
    pub(crate) fn new(
        options: Arc<Options>,
        book: &'a mut Book,
        gate: &'a mut Gate,
        teller: &'a mut Teller<'b>,
        epoch: Instant,
    ) -> Self {
        Self {
            accepted: vec![String::new(); options.topics.len()],
            options,
            book,
            gate,
            teller,
            epoch,
            is_unkept: false,
        }
    }

    /// Connects, asks for everything, and takes in what is said until the stream ends.
    pub(crate) async fn run(&mut self) -> Result<Infallible, End> {
        let options = self.options.clone();
        let dialer = spawn_blocking(move || {
            let (tls, token_file) = (options.tls.as_ref(), options.token_file.clone());
            Dialer::to(&options.address, tls, token_file)
        });
        let dialer = dialer.await.map_err(|_| End::Panicked)??;
        let limits = client::Limits {
            window: WINDOW,
            largest: self.options.limits.response_bytes,
            ping: Some(PING),
        };
        let mut connection = Connection::open(&dialer, self.options.delta, limits).await?;
        self.ask(&mut connection);
        let mut silence = Some(Instant::now() + SILENCE);
        loop {
            let due = self.book.due().map(|due| self.epoch + due);
            let timer = [due, silence].into_iter().flatten().min();
            tokio::select! {
                data = connection.receive() => {
                    if let Some(answer) = self.hear(data?).await? {
                        connection.send(&answer);
                    }
                }
                () = until(timer) => {
                    let now = Instant::now();
                    if silence.is_some_and(|at| at <= now) {
                        silence = None;
                        self.log_silence();
                        self.teller.warn_of(self.gate, self.book).await?;
                    }
                    self.believe(now).await?;
                }
            }
        }
    }

    fn ask(&self, connection: &mut Connection) {
        let (options, delta) = (&self.options, self.options.delta);
        let mut node = Some(options.asker.node());
        for (n, topic) in options.topics.iter().enumerate() {
            let known = self.book.entries(n).filter(|_| delta);
            let known = known.map(|e| (e.name.to_string(), e.wire_version.to_string()));
            let asked = request::first(topic.type_url(), node.take(), delta, known.collect());
            connection.send(&asked);
        }
        tracing::info!(
            source = %options.reader.owner,
            address = %options.address,
            types = options.topics.len(),
            "A control plane is asked for configuration."
        );
    }

    /// Takes a response in, and returns what is answered.
    async fn hear(&mut self, data: Bytes) -> Result<Option<Vec<u8>>, End> {
        let noticed = Instant::now();
        let options = self.options.clone();
        let heard = spawn_blocking(move || read(data, &options));
        let heard = heard.await.map_err(|_| End::Panicked)??;
        let Some((n, read)) = heard.read else {
            let type_url = heard.type_url.as_str();
            tracing::debug!(source = %self.options.reader.owner, type_url, "A control plane answers what nobody asked.");
            return Ok(None);
        };
        let topic = self.options.topics[n];
        let outcome = self.book.take(n, read.said, self.epoch.elapsed());
        let mut faults = read.faults;
        faults.extend(outcome.refused.clone());
        if faults.is_empty() {
            self.accepted[n] = heard.version;
        } else {
            let (type_url, first) = (heard.type_url.as_str(), faults[0].as_str());
            tracing::warn!(source = %self.options.reader.owner, type_url, faults = faults.len(), first, "A response was refused.");
        }
        if outcome.is_doubted {
            let type_url = heard.type_url.as_str();
            tracing::warn!(source = %self.options.reader.owner, type_url, "A control plane sends an older state than the one in force; it takes effect unless a newer one arrives.");
        }
        self.teller.note_faults(topic, &faults);
        // Before it is told, so that what is refused does not pass for what is in sync.
        self.teller.stand(self.gate, self.book).await?;
        self.act(n, outcome, noticed).await?;
        let took = noticed.elapsed();
        if took > BUSY {
            tokio::time::sleep(took).await;
        }
        let answer = Answer {
            nonce: heard.nonce,
            version: self.accepted[n].clone(),
            faults,
        };
        Ok(Some(answer.request(heard.type_url, self.options.delta)))
    }

    /// Puts older states in force that nobody has contradicted.
    async fn believe(&mut self, now: Instant) -> Result<(), End> {
        for (n, outcome) in self.book.expire(self.epoch.elapsed()) {
            self.act(n, outcome, now).await?;
        }
        Ok(())
    }

    /// Keeps on disk what is in force, then tells it as far as the gate lets it pass: who starts after a crash knows no
    /// less than was told.
    async fn act(&mut self, n: usize, outcome: Outcome, noticed: Instant) -> Result<(), End> {
        if outcome.is_changed {
            self.keep(n).await;
        }
        let told = self
            .teller
            .pass(self.gate, self.book, n, outcome.steps, noticed);
        Ok(told.await?)
    }

    async fn keep(&mut self, n: usize) {
        let Some(cache) = self.options.cache.clone() else {
            return;
        };
        let topic: Topic = self.options.topics[n];
        let entries: Vec<_> = self.book.entries(n).cloned().collect();
        let saved = spawn_blocking(move || cache.save(topic, &entries)).await;
        let error = match saved {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it panicked, which is a bug".to_owned()),
        };
        if let Some(error) = error.as_ref().filter(|_| !self.is_unkept) {
            tracing::warn!(source = %self.options.reader.owner, %error, "What a control plane says cannot be kept on disk.");
        }
        self.is_unkept = error.is_some();
    }

    fn log_silence(&self) {
        let topics = self.book.unanswered().map(|n| self.options.topics[n]);
        let types: Vec<String> = topics.map(Topic::type_url).collect();
        if !types.is_empty() {
            let (count, types) = (types.len(), types.join(", "));
            tracing::warn!(source = %self.options.reader.owner, count, types, "A control plane does not answer about these types.");
        }
    }
}

/// Reads a response.
fn read(data: Bytes, options: &Options) -> Result<Heard, Unreadable> {
    let response = Response::read(data, options.delta, &options.limits)?;
    let topic = Topic::parse(&response.type_url);
    let asked = topic.and_then(|topic| {
        let place = options.topics.iter().position(|asked| *asked == topic)?;
        Some((place, topic))
    });
    let (type_url, version) = (response.type_url.clone(), response.version.clone());
    let nonce = response.nonce.clone();
    let read = asked.map(|(n, topic)| (n, Read::of(topic, response, !options.delta)));
    Ok(Heard {
        type_url,
        version,
        nonce,
        read,
    })
}

/// Waits until a point in time; for ever where there is none.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
