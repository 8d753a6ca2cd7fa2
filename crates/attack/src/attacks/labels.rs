//! What clients say of themselves, in metrics and in the log.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{http2, subscribe};
use crate::attack::{Attack, Outcome, Round, Target};
use crate::peer::{Messages, Peer, Reads};
use crate::proto::{self, Node, Request, Response};

/// M8.
pub(super) const VERSION_LABELS: Attack = Attack::new(
    "version-labels",
    "M8",
    "100 streams with an ISTIO_VERSION of 40 kB each, again and again",
    |target| Box::pin(versions(target)),
);

/// M8.
pub(super) const NACK_LOGS: Attack = Attack::new(
    "nack-logs",
    "M8",
    "responses refused with a reason of 3 MB or 200 kB, as often as the server takes it",
    |target| Box::pin(nacks(target)),
);

/// What `/metrics` may have at most.
const METRICS: usize = 1 << 20;
/// What the log may grow by at most.
const LOG: u64 = 2 << 20;

async fn versions(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let streams = target.many(100);
    target
        .again(&mut outcome, |number| {
            let target = Arc::clone(&target);
            async move {
                let mut peer = http2(&target).await?;
                let mut round = Round::default();
                for stream in 0..streams {
                    if !target.goes_on() {
                        break;
                    }
                    let mut node = Node::of(stream, "n1", "versions");
                    let version = format!("1.{number}-{stream}-{}", "x".repeat(40_000));
                    node.metadata.retain(|(key, _)| key != "ISTIO_VERSION");
                    node.metadata.push(("ISTIO_VERSION".to_owned(), version));
                    subscribe(&mut peer, &node.encode()).await?;
                    round.sent += 1;
                }
                target.rest(Duration::from_secs(1)).await;
                round.refused += u64::from(peer.told.refused());
                Ok(round)
            }
        })
        .await;
    let page = target.page("/metrics", &[]).await?;
    if page.text.len() > METRICS {
        outcome.broke(format!("/metrics has {} bytes", page.text.len()));
    }
    Ok(outcome)
}

async fn nacks(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let before = fs::metadata(&target.places.log)?.len();
    let reason = "x".repeat(3_000_000);
    target
        .again(&mut outcome, |number| {
            // A reason may be too long to be taken at all.
            let reason = if number % 2 == 0 {
                &reason[..]
            } else {
                &reason[..200_000]
            };
            let target = &target;
            async move {
                let mut peer = Peer::open(target.xds, 1 << 24, Reads::Bodies).await?;
                refuse(target, &mut peer, reason).await
            }
        })
        .await;
    let grown = fs::metadata(&target.places.log)?.len() - before;
    if grown > LOG {
        outcome.broke(format!("the log grew by {grown} bytes"));
    }
    Ok(outcome)
}

async fn refuse(target: &Target, peer: &mut Peer, reason: &str) -> io::Result<Round> {
    let node = Node::of(900_003, "n0", "refuses").encode();
    let stream = subscribe(peer, &node).await?;
    let mut messages = Messages::default();
    let mut round = Round::default();
    while target.goes_on() && !peer.told.refused() {
        let Ok(Some(frame)) = timeout(Duration::from_secs(5), peer.bodies.recv()).await else {
            break;
        };
        messages.push(&frame.payload);
        if let Some(response) = messages.pop().and_then(Response::read) {
            // As often as one likes: a nonce may be answered again.
            for _ in 0..10 {
                let request = Request {
                    ty: proto::CLUSTER,
                    nonce: &response.nonce,
                    refusal: reason,
                    ..Request::default()
                };
                peer.data(stream, &request.encode()).await?;
                round.sent += 1;
            }
            return Ok(round);
        }
    }
    round.refused += 1;
    Ok(round)
}
