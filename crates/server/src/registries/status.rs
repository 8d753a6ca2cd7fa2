//! `/debug/registries`: how each registry is.

use serde_json::{Value, json};

use super::manager::Registries;

/// Every registry with its state.
pub fn page(registries: &Registries) -> Value {
    let rows = registries.known.iter().map(|(key, known)| {
        let health = known.state.get();
        let age = health.answered.map(|at| at.elapsed().as_secs_f64());
        json!({
            "type": &*key.kind,
            "name": &*key.name,
            "connected": health.connected,
            "synced": health.was_whole,
            "services": health.figures.services,
            "instances": health.figures.instances,
            "kept": health.figures.kept,
            "leftOut": health.figures.left_out,
            "bytes": health.figures.bytes,
            "answeredSecondsAgo": age,
            "lagMs": health.lag.as_secs_f64() * 1e3,
            "reports": health.reports,
            "failures": health.failures,
            "lastError": health.error.as_deref(),
            "proxy": known.entry.through().map(|through| {
                json!({
                    "name": &*through.proxy,
                    "listenerPort": through.listener,
                    "target": &*through.tunnel.target,
                })
            }),
            "mcp": known.mcp.as_ref().map(|state| {
                let mcp = state.get();
                json!({
                    "served": mcp.served,
                    "refused": mcp.refused,
                    "lastError": mcp.error.as_deref(),
                })
            }),
        })
    });
    rows.collect()
}
