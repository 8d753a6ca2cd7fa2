//! Connections that say nothing, more than the server has descriptors.

use std::sync::Arc;
use std::time::Duration;

use crate::attack::{Attack, Outcome, Running, Target};
use crate::peer::{ATTACKER, connect};
use crate::server::{Setup, is_ready};

/// H5.
pub(super) const IDLE_CONNECTIONS: Attack = Attack {
    setup: Setup {
        descriptors: Some(128),
        ..Setup::PLAIN
    },
    proxies: 10,
    ..Attack::new(
        "idle-connections",
        "H5",
        "500 connections that say nothing, to a server that may open 128 descriptors",
        run,
    )
};

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut open = Vec::new();
        for _ in 0..500 {
            outcome.sent += 1;
            match connect(target.xds, ATTACKER).await {
                Ok(socket) => open.push(socket),
                Err(_) => outcome.refused += 1,
            }
        }
        while target.goes_on() {
            target.rest(Duration::from_millis(300)).await;
            if !is_ready(target.http).await {
                outcome.broke("/ready does not answer");
            }
        }
        Ok(outcome)
    })
}
