//! Connections that say one octet a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::attack::{Attack, Outcome, Running, Target};
use crate::peer::{ATTACKER, connect};
use crate::wire;

/// H5.
pub(super) const DRIBBLE: Attack = Attack {
    least: Duration::from_secs(31),
    ..Attack::new(
        "dribble",
        "H5",
        "200 connections that send their preface one octet a second",
        run,
    )
};

/// How long a connection may live that does not finish what it began.
const DEADLINE: Duration = Duration::from_secs(30);

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        for _ in 0..target.many(200) {
            match connect(target.xds, ATTACKER).await {
                Ok(socket) => open.push(socket),
                Err(_) => outcome.refused += 1,
            }
        }
        let start = Instant::now();
        let all = open.len();
        let mut octets = wire::hello(65_535);
        octets.extend(wire::frame(
            wire::HEADERS,
            wire::END_HEADERS,
            1,
            &wire::ads(),
        ));
        for octet in octets {
            if !target.goes_on() {
                break;
            }
            let mut left = Vec::new();
            for mut socket in open {
                outcome.sent += 1;
                let mut came = [0; 1024];
                let over = match timeout(Duration::ZERO, socket.read(&mut came)).await {
                    Ok(Ok(read)) => read == 0,
                    Ok(Err(_)) => true,
                    Err(_) => false,
                };
                if !over && socket.write_all(&[octet]).await.is_ok() {
                    left.push(socket);
                }
            }
            open = left;
            target.rest(Duration::from_secs(1)).await;
        }
        outcome.refused += (all - open.len()) as u64;
        if start.elapsed() > DEADLINE && !open.is_empty() {
            let live = open.len();
            outcome.broke(format!(
                "{live} of {all} connections live after {:?} without a request",
                start.elapsed()
            ));
        }
        Ok(outcome)
    })
}
