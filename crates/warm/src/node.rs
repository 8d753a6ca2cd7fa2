//! What a node is known by at the next start.

use model::node::Node;
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

/// Metadata that tells siblings apart, and nothing that generation reads.
const OF_ONE: [&str; 2] = ["INSTANCE_IPS", "NAME"];

/// Hashes of what a node says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeKeys {
    /// Over everything.
    pub exact: u128,
    /// Over everything but its id, its name and its addresses: equal for replicas of one workload.
    pub kind: u128,
    /// Over its addresses.
    pub addresses: u64,
}

impl NodeKeys {
    /// Of a node. Equal on every machine and in every build.
    pub fn of(node: &Node) -> Self {
        let mut kind = Xxh3::new();
        let parts = format!(
            "{:?}",
            (
                (node.role, &node.namespace, &node.dns_domain, &node.labels),
                (&node.locality, &node.network, &node.cluster),
                (&node.service_cluster, node.version, &node.extensions),
                (&node.identity, node.envoy_version),
            )
        );
        text(&mut kind, &parts);
        let mut exact = kind.clone();
        members(&node.metadata, &OF_ONE, &mut kind);
        members(&node.metadata, &[], &mut exact);
        let mut addresses = Xxh3::new();
        for address in node.addresses.iter() {
            text(&mut addresses, &address.to_string());
        }
        let addresses = addresses.digest();
        text(&mut exact, &node.id);
        text(&mut exact, &node.name);
        exact.update(&addresses.to_le_bytes());
        Self {
            exact: exact.digest128(),
            kind: kind.digest128(),
            addresses,
        }
    }
}

fn text(hash: &mut Xxh3, text: &str) {
    hash.update(&(text.len() as u64).to_le_bytes());
    hash.update(text.as_bytes());
}

/// Members in the order of their names, whichever order they came in.
fn members(map: &serde_json::Map<String, Value>, but: &[&str], hash: &mut Xxh3) {
    let mut names: Vec<&String> = map.keys().filter(|k| !but.contains(&&***k)).collect();
    names.sort_unstable();
    hash.update(&(names.len() as u64).to_le_bytes());
    for name in names {
        text(hash, name);
        value(&map[name], hash);
    }
}

fn value(of: &Value, hash: &mut Xxh3) {
    match of {
        Value::Object(map) => {
            hash.update(b"o");
            members(map, &[], hash);
        }
        Value::Array(list) => {
            hash.update(b"a");
            hash.update(&(list.len() as u64).to_le_bytes());
            list.iter().for_each(|item| value(item, hash));
        }
        Value::String(string) => {
            hash.update(b"s");
            text(hash, string);
        }
        other => {
            hash.update(b"v");
            text(hash, &other.to_string());
        }
    }
}
