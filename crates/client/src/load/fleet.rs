//! The proxies of a load run: one task each, and what they have seen.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use xds::TypeUrl;

use super::LoadOptions;
use super::mint::Mint;
use crate::connection::{Connection, Limits, SMALL_WINDOW, WINDOW};
use crate::error::Error;
use crate::learned::Learned;
use crate::node::Template;
use crate::proxy::Proxy;
use crate::secure::{Dialer, Tls};
use crate::wire::Message;

/// Times are nanoseconds since the start of the fleet; zero is never.
#[derive(Debug, Default)]
struct Seen {
    configured: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

/// How the proxies of a fleet behave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conduct {
    /// One in this many stops reading once it is configured; 0 for none.
    pub(super) slow: usize,
    /// One in this many refuses what it is sent once it is configured; 0 for none.
    pub(super) refusing: usize,
    /// They keep what they would say when they connect again.
    pub(super) remembers: bool,
}

/// The last of every `each` proxies; none for 0.
fn is_one_in(each: usize, i: usize) -> bool {
    each > 0 && i % each == each - 1
}

/// What all proxies need.
#[derive(Debug)]
struct Shared {
    dialer: Dialer,
    /// What gives each proxy a certificate of its own.
    mint: Option<Mint>,
    delta: bool,
    types: Vec<TypeUrl>,
    conduct: Conduct,
    /// Counts how often all were told to connect again.
    reconnects: watch::Sender<u64>,
    reached: AtomicUsize,
    template: Template,
    learned: Arc<Learned>,
    start: Instant,
    seen: Box<[Seen]>,
    configured: AtomicUsize,
    newest: AtomicU64,
    responses: AtomicU64,
    bytes: AtomicU64,
    /// Those of them that tell of resources.
    told: AtomicU64,
    retries: AtomicU64,
    failure: Mutex<Option<String>>,
    fatal: Mutex<Option<Error>>,
}

/// Running proxies; dropping it ends them.
#[derive(Debug)]
pub(super) struct Fleet {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Fleet {
    /// Starts the proxies, which have certificates of this mint, if there is one.
    pub(super) fn start(
        options: &LoadOptions,
        conduct: Conduct,
        mint: Option<Mint>,
    ) -> Result<Arc<Self>, Error> {
        let dialer = match &mint {
            Some(mint) => {
                let tls = Tls::new("localhost", vec![mint.root()], None)?;
                Dialer::over(options.address.clone(), tls)
            }
            None => {
                let token = options.token.as_deref();
                Dialer::new(&options.address, token, &options.secure)?
            }
        };
        let shared = Arc::new(Shared {
            dialer,
            mint,
            delta: !options.sotw,
            types: options.types.clone(),
            conduct,
            reconnects: watch::Sender::new(0),
            reached: AtomicUsize::new(0),
            template: options.node.template()?,
            learned: Arc::default(),
            start: Instant::now(),
            seen: (0..options.proxies).map(|_| Seen::default()).collect(),
            configured: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            responses: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            told: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            failure: Mutex::new(None),
            fatal: Mutex::new(None),
        });
        let mut tasks = JoinSet::new();
        for i in 0..options.proxies {
            let delay = options
                .rate
                .filter(|r| *r > 0.0)
                .map_or(0.0, |rate| i as f64 / rate);
            tasks.spawn(Arc::clone(&shared).run(i, Duration::from_secs_f64(delay)));
        }
        Ok(Arc::new(Self {
            shared,
            _tasks: tasks,
        }))
    }

    pub(super) fn configured(&self) -> usize {
        self.shared.configured.load(Ordering::Relaxed)
    }

    /// From the start to the configuration of each proxy that has it.
    pub(super) fn configuration_times(&self) -> Vec<Duration> {
        let times = self
            .shared
            .seen
            .iter()
            .map(|s| s.configured.load(Ordering::Relaxed));
        times
            .filter(|t| *t != 0)
            .map(Duration::from_nanos)
            .collect()
    }

    /// Responses and bytes of all proxies so far.
    pub(super) fn totals(&self) -> (u64, u64) {
        (
            self.shared.responses.load(Ordering::Relaxed),
            self.shared.bytes.load(Ordering::Relaxed),
        )
    }

    /// Bytes that told of resources so far, to all proxies.
    pub(super) fn told(&self) -> u64 {
        self.shared.told.load(Ordering::Relaxed)
    }

    pub(super) fn retries(&self) -> u64 {
        self.shared.retries.load(Ordering::Relaxed)
    }

    /// Forgets who was reached, and returns the time since the start.
    pub(super) fn begin_round(&self) -> Duration {
        for seen in &self.shared.seen {
            seen.first.store(0, Ordering::Relaxed);
            seen.last.store(0, Ordering::Relaxed);
        }
        self.shared.reached.store(0, Ordering::Relaxed);
        self.shared.start.elapsed()
    }

    /// Proxies that had a response in this round.
    pub(super) fn reached(&self) -> usize {
        self.shared.reached.load(Ordering::Relaxed)
    }

    /// Those of the proxies that read what they are sent.
    pub(super) fn reading(&self, of: impl Fn(usize) -> bool) -> usize {
        let slow = self.shared.conduct.slow;
        let reads = |i: &usize| of(*i) && !is_one_in(slow, *i);
        (0..self.shared.seen.len()).filter(reads).count()
    }

