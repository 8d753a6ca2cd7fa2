//! What lies in a folder of manifests and is none.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use tokio::time::timeout;

use crate::attack::{Attack, Outcome, Target};
use crate::mesh::{self, Mesh};
use crate::peer::{Messages, Peer, Reads};
use crate::proto::{self, Node, Request, Response};
use crate::server::{Setup, is_ready};
use crate::wire;

/// H7.
pub(super) const HIDDEN_FOLDER: Attack = Attack::new(
    "hidden-folder",
    "H7",
    "copies of manifests in folders whose names begin with a dot",
    |target| Box::pin(hidden(target)),
);

/// H8.
pub(super) const FIFO: Attack = Attack::new(
    "fifo",
    "H8",
    "a FIFO among the manifests, before the start and while it runs",
    |target| Box::pin(fifo(target)),
);

/// H8.
pub(super) const LINK: Attack = Attack {
    setup: Setup {
        before: |places| fs::write(places.root.join("token"), format!("{SECRET}\n")),
        ..Setup::PLAIN
    },
    ..Attack::new(
        "link",
        "H8",
        "links to a token outside of the folder and to /dev/zero",
        |target| Box::pin(link(target)),
    )
};

const SECRET: &str = "a-token-that-nobody-should-read";

/// The change that only hidden folders tell of.
const HIDDEN: usize = 65_535;

async fn hidden(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut round = 0;
    while target.goes_on() {
        for folder in [".backup", "..2026_11_22"] {
            let folder = target.places.config.join(folder);
            fs::create_dir_all(&folder)?;
            // Whoever watches the folder must have seen it first.
            target.rest(Duration::from_millis(200)).await;
            // The last service of `n0`, whose turn is rare.
            let text = Mesh::THOUSAND.service(0, Mesh::THOUSAND.services - 1, HIDDEN);
            fs::write(folder.join(format!("s{round}.yaml")), text)?;
            outcome.sent += 1;
        }
        target.rest(Duration::from_millis(500)).await;
        if let Ok(Some(HIDDEN)) = served(&target, Mesh::THOUSAND.services - 1).await {
            outcome.broke("what a hidden folder holds is in force");
        }
        round += 1;
    }
    Ok(outcome)
}

/// The change of a service that a new proxy gets.
async fn served(target: &Target, service: usize) -> std::io::Result<Option<usize>> {
    let mut peer = Peer::open(target.xds, 1 << 20, Reads::Bodies).await?;
    let stream = peer.call(&wire::ads()).await?;
    let node = Node::of(900_002, "n0", "reader").encode();
    let request = Request {
        node: &node,
        ty: proto::ENDPOINT,
        subscribe: &[mesh::cluster(0, service)],
        ..Request::default()
    };
    peer.data(stream, &request.encode()).await?;
    let mut messages = Messages::default();
    let read = async {
        while let Some(frame) = peer.bodies.recv().await {
            messages.push(&frame.payload);
            let message = messages.pop().and_then(Response::read);
            if let Some((_, body)) = message.as_ref().and_then(|m| m.resources.first()) {
                return mesh::round_of(body);
            }
        }
        None
    };
    Ok(timeout(Duration::from_secs(5), read).await.unwrap_or(None))
}

async fn fifo(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    for name in ["n0/pipe.yaml", "pipe.yaml"] {
        let path = target.places.config.join(name);
        let made = Command::new("mkfifo").arg(&path).status()?;
        ensure!(made.success(), "mkfifo failed");
        outcome.sent += 1;
    }
    // That changes still reach proxies, and that the server ends, is measured by who runs this.
    target.hold().await;
    Ok(outcome)
}

async fn link(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let config = &target.places.config;
    symlink(target.places.root.join("token"), config.join("token.yaml"))?;
    symlink("/dev/zero", config.join("zero.yaml"))?;
    outcome.sent += 2;
    while target.goes_on() {
        target.rest(Duration::from_millis(500)).await;
        if fs::read_to_string(&target.places.log)?.contains(SECRET) {
            outcome.broke("the log shows what a link leads to");
        }
        for page in ["/debug/configz", "/debug/configz?findings"] {
            let page = target.page(page, &[]).await;
            if page.is_ok_and(|page| page.text.contains(SECRET)) {
                outcome.broke("a page shows what a link leads to");
            }
        }
        if !is_ready(target.http).await {
            outcome.broke("/ready does not answer");
        }
    }
    // Memory is bounded by who runs this; the next start need not read it again.
    fs::remove_file(config.join("zero.yaml"))?;
    Ok(outcome)
}
