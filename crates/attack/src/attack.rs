//! What an attack is: where it goes, what it needs of the server, what the server promises meanwhile, and what it came to.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::http1::{self, Answer};
use crate::peer::ATTACKER;
use crate::server::{Places, Setup};

/// An attack that runs until its time is over.
pub type Running = Pin<Box<dyn Future<Output = anyhow::Result<Outcome>> + Send>>;

/// What a round may take longer than there is time.
const GRACE: Duration = Duration::from_secs(2);

/// One attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// How it is called on the command line.
    pub name: &'static str,
    /// The finding of the audit, or the name it is known by.
    pub finding: &'static str,
    /// What it does.
    pub about: &'static str,
    /// How the server is started for it.
    pub setup: Setup,
    /// What it may take of the server's memory at most, in MiB over what was used before.
    pub memory_mib: u64,
    /// What it may take of the server's processor time at most, in seconds, when it runs for a few seconds against a
    /// debug build.
    pub cpu_s: f64,
    /// How long a change may be held up in a debug build, once.
    pub stall: Duration,
    /// How long a change may be held up otherwise, once.
    pub delay: Duration,
    /// The shortest time in which it shows anything.
    pub least: Duration,
    /// Honest proxies at most; for servers that are started with little.
    pub proxies: usize,
    /// Whether the server may refuse to start with what it finds.
    pub may_refuse_to_start: bool,
    /// Runs it.
    pub run: fn(Arc<Target>) -> Running,
}

impl Attack {
    /// A plain server, 64 MiB, any number of proxies.
    pub const fn new(
        name: &'static str,
        finding: &'static str,
        about: &'static str,
        run: fn(Arc<Target>) -> Running,
    ) -> Self {
        Self {
            name,
            finding,
            about,
            setup: Setup::PLAIN,
            memory_mib: 64,
            cpu_s: 5.0,
            stall: Duration::from_secs(1),
            delay: Duration::ZERO,
            least: Duration::ZERO,
            proxies: usize::MAX,
            may_refuse_to_start: false,
            run,
        }
    }
}

/// How much of an attack is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Scale {
    /// As in the audit, again and again.
    Full,
    /// A tenth of it, for tests.
    Short,
}

/// Where an attack goes.
#[derive(Clone, Debug)]
pub struct Target {
    /// xDS.
    pub xds: SocketAddr,
    /// xDS over TLS, where the setup has it.
    pub secure: SocketAddr,
    /// Pages.
    pub http: SocketAddr,
    /// The API.
    pub api: SocketAddr,
    /// The server's folders.
    pub places: Places,
    /// When it is over.
    pub until: Instant,
    /// How much of it.
    pub scale: Scale,
}

impl Target {
    /// Whether there is time left.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// A number of the audit, or a tenth of it.
    pub fn many(&self, full: usize) -> usize {
        match self.scale {
            Scale::Full => full,
            Scale::Short => full.div_ceil(10),
        }
    }

    /// Waits until the time is over, or for so long.
    pub async fn rest(&self, most: Duration) {
        let left = self.until.saturating_duration_since(Instant::now());
        sleep(left.min(most)).await;
    }

    /// Waits until the time is over.
    pub async fn hold(&self) {
        tokio::time::sleep_until(self.until).await;
    }

    /// Does it again and again. A round that fails was turned away; the next one begins a little later. A round that goes on
    /// for long looks at the time itself, so that what it sent is counted.
    pub async fn again<F>(&self, outcome: &mut Outcome, mut round: impl FnMut(usize) -> F)
    where
        F: Future<Output = std::io::Result<Round>>,
    {
        let mut number = 0;
        while self.goes_on() {
            let left = self.until.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left + GRACE, round(number)).await {
                Ok(Ok(Round { sent, refused })) => {
                    outcome.sent += sent;
                    outcome.refused += refused;
                }
                Ok(Err(_)) => outcome.refused += 1,
                Err(_) => return,
            }
            number += 1;
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Fetches a page.
    ///
    /// # Errors
    /// Those of the socket.
    pub async fn page(&self, path: &str, headers: &[&str]) -> std::io::Result<Answer> {
        http1::get(self.http, ATTACKER, path, headers).await
    }
}

/// What one round of an attack came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    /// Frames, streams, requests or connections that were sent.
    pub sent: u64,
    /// Those that were turned away.
    pub refused: u64,
}

/// What an attack came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Frames, streams, requests or connections that were sent.
    pub sent: u64,
    /// Those that were turned away.
    pub refused: u64,
    /// Promises that were broken.
    pub broken: Vec<String>,
}

impl Outcome {
    /// Notes a broken promise, once.
    pub fn broke(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.broken.contains(&what) {
            self.broken.push(what);
        }
    }
}
