//! New streams as fast as the server takes them.

use std::sync::Arc;

use super::{http2, subscribe};
use crate::attack::{Attack, Outcome, Round, Running, Target};
use crate::proto::Node;

/// H5.
pub(super) const STREAM_FLOOD: Attack = Attack::new(
    "stream-flood",
    "H5",
    "connections with 100 new streams each, one after the other, closed when all are open",
    run,
);

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        target
            .again(&mut outcome, |number| {
                let target = Arc::clone(&target);
                async move {
                    let mut peer = http2(&target).await?;
                    let mut round = Round::default();
                    for stream in 0..peer.at_once(100) {
                        let number = number * 100 + stream;
                        let namespace = format!("n{}", number % 20);
                        let node = Node::of(number, &namespace, "flood").encode();
                        subscribe(&mut peer, &node).await?;
                        round.sent += 1;
                    }
                    round.refused += peer.told.turned_away() + u64::from(peer.told.is_over());
                    Ok(round)
                }
            })
            .await;
        Ok(outcome)
    })
}
