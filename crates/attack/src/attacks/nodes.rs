//! Nodes with as much metadata as a request may carry, and many with a little less.

use std::sync::Arc;
use std::time::Duration;

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

/// H5, below any limit of one node.
pub(super) const NODES_HOARD: Attack = Attack {
    memory_mib: 512,
    // Nodes are decoded without optimisation.
    cpu_s: 10.0,
    ..Attack::new(
        "nodes-hoard",
        "H5",
        "1,000 streams whose nodes have 60 kB of metadata each, in 2,000 keys",
        hoard,
    )
};

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
                target.rest(Duration::from_millis(100)).await;
                continue;
            };
            outcome.sent += 1;
            let sent = subscribe(&mut peer, &node).await;
            target.rest(Duration::from_millis(20)).await;
            outcome.refused += u64::from(sent.is_err() || peer.told.refused());
            open.push(peer);
            if open.len() > all {
                open.remove(0);
            }
        }
        Ok(outcome)
    })
}

fn hoard(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        let mut number = 0;
        while target.goes_on() && number < 1_000 {
            let Ok(mut peer) = http2(&target).await else {
                outcome.refused += 1;
                target.rest(Duration::from_millis(100)).await;
                continue;
            };
            for _ in 0..peer.at_once(100) {
                let mut node = Node::of(number, "n1", "hoard");
                let keys = 0..2_000;
                node.metadata
                    .extend(keys.map(|n| (format!("key-{n}"), format!("{number}-{n}"))));
                number += 1;
                outcome.sent += 1;
                if subscribe(&mut peer, &node.encode()).await.is_err() || !target.goes_on() {
                    break;
                }
            }
            open.push(peer);
        }
        target.hold().await;
        let turned_away = open.iter().map(|peer| peer.told.turned_away());
        outcome.refused += turned_away.sum::<u64>();
        Ok(outcome)
    })
}
