//! The page `/debug/ca`: which CA signs, and the roots that peers are judged by. Roots are no secret.

use std::time::{SystemTime, UNIX_EPOCH};

use ca::Authority;
use serde_json::{Value, json};

/// What there is to say of the CA.
pub(crate) fn page(authority: Option<&Authority>) -> Value {
    let Some(authority) = authority else {
        return json!({"enabled": false});
    };
    let state = authority.state();
    let roots = authority.roots().borrow().clone();
    json!({
        "enabled": true,
        "ca": state.about,
        "ready": roots.are_known(),
        "fault": state.fault,
        "rootExpires": state.root_expires.map(seconds),
        "chainExpires": state.chain_expires.map(seconds),
        "nextRootSignsFrom": state.next_signs_from.map(seconds),
        "generation": roots.generation,
        "roots": roots.pems,
        "crl": roots.crl,
    })
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
