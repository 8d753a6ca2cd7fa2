//! Envoy's admin page.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::ensure;
use serde_json::Value;

use crate::http::get;

/// Whether Envoy has been given all it waits for at start, and its workers take connections, which comes a little later.
pub async fn is_ready(admin: SocketAddr) -> bool {
    let live = get(admin, "/ready").await;
    let started = "listener_manager.workers_started";
    live.is_ok_and(|reply| reply.status == 200)
        && stats(admin, started)
            .await
            .is_ok_and(|stats| stats.get(started) == Some(&1))
}

/// Everything that Envoy is configured with, endpoints included.
///
/// # Errors
///
/// When there is no such answer.
pub async fn config_dump(admin: SocketAddr) -> anyhow::Result<Value> {
    let reply = get(admin, "/config_dump?include_eds").await?;
    ensure!(
        reply.status == 200,
        "{admin}/config_dump: {} {}",
        reply.status,
        reply.text()
    );
    reply.json()
}

/// The counters and gauges whose names match a regular expression.
///
/// # Errors
///
/// When there is no such answer.
pub async fn stats(admin: SocketAddr, filter: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let reply = get(admin, &format!("/stats?filter={filter}")).await?;
    ensure!(
        reply.status == 200,
        "{admin}/stats: {} {}",
        reply.status,
        reply.text()
    );
    let text = reply.text();
    let lines = text.lines().filter_map(|line| line.rsplit_once(": "));
    Ok(lines
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect())
}

/// The updates that Envoy refused, by the name of the counter; empty where all is well.
///
/// # Errors
///
/// When there is no such answer.
pub async fn rejected(admin: SocketAddr) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut counters = stats(admin, "update_rejected").await?;
    counters.retain(|_, count| *count > 0);
    Ok(counters)
}
