//! Requests that are answered and recorded nowhere.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::attack::{Attack, Outcome, Running, Target};
use crate::http1::ask;
use crate::peer::{ATTACKER, connect};
use crate::server::{Api, Setup};

/// H2.
pub(super) const AUDIT_BYPASS: Attack = Attack {
    setup: Setup {
        api: Api::Local,
        ..Setup::PLAIN
    },
    ..Attack::new(
        "audit-bypass",
        "H2",
        "requests whose paths are written another way, and dry runs that are none",
        run,
    )
};

/// Paths that mean one of the API.
const PATHS: &[&str] = &[
    "//api/v1/namespaces/default/secrets",
    "/%61pi/v1/namespaces/default/secrets",
    "//pilothouse/export",
    "/./api/v1/namespaces/default/secrets",
    "/api//v1/namespaces/default/secrets",
];

fn run(target: Arc<Target>) -> Running {
    Box::pin(async move {
        let mut outcome = Outcome::default();
        let mut round = 0;
        while target.goes_on() {
            for path in PATHS {
                let before = lines(&target);
                outcome.sent += 1;
                let status = request(&target, "GET", path, "").await?;
                let is_new = lines(&target) > before;
                match status {
                    200..=299 if !is_new => {
                        outcome.broke(format!("GET {path} is answered and not recorded"));
                    }
                    200..=299 => {}
                    _ => outcome.refused += 1,
                }
            }
            dry_run(&target, &mut outcome, round).await?;
            round += 1;
            target.rest(Duration::from_millis(200)).await;
        }
        Ok(outcome)
    })
}

/// A write with `?dryRun=` is a write, or refused.
async fn dry_run(target: &Target, outcome: &mut Outcome, round: usize) -> anyhow::Result<()> {
    let name = format!("dry-{round}");
    let body =
        format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
    outcome.sent += 1;
    let status = request(target, "POST", "/api/v1/namespaces?dryRun=", &body).await?;
    if !(200..=299).contains(&status) {
        outcome.refused += 1;
        return Ok(());
    }
    let there = request(target, "GET", &format!("/api/v1/namespaces/{name}"), "").await? == 200;
    let log = fs::read_to_string(&target.places.audit)?;
    let line = log.lines().rfind(|line| line.contains("\"POST\""));
    let dry = line.is_some_and(|line| line.contains("\"dryRun\":true"));
    if there && dry {
        outcome.broke("a write is recorded as a dry run");
    }
    Ok(())
}

fn lines(target: &Target) -> usize {
    fs::read_to_string(&target.places.audit).map_or(0, |log| log.lines().count())
}

async fn request(target: &Target, method: &str, path: &str, body: &str) -> anyhow::Result<u16> {
    let mut socket = connect(target.api, ATTACKER).await?;
    let json: &[&str] = &["Content-Type: application/json"];
    let patience = Duration::from_secs(10);
    let answer = ask(&mut socket, method, path, json, body.as_bytes(), patience).await?;
    Ok(answer.status)
}
