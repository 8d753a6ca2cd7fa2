//! What is kept on disk for the next start, and who is served from it.

use serde_json::{Value, json};

use super::{proxy_name, time};
use crate::derive::State;
use crate::warm::{Start, Warm};

/// How many proxies are named.
const SHOWN: usize = 100;

/// The proxies that should have what they had before the start: how many, and the names of some.
pub(super) fn from_disk(state: &State) -> (usize, Vec<String>) {
    let rows = state.proxies().filter(|p| p.from_disk);
    let names = rows.take(SHOWN).map(|p| proxy_name(&p.node)).collect();
    (state.from_disk(), names)
}

/// The page.
pub(super) fn page(warm: &Warm, (count, names): &(usize, Vec<String>)) -> Value {
    let start = match warm.start() {
        Start::Off => {
            return json!({ "state": "off", "help": "give a folder with --state-dir" });
        }
        Start::Empty => json!({ "found": "nothing" }),
        Start::Ignored(reason) => json!({ "found": "ignored", "reason": reason }),
        Start::Loaded { views, nodes, at } => json!({
            "found": "loaded", "views": views, "proxies": nodes, "savedAt": time(*at),
        }),
    };
    let saves = warm.saves();
    json!({
        "state": if warm.is_serving() { "serving from disk until the sources have been read" } else { "saving" },
        "folder": warm.folder(),
        "start": start,
        "fromDisk": { "proxies": count, "names": names },
        "lastSave": saves.last.map(|(at, saved)| json!({
            "at": time(at), "bytesWritten": saved.written, "fileBytes": saved.size,
            "views": saved.views, "sets": saved.sets, "proxies": saved.nodes, "viewsLeftOut": saved.left_out,
        })),
        "failures": saves.failures,
    })
}
