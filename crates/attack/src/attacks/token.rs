//! A start that failed half-way left a token of no octets.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::attack::{Attack, Outcome, Running, Target};
use crate::http1::{secure, tls};
use crate::peer::{ATTACKER, Peer, Reads};
use crate::server::{Api, Setup};
use crate::wire;

/// H1.
pub(super) const EMPTY_TOKEN: Attack = Attack {
    setup: Setup {
        api: Api::Tls,
        before: |places| {
            fs::create_dir_all(places.data.join("pki"))?;
            fs::write(places.data.join("pki/admin.token"), "")
        },
        ..Setup::PLAIN
    },
    may_refuse_to_start: true,
    ..Attack::new(
        "empty-token",
        "H1",
        "an admin.token of no octets, and requests that show an empty bearer",
        run,
    )
};

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let connector = tls(&target.places.data.join("pki/ca.crt"), b"h2")?;
        while target.goes_on() {
            for bearer in ["Bearer ", "Bearer  ", "Bearer"] {
                outcome.sent += 1;
                let socket = secure(&connector, target.api, ATTACKER).await?;
                let mut peer = Peer::over(Box::new(socket), Reads::Bodies);
                peer.send(&wire::hello(65_535)).await?;
                let mut head = wire::request("GET", "https", "/api/v1/namespaces/default/secrets");
                wire::header("authorization", bearer.as_bytes(), &mut head);
                let stream = peer.stream();
                let flags = wire::END_HEADERS | wire::END_STREAM;
                peer.send(&wire::frame(wire::HEADERS, flags, stream, &head))
                    .await?;
                let mut body = Vec::new();
                while let Ok(Some(frame)) =
                    tokio::time::timeout(Duration::from_secs(2), peer.bodies.recv()).await
                {
                    body.extend_from_slice(&frame.payload);
                    if frame.flags & wire::END_STREAM != 0 {
                        break;
                    }
                }
                let text = String::from_utf8_lossy(&body);
                if text.contains("SecretList") {
                    outcome.broke(format!("{bearer:?} lists Secrets"));
                } else {
                    outcome.refused += 1;
                }
            }
            target.rest(Duration::from_millis(100)).await;
        }
        Ok(outcome)
    })
}