    /// Makes every proxy connect again, and returns the time since the start.
    pub(super) fn reconnect(&self) -> Duration {
        for seen in &self.shared.seen {
            seen.configured.store(0, Ordering::Relaxed);
        }
        self.shared.configured.store(0, Ordering::Relaxed);
        let begin = self.shared.start.elapsed();
        self.shared.reconnects.send_modify(|n| *n += 1);
        begin
    }

    /// When the newest response came.
    pub(super) fn newest(&self) -> Duration {
        Duration::from_nanos(self.shared.newest.load(Ordering::Relaxed))
    }

    /// When the first response of the round came.
    pub(super) fn first_of_round(&self) -> Option<Duration> {
        let firsts = self
            .shared
            .seen
            .iter()
            .map(|s| s.first.load(Ordering::Relaxed));
        firsts.filter(|t| *t != 0).min().map(Duration::from_nanos)
    }

    /// From `begin` to the last response of each of these proxies that had one in this round.
    pub(super) fn round_times(&self, begin: Duration, of: impl Fn(usize) -> bool) -> Vec<Duration> {
        let seen = self.shared.seen.iter().enumerate();
        let lasts = seen.filter(|(i, _)| of(*i));
        let lasts = lasts.map(|(_, seen)| seen.last.load(Ordering::Relaxed));
        lasts
            .filter(|t| *t != 0)
            .map(|t| Duration::from_nanos(t).saturating_sub(begin))
            .collect()
    }

    /// Waits until no response has come for a while.
    pub(super) async fn quiet(&self, settle: Duration) {
        loop {
            let silence = self.shared.start.elapsed().saturating_sub(self.newest());
            match settle.checked_sub(silence) {
                Some(rest) if !rest.is_zero() => sleep(rest).await,
                _ => return,
            }
        }
    }

    pub(super) fn last_failure(&self) -> Option<String> {
        self.shared
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A failure after which trying again is of no use.
    pub(super) fn fatal(&self) -> Option<Error> {
        self.shared
            .fatal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Shared {
    /// One proxy: connects again when its stream ends, as proxies do.
    async fn run(self: Arc<Self>, i: usize, delay: Duration) {
        sleep(delay).await;
        let mut wait = Duration::from_millis(200);
        let mut proxy = Proxy::new(
            self.template.node(i),
            self.delta,
            false,
            &self.types,
            Arc::clone(&self.learned),
        );
        if self.conduct.remembers {
            proxy.remember();
        }
        let dialer = match self.dialer(i) {
            Ok(dialer) => dialer,
            Err(error) => return self.give_up(error),
        };
        loop {
            let Err(error) = self.serve(i, &dialer, &mut proxy).await else {
                proxy = proxy.again(self.template.node(i));
                continue;
            };
            proxy = proxy.again(self.template.node(i));
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            if !error.is_transient() {
                return self.give_up(error);
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
            // Spread by number, so that runs can be compared.
            let spread = wait.mul_f64((i * 37 % 100) as f64 / 100.0);
            sleep(wait / 2 + spread).await;
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    }

    /// How a proxy connects: as itself.
    fn dialer(&self, i: usize) -> Result<Dialer, Error> {
        match &self.mint {
            Some(mint) => {
                let identity = mint.identity(&self.template.node(i));
                self.dialer.with(identity.map_err(Error::Server)?)
            }
            None => Ok(self.dialer.clone()),
        }
    }

    fn give_up(&self, error: Error) {
        *self.fatal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// One connection; ends well when all are to connect again.
    async fn serve(&self, i: usize, dialer: &Dialer, proxy: &mut Proxy) -> Result<(), Error> {
        let slow = is_one_in(self.conduct.slow, i);
        let refuses = is_one_in(self.conduct.refusing, i);
        let window = if slow { SMALL_WINDOW } else { WINDOW };
        let mut reconnects = self.reconnects.subscribe();
        let limits = Limits::of_window(window);
        let mut connection = Connection::open(dialer, self.delta, limits).await?;
        for request in proxy.start() {
            connection.send(&request);
        }
        let seen = &self.seen[i];
        loop {
            let is_configured = seen.configured.load(Ordering::Relaxed) != 0;
            if slow && is_configured {
                // The sender lives as long as this.
                let _ = reconnects.changed().await;
                return Ok(());
            }
            let data = tokio::select! {
                data = connection.receive() => data?,
                _ = reconnects.changed() => return Ok(()),
            };
            let now = self.start.elapsed().as_nanos() as u64;
            self.responses.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            if seen.first.load(Ordering::Relaxed) == 0 {
                seen.first.store(now, Ordering::Relaxed);
                self.reached.fetch_add(1, Ordering::Relaxed);
            }
            seen.last.store(now, Ordering::Relaxed);
            self.newest.fetch_max(now, Ordering::Relaxed);
            let refused = refuses && is_configured;
            let message = Message::read(data, self.delta)?;
            self.told.fetch_add(message.told as u64, Ordering::Relaxed);
            for request in proxy.on_response(message, refused) {
                connection.send(&request);
            }
            if !is_configured && proxy.is_configured() {
                seen.configured.store(now, Ordering::Relaxed);
                self.configured.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
