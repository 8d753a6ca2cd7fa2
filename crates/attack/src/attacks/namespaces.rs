//! Namespaces that nobody has, each of them a view, asked for by a client that reads nothing.

use std::sync::Arc;

use super::subscribe;
use crate::attack::{Attack, Outcome, Running, Target};
use crate::mesh::Mesh;
use crate::peer::{Peer, Reads};
use crate::proto::{self, Node, Request};
use crate::server::Setup;

/// H5.
pub(super) const INVENTED_NAMESPACES: Attack = Attack {
    setup: Setup {
        // Every proxy sees every service, so a view is large.
        mesh: Mesh {
            everything: true,
            ..Mesh::THOUSAND
        },
        ..Setup::PLAIN
    },
    memory_mib: 256,
    ..Attack::new(
        "invented-namespaces",
        "H5",
        "streams of 300 namespaces that there are not, in a mesh where all see all; nothing is read",
        run,
    )
};

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        let mut number = 0;
        // In tests as well: a tenth is too little to see.
        while target.goes_on() && number < 300 {
            let Ok(mut peer) = Peer::open(target.xds, 65_535, Reads::Nothing).await else {
                outcome.refused += 1;
                target.rest(std::time::Duration::from_millis(100)).await;
                continue;
            };
            for _ in 0..30 {
                let namespace = format!("invented-{number}");
                let node = Node::of(number, &namespace, "nobody").encode();
                number += 1;
                outcome.sent += 1;
                let sent = async {
                    let stream = subscribe(&mut peer, &node).await?;
                    let more = Request {
                        ty: proto::LISTENER,
                        ..Request::default()
                    };
                    peer.data(stream, &more.encode()).await
                };
                if sent.await.is_err() {
                    outcome.refused += 1;
                    break;
                }
            }
            open.push(peer);
        }
        target.hold().await;
        Ok(outcome)
    })
}
