//! Nodes with as much metadata as a request may carry.

use std::sync::Arc;

use super::{http2, subscribe};
use crate::attack::{Attack, Outcome, Running, Target};
use crate::proto::Node;

/// H5.
pub(super) const HUGE_NODES: Attack = Attack::new(
    "huge-nodes",
    "H5",
    "nodes of 3.5 MiB with 150,000 keys of metadata, 20 streams at a time",
    run,
);

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut node = Node::of(900_001, "n1", "nodes");
        let keys = 0..150_000;
        node.metadata
            .extend(keys.map(|n| (format!("key-{n}"), format!("{n}"))));
        let node = node.encode();
        let mut open = Vec::new();
        let all = target.many(20);
        while target.goes_on() {
            let Ok(mut peer) = http2(&target).await else {
                outcome.refused += 1;
                target.rest(std::time::Duration::from_millis(100)).await;
                continue;
            };
            outcome.sent += 1;
            let sent = subscribe(&mut peer, &node).await;
            target.rest(std::time::Duration::from_millis(20)).await;
            outcome.refused += u64::from(sent.is_err() || peer.told.refused());
            open.push(peer);
            if open.len() > all {
                open.remove(0);
            }
        }
        Ok(outcome)
    })
}
