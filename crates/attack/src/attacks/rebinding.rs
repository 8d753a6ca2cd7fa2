//! Web pages that reach this machine by a name of their own.

use std::sync::Arc;
use std::time::Duration;

use crate::attack::{Attack, Outcome, Running, Target};

/// M7.
pub(super) const REBINDING: Attack = Attack::new(
    "rebinding",
    "M7",
    "debug pages asked for with the Host and Origin of a web page, and as a local reverse proxy does",
    run,
);

const FOREIGN: &[(&str, &[&str])] = &[
    ("a foreign Host", &["Host: evil.example.com"]),
    (
        "a foreign Host with a port",
        &["Host: evil.example.com:8080"],
    ),
    (
        "an Origin",
        &["Host: localhost", "Origin: http://evil.example.com"],
    ),
    (
        "a proxy's header",
        &["Host: localhost", "X-Forwarded-For: 203.0.113.7"],
    ),
    (
        "a proxy's header",
        &["Host: localhost", "Forwarded: for=203.0.113.7"],
    ),
];

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        while target.goes_on() {
            for (what, headers) in FOREIGN {
                outcome.sent += 1;
                match target.page("/debug/configz", headers).await {
                    Ok(answer) if answer.status == 200 => {
                        outcome.broke(format!("debug pages answer to {what}"));
                    }
                    _ => outcome.refused += 1,
                }
            }
            target.rest(Duration::from_millis(100)).await;
        }
        Ok(outcome)
    })
}
