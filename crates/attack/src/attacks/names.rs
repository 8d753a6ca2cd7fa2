//! Millions of names on one stream, then small requests that make the server sort them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::http2;
use crate::attack::{Attack, Outcome, Round, Running, Target};
use crate::peer::Peer;
use crate::proto::{self, Node, Request};
use crate::wire;

/// H3.
pub(super) const NAMES_FLOOD: Attack = Attack {
    memory_mib: 128,
    // The names of a request are taken in at once, which takes its time without optimisation.
    stall: Duration::from_secs(4),
    least: Duration::from_secs(12),
    ..Attack::new(
        "names-flood",
        "H3",
        "1.6 million names of endpoints on one stream, then requests of one more",
        run,
    )
};

/// H3, below any limit of one stream.
pub(super) const NAMES_HOARD: Attack = Attack {
    memory_mib: 640,
    ..Attack::new(
        "names-hoard",
        "H3",
        "200 streams that keep 60,000 names of endpoints each, which no two share",
        hoard,
    )
};

/// Names of a request: below what a stream may ask for, so that the first request is worked on.
const EACH: usize = 80_000;

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        // In tests as many: fewer are allowed.
        let requests = 1_600_000 / EACH;
        target
            .again(&mut outcome, |_| async {
                let mut peer = http2(&target).await?;
                flood(&target, &mut peer, requests).await
            })
            .await;
        Ok(outcome)
    })
}

async fn flood(target: &Target, peer: &mut Peer, requests: usize) -> io::Result<Round> {
    let node = Node::of(900_000, "n1", "names").encode();
    let stream = peer.call(&wire::ads()).await?;
    let mut round = Round::default();
    for request in 0..requests {
        if !target.goes_on() {
            return Ok(round);
        }
        let names: Vec<String> = (0..EACH)
            .map(|n| format!("{:x}", request * EACH + n))
            .collect();
        let body = Request {
            node: if request == 0 { &node } else { &[] },
            ty: proto::ENDPOINT,
            subscribe: &names,
            ..Request::default()
        };
        peer.data(stream, &body.encode()).await?;
        round.sent += 1;
    }
    for more in 0..60 {
        if !target.goes_on() {
            return Ok(round);
        }
        let body = Request {
            ty: proto::ENDPOINT,
            subscribe: &[format!("one-more-{more}")],
            ..Request::default()
        };
        peer.data(stream, &body.encode()).await?;
        round.sent += 1;
    }
    // Until the last one is answered, or refused.
    tokio::time::sleep(Duration::from_millis(500)).await;
    round.refused += u64::from(peer.told.refused());
    Ok(round)
}

fn hoard(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        // In tests as many: the memory is what is looked at.
        let mut left = 200;
        while target.goes_on() && left > 0 {
            let Ok(mut peer) = http2(&target).await else {
                outcome.refused += 1;
                target.rest(Duration::from_millis(100)).await;
                continue;
            };
            for _ in 0..left.min(50) {
                left -= 1;
                outcome.sent += 1;
                let node = Node::of(900_100 + left, "n1", "hoard").encode();
                let names: Vec<String> = (0..60_000).map(|n| format!("hoard-{left}-{n}")).collect();
                let request = Request {
                    node: &node,
                    ty: proto::ENDPOINT,
                    subscribe: &names,
                    ..Request::default()
                };
                let sent = async {
                    let stream = peer.call(&wire::ads()).await?;
                    peer.data(stream, &request.encode()).await
                };
                if sent.await.is_err() || !target.goes_on() {
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
