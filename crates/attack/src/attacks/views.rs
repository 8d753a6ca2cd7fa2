//! Streams whose views differ in a field that a hash may leave out.

use std::sync::Arc;

use super::{http2, subscribe};
use crate::attack::{Attack, Outcome, Round, Running, Target};
use crate::proto::Node;

/// H4.
pub(super) const COLLIDING_VIEWS: Attack = Attack {
    memory_mib: 256,
    ..Attack::new(
        "colliding-views",
        "H4",
        "6,000 streams that differ in node.cluster alone",
        run,
    )
};

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        let all = target.many(60);
        let mut number = 0;
        while target.goes_on() {
            let mut round = Round::default();
            if let Ok(mut peer) = http2(&target).await {
                for _ in 0..peer.at_once(100) {
                    let mut node = Node::of(number, "n1", "views");
                    node.cluster = format!("c{number}");
                    number += 1;
                    round.sent += 1;
                    if subscribe(&mut peer, &node.encode()).await.is_err() {
                        break;
                    }
                }
                round.refused += u64::from(peer.told.refused());
                open.push(peer);
            } else {
                round.refused += 1;
            }
            outcome.sent += round.sent;
            outcome.refused += round.refused;
            if open.len() >= all {
                // Later ones take the place of the first.
                open.remove(0);
                target.rest(std::time::Duration::from_secs(1)).await;
            }
            if round.refused > 0 {
                target.rest(std::time::Duration::from_millis(100)).await;
            }
        }
        Ok(outcome)
    })
}
