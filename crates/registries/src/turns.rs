//! A registry of several servers, of which one is read at a time.

use std::sync::Arc;
use std::time::Duration;

use source_api::backoff::Backoff;
use tokio_util::sync::CancellationToken;

use crate::outbox::Outbox;
use crate::report::{RegistryError, Reports};

/// The wait before servers are read after one that was, so that not all of its clients come back at once.
const SPREAD: Backoff = Backoff {
    first: Duration::from_millis(400),
    longest: Duration::from_secs(1),
};

/// How reading a server ended.
#[derive(PartialEq, Debug)]
pub(crate) enum End {
    /// Nobody wants to know any more.
    Stopped,
    /// This server, or another one, is to be read anew, and nothing is lost.
    Elsewhere(Arc<str>),
    /// The server does not answer.
    Lost(Arc<str>),
}

/// Servers that tell the same.
pub(crate) trait Servers: Sync {
    /// One of them.
    type Server: Send + Sync;

    /// All of them.
    fn servers(&self) -> impl Future<Output = Result<Vec<Self::Server>, String>> + Send;

    /// Reads one until it ends, and says whether it told everything once.
    fn session(
        &self,
        server: &Self::Server,
        out: &mut Outbox,
        to: &Reports,
        stop: &CancellationToken,
    ) -> impl Future<Output = (End, bool)> + Send;
}

/// Reads the servers in turn: after one that told everything they are tried anew, and when none did, that is the end.
pub(crate) async fn read(
    all: &impl Servers,
    to: &Reports,
    stop: &CancellationToken,
) -> Result<(), RegistryError> {
    // Replicas begin with different servers.
    let mut turn = getrandom::u32().unwrap_or_default() as usize;
    let mut out = Outbox::default();
    loop {
        let servers = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            servers = all.servers() => servers,
        };
        let round = match servers {
            Ok(servers) => round(all, &servers, &mut turn, &mut out, to, stop).await,
            Err(why) => Round::Failed(vec![why.into()]),
        };
        match round {
            Round::Stopped => return Ok(()),
            Round::Again => {}
            Round::Failed(mut failures) => {
                failures.dedup();
                let why: Arc<str> = failures.join("; ").into();
                out.lost(why.clone());
                told(&mut out, to, stop).await;
                return Err(RegistryError(why));
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(SPREAD.wait(&turn, 0)) => {}
        }
    }
}

enum Round {
    Stopped,
    Again,
    Failed(Vec<Arc<str>>),
}

/// Tries each server once, until one tells everything.
async fn round<S: Servers>(
    all: &S,
    servers: &[S::Server],
    turn: &mut usize,
    out: &mut Outbox,
    to: &Reports,
    stop: &CancellationToken,
) -> Round {
    let mut failures: Vec<Arc<str>> = Vec::new();
    for _ in servers {
        let server = &servers[*turn % servers.len()];
        *turn = turn.wrapping_add(1);
        let (end, is_whole) = all.session(server, out, to, stop).await;
        match end {
            End::Stopped => return Round::Stopped,
            End::Lost(why) if is_whole => {
                out.lost(why);
                return match told(out, to, stop).await {
                    true => Round::Again,
                    false => Round::Stopped,
                };
            }
            End::Elsewhere(_) if is_whole => return Round::Again,
            End::Elsewhere(why) | End::Lost(why) => {
                // What waits came from a connection that is no more.
                *out = Outbox::default();
                failures.push(why);
            }
        }
    }
    Round::Failed(failures)
}

/// Reports a loss, and says whether anybody listens.
async fn told(out: &mut Outbox, to: &Reports, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = stop.cancelled() => false,
        sent = out.send(to) => sent.is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::mpsc;

    use super::*;
    use crate::report::Report;

    /// What each session comes to, in order; then it is to stop.
    struct Scripted(Vec<usize>, Mutex<Vec<(End, bool)>>);

    impl Servers for Scripted {
        type Server = usize;

        async fn servers(&self) -> Result<Vec<usize>, String> {
            match self.0.is_empty() {
                true => Err("no servers are named".to_owned()),
                false => Ok(self.0.clone()),
            }
        }

        async fn session(
            &self,
            _: &usize,
            out: &mut Outbox,
            _: &Reports,
            _: &CancellationToken,
        ) -> (End, bool) {
            out.service("unsent".into(), Vec::new());
            let next = self.1.lock().unwrap().pop();
            next.unwrap_or((End::Stopped, false))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn servers_are_tried_until_none_tells_everything() {
        let lost = |why: &str, whole| (End::Lost(why.into()), whole);
        let moved = |why: &str, whole| (End::Elsewhere(why.into()), whole);
        for (servers, ends, told, error) in [
            (
                2,
                vec![lost("a", false), lost("b", false)],
                vec!["a; b"],
                Some("a; b"),
            ),
            (
                2,
                vec![lost("a", false), lost("b", true), lost("c", false)],
                vec!["b"],
                None,
            ),
            (
                1,
                vec![lost("a", true), lost("b", true), lost("c", false)],
                vec!["a", "b", "c"],
                Some("c"),
            ),
            (1, vec![moved("a", true), moved("b", true)], vec![], None),
            (1, vec![moved("a", false)], vec!["a"], Some("a")),
            (
                0,
                vec![],
                vec!["no servers are named"],
                Some("no servers are named"),
            ),
        ] {
            let script = Mutex::new(ends.into_iter().rev().collect());
            let scripted = Scripted((0..servers).collect(), script);
            let (to, mut reports) = mpsc::channel(16);
            let read = read(&scripted, &to, &CancellationToken::new()).await;
            assert_eq!(read.err().map(|e| e.to_string()).as_deref(), error);
            drop(to);
            for why in told {
                assert_eq!(reports.recv().await, Some(Report::Lost(why.into())));
            }
            assert_eq!(reports.recv().await, None);
        }
    }
}
