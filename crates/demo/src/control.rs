//! Pilothouse's own pages.

use std::net::SocketAddr;

use anyhow::ensure;
use serde_json::Value;

use crate::http::{Client, get};
use crate::syncz::Row;

/// Whether Pilothouse serves what was there at start.
pub async fn is_ready(pages: SocketAddr) -> bool {
    get(pages, "/ready")
        .await
        .is_ok_and(|reply| reply.status == 200)
}

/// What was sent to each proxy and what it acknowledged.
///
/// # Errors
///
/// When there is no such answer.
pub async fn syncz(client: &mut Client) -> anyhow::Result<Vec<Row>> {
    let reply = client.get("/debug/syncz").await?;
    Ok(reply
        .json()?
        .as_array()
        .into_iter()
        .flatten()
        .map(Row::read)
        .collect())
}

/// What a proxy (`NAME.NAMESPACE`) should have, in the shape of Envoy's own page.
///
/// # Errors
///
/// When there is no such answer.
pub async fn config_dump(pages: SocketAddr, proxy: &str) -> anyhow::Result<Value> {
    let reply = get(
        pages,
        &format!("/debug/config_dump?proxyID={proxy}&include_eds"),
    )
    .await?;
    ensure!(reply.status == 200, "{}", reply.text());
    reply.json()
}

/// What is wrong with objects, one sentence each.
///
/// # Errors
///
/// When there is no such answer.
pub async fn findings(client: &mut Client) -> anyhow::Result<Vec<String>> {
    let reply = client.get("/debug/configz?findings").await?;
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let sentence = |d: &Value| {
        let mut sentence = format!("{} ", text(d, "origin"));
        if !text(d, "path").is_empty() {
            sentence += &format!("{}: ", text(d, "path"));
        }
        sentence += &text(d, "message");
        if !text(d, "help").is_empty() {
            sentence += &format!(" ({})", text(d, "help"));
        }
        sentence.trim().to_owned()
    };
    Ok(reply
        .json()?
        .as_array()
        .into_iter()
        .flatten()
        .map(sentence)
        .collect())
}

/// How many responses proxies refused, as Pilothouse counts it.
///
/// # Errors
///
/// When there is no such answer.
pub async fn refusals(pages: SocketAddr) -> anyhow::Result<f64> {
    let text = get(pages, "/metrics").await?.text();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("pilot_total_xds_rejects"));
    Ok(lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum())
}
