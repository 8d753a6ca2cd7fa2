//! The API before anybody has shown who he is: silence after the handshake, and bodies that nobody asked for.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::attack::{Attack, Outcome, Target};
use crate::http1::{secure, tls};
use crate::peer::ATTACKER;
use crate::server::{Api, Setup};

const WITH_TLS: Setup = Setup {
    api: Api::Tls,
    ..Setup::PLAIN
};

/// M5.
pub(super) const SILENT_TLS: Attack = Attack {
    setup: WITH_TLS,
    least: Duration::from_secs(21),
    ..Attack::new(
        "silent-tls",
        "M5",
        "200 connections to the API that shake hands and say nothing",
        |target| Box::pin(silence(target)),
    )
};

/// M5.
pub(super) const ANONYMOUS_BODIES: Attack = Attack {
    setup: WITH_TLS,
    ..Attack::new(
        "anonymous-bodies",
        "M5",
        "200 times POST /version with 3 MiB of a body but for its end, by nobody",
        |target| Box::pin(bodies(target)),
    )
};

/// How long a connection may live that has not asked for anything.
const DEADLINE: Duration = Duration::from_secs(20);

async fn silence(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let connector = tls(&target.places.data.join("pki/ca.crt"), b"http/1.1")?;
    let start = Instant::now();
    let mut open = Vec::new();
    for _ in 0..target.many(200) {
        outcome.sent += 1;
        match secure(&connector, target.api, ATTACKER).await {
            Ok(socket) => open.push(socket),
            Err(_) => outcome.refused += 1,
        }
    }
    target.hold().await;
    let mut live = 0;
    for socket in &mut open {
        live += usize::from(
            timeout(Duration::from_millis(1), socket.read(&mut [0]))
                .await
                .is_err(),
        );
    }
    outcome.refused += (open.len() - live) as u64;
    if start.elapsed() > DEADLINE && live > 0 {
        let all = open.len();
        let took = start.elapsed();
        outcome.broke(format!(
            "{live} of {all} connections live after {took:?} without a request"
        ));
    }
    Ok(outcome)
}

async fn bodies(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let connector = tls(&target.places.data.join("pki/ca.crt"), b"http/1.1")?;
    let body = vec![b'x'; (3 << 20) - 1_024];
    let head = format!(
        "POST /version HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len() + 1
    );
    // In tests as many: the memory is what is looked at.
    let all = 200;
    let mut open = Vec::new();
    while target.goes_on() {
        if open.len() >= all {
            open.remove(0);
        }
        outcome.sent += 1;
        let Ok(mut socket) = secure(&connector, target.api, ATTACKER).await else {
            outcome.refused += 1;
            target.rest(Duration::from_millis(50)).await;
            continue;
        };
        let sent = async {
            socket.write_all(head.as_bytes()).await?;
            socket.write_all(&body).await?;
            socket.flush().await
        };
        let sent = timeout(Duration::from_secs(2), sent).await;
        // An answer to what is not whole refuses it.
        let read = timeout(Duration::from_millis(1), socket.read(&mut [0])).await;
        let refused = !matches!(sent, Ok(Ok(()))) || read.is_ok();
        outcome.refused += u64::from(refused);
        open.push(socket);
    }
    Ok(outcome)
}
