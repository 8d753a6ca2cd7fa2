//! Objects that ask for values of Secrets, very often, and for very much.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::attack::{Attack, Outcome, Running, Target};
use crate::peer::{Messages, Peer, Reads};
use crate::proto::{self, Node, Request, Response};
use crate::server::Setup;
use crate::wire;

/// Templates.
pub(super) const TEMPLATES: Attack = Attack {
    setup: Setup {
        environment: &[
            ("PILOTHOUSE_INSECURE_TEST_IDENTITIES", "true"),
            ("PILOTHOUSE_SECRET_TEMPLATES", "true"),
        ],
        ..Setup::PLAIN
    },
    memory_mib: 160,
    cpu_s: 12.0,
    // On a machine that others use as well.
    stall: Duration::from_secs(120),
    ..Attack::new(
        "templates",
        "templates",
        "an object with 10,000 marks for values of Secrets, and 500 objects that each ask for all of a Secret of 1 MiB",
        run,
    )
};

/// Values of the large Secret, each about as large as Envoy lets a header be.
const VALUES: usize = 64;
const VALUE: usize = 15 << 10;
/// The most that the routes may be: the values of one namespace, and what the objects themselves are.
const MOST: usize = 8 << 20;
/// How long it may take until values are put in.
const PATIENCE: Duration = Duration::from_secs(120);

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let config = &target.places.config;
        let mut secret = String::from(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: large, namespace: n1}\nstringData:\n",
        );
        for value in 0..VALUES {
            let _ = writeln!(secret, "  v{value}: {}", "x".repeat(VALUE));
        }
        let marks = |count: usize| {
            (0..count).fold(String::new(), |mut out, n| {
                let _ = write!(out, "x-{n}: \"${{secret.large.v{}}}\", ", n % VALUES);
                out
            })
        };
        let mut routes = service("many", &marks(target.many(10_000)));
        let objects = target.many(500);
        for object in 0..objects {
            routes += &service(&format!("large{object}"), &marks(VALUES));
        }
        fs::write(config.join("secret.yaml"), secret)?;
        fs::write(config.join("templates.yaml"), routes)?;
        outcome.sent = 1 + objects as u64;
        let largest = largest(&target).await?;
        match largest {
            0 => outcome.broke("no value is put into routes, so nothing was attacked"),
            n if n > MOST => outcome.broke(format!("the routes have {n} bytes")),
            _ => {}
        }
        target.hold().await;
        fs::remove_file(config.join("templates.yaml"))?;
        fs::remove_file(config.join("secret.yaml"))?;
        Ok(outcome)
    })
}

/// A VirtualService that sets headers.
fn service(name: &str, headers: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: {name}, namespace: n1}}\n\
         spec:\n  hosts: [{name}.example.com]\n  http:\n  - headers: {{request: {{set: {{{headers}}}}}}}\n    \
         route: [{{destination: {{host: s0.n1.svc.cluster.local}}}}]\n"
    )
}

/// The bytes of the routes of a proxy that has proven who it is, once there are values in them; 0 where none came.
async fn largest(target: &Target) -> io::Result<usize> {
    let mut peer = Peer::open(target.xds, 1 << 24, Reads::Bodies).await?;
    let mut head = wire::ads();
    wire::header("authorization", b"Bearer sa:n1:default", &mut head);
    let stream = peer.call(&head).await?;
    let node = Node::of(900_004, "n1", "templates").encode();
    let request = Request {
        node: &node,
        ty: proto::ROUTE,
        subscribe: &["80".to_owned()],
        ..Request::default()
    };
    peer.data(stream, &request.encode()).await?;
    let (mut messages, mut largest) = (Messages::default(), 0);
    let until = Instant::now() + PATIENCE;
    while largest == 0 && Instant::now() < until {
        let Ok(Some(frame)) = timeout(PATIENCE, peer.bodies.recv()).await else {
            break;
        };
        messages.push(&frame.payload);
        let Some(response) = messages.pop().and_then(Response::read) else {
            continue;
        };
        let bodies = response.resources.iter().map(|(_, body)| body);
        let filled = bodies.filter(|body| body.windows(1024).any(|w| w == [b'x'; 1024]));
        largest = filled.map(|body| body.len()).max().unwrap_or(0);
        let taken = Request {
            ty: proto::ROUTE,
            nonce: &response.nonce,
            ..Request::default()
        };
        peer.data(stream, &taken.encode()).await?;
    }
    Ok(largest)
}
