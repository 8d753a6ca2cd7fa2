//! The annotation by which Multus attaches networks: names, or a JSON list.

use serde_json::Value;

/// What is stated with one more network, unless it is in it.
pub(super) fn append(existing: &str, network: &str) -> String {
    if existing.is_empty() {
        return network.to_owned();
    }
    let Some(end) = existing.rfind(']') else {
        if existing.split(',').any(|known| known.trim() == network) {
            return existing.to_owned();
        }
        return format!("{existing}, {network}");
    };
    let (namespace, name) = network.split_once('/').unwrap_or(("", network));
    let Ok(networks) = serde_json::from_str::<Vec<serde_json::Map<String, Value>>>(existing) else {
        return existing.to_owned();
    };
    let is_it = |known: &serde_json::Map<String, Value>| {
        let text = |key: &str| known.get(key).filter(|v| !v.is_null());
        text("name").is_some_and(|v| v == name)
            && text("namespace").map_or(namespace.is_empty(), |v| v == namespace)
    };
    if networks.iter().any(is_it) {
        return existing.to_owned();
    }
    let entry = match namespace {
        "" => format!(", {{\"name\": \"{name}\"}}"),
        namespace => format!(", {{\"name\": \"{name}\", \"namespace\": \"{namespace}\"}}"),
    };
    format!("{}{entry}{}", &existing[..end], &existing[end..])
}
