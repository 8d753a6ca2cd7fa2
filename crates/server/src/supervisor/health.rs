//! Whether changes still come through: from the queue of what sources report to the derive thread.
//!
//! Both are asked again and again, since a server whose configuration stands still looks well from outside: proxies are
//! connected, and pages answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::Shared;

/// How often both are asked.
const EVERY: Duration = Duration::from_secs(1);

/// After how long without an answer the server is not ready any more. The whole of a large mesh can keep the derive thread
/// for seconds.
const STALLED: Duration = Duration::from_secs(30);

/// A question to the task that feeds the derive thread, answered when it takes the next message.
pub(super) type Call = oneshot::Sender<()>;

/// What keeps changes from coming through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stuck {
    /// There is no derive thread any more.
    #[error("the derive thread has ended")]
    DeriveEnded,
    /// Nobody hands over what sources report any more.
    #[error("the feed of changes has ended: what sources report is not taken in")]
    FeedEnded,
    /// The derive thread has not answered for this long.
    #[error("the derive thread has not answered for {0:?}")]
    DeriveSilent(Duration),
    /// The feed of changes has not answered for this long.
    #[error("the feed of changes has not answered for {0:?}: what sources report is not taken in")]
    FeedSilent(Duration),
}

/// When each was last heard of.
pub(super) struct Health {
    calls: mpsc::UnboundedSender<Call>,
    heard: Mutex<Heard>,
}

struct Heard {
    feed: Instant,
    derive: Instant,
}

impl Health {
    pub(super) fn new(calls: mpsc::UnboundedSender<Call>) -> Self {
        let now = Instant::now();
        let (feed, derive) = (now, now);
        Self {
            calls,
            heard: Mutex::new(Heard { feed, derive }),
        }
    }

    fn note(&self, note: impl FnOnce(&mut Heard, Instant)) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut heard, Instant::now());
    }

    /// What is known to keep changes from coming through, without asking.
    pub(super) fn known(&self, derive_has_ended: bool, now: Instant) -> Option<Stuck> {
        if derive_has_ended {
            return Some(Stuck::DeriveEnded);
        }
        if self.calls.is_closed() {
            return Some(Stuck::FeedEnded);
        }
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |since: Instant| {
            let silent = now.saturating_duration_since(since);
            (silent > STALLED).then(|| Duration::from_secs(silent.as_secs()))
        };
        let derive = silent(heard.derive).map(Stuck::DeriveSilent);
        derive.or_else(|| silent(heard.feed).map(Stuck::FeedSilent))
    }

    /// Resolves when the feed has taken the next message.
    async fn ask_feed(&self) -> Result<(), Stuck> {
        let (answer, answered) = oneshot::channel();
        self.calls.send(answer).map_err(|_| Stuck::FeedEnded)?;
        answered.await.map_err(|_| Stuck::FeedEnded)
    }
}

impl Shared {
    /// Asks the feed and the derive thread. Each may take as long as `patience`.
    pub(super) async fn ask(&self, patience: Duration) -> Result<(), Stuck> {
        match tokio::time::timeout(patience, self.health.ask_feed()).await {
            Ok(answered) => answered?,
            Err(_) => return Err(Stuck::FeedSilent(patience)),
        }
        match tokio::time::timeout(patience, self.derive.ask(|_| ())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Stuck::DeriveEnded),
            Err(_) => Err(Stuck::DeriveSilent(patience)),
        }
    }
}

/// Asks both for as long as they are there; what is found is logged once.
pub(super) async fn watch(shared: Arc<Shared>) {
    let watching = async {
        tokio::join!(watch_feed(&shared), watch_derive(&shared), tell(&shared));
    };
    tokio::select! {
        () = watching => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn watch_feed(shared: &Shared) {
    while shared.health.ask_feed().await.is_ok() {
        shared.health.note(|heard, now| heard.feed = now);
        tokio::time::sleep(EVERY).await;
    }
}

async fn watch_derive(shared: &Shared) {
    while shared.derive.ask(|_| ()).await.is_ok() {
        shared.health.note(|heard, now| heard.derive = now);
        tokio::time::sleep(EVERY).await;
    }
}

async fn tell(shared: &Shared) {
    let mut told = None;
    loop {
        tokio::time::sleep(EVERY).await;
        let stuck = shared.stuck(Instant::now());
        let kind = stuck.as_ref().map(std::mem::discriminant);
        if kind != told {
            match &stuck {
                Some(stuck) => {
                    shared.metrics.internal_errors.inc();
                    tracing::error!("Configuration stands still: {stuck}.");
                }
                None => tracing::info!("Configuration is taken in again."),
            }
            told = kind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_after_a_while() {
        let (calls, taken) = mpsc::unbounded_channel();
        let health = Health::new(calls);
        let start = Instant::now();
        assert_eq!(health.known(false, start + Duration::from_secs(20)), None);
        let later = start + Duration::from_secs(100);
        let stuck = health.known(false, later);
        assert!(matches!(stuck, Some(Stuck::DeriveSilent(_))), "{stuck:?}");
        health.note(|heard, _| heard.derive = later);
        let stuck = health.known(false, later);
        assert!(matches!(stuck, Some(Stuck::FeedSilent(_))), "{stuck:?}");
        health.note(|heard, _| heard.feed = later);
        assert_eq!(health.known(false, later), None);
        assert_eq!(health.known(true, later), Some(Stuck::DeriveEnded));
        drop(taken);
        assert_eq!(health.known(false, later), Some(Stuck::FeedEnded));
    }
}
