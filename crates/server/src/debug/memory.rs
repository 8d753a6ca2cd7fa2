//! Who holds memory: resources by type, by view and by service, memos by query, and proxies.
//!
//! Resources are shared: each is counted once in the totals, and under a view only where no other view has it. What
//! connections hold below this crate (sockets, HTTP/2, the protocol's state) is in what is left over.

use std::collections::BTreeMap;

use model::node::Node;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use xds::{Resource, TypeUrl};

use super::proxy_name;
use crate::derive::State;
use crate::streams::Connection;

/// How many of the largest views and services are shown.
const SHOWN: usize = 20;

/// A resource that some view has.
struct Held {
    ty: TypeUrl,
    bytes: usize,
    /// The first view that has it, and how many have it.
    view: usize,
    views: usize,
}

/// What is derived, and what the engine holds.
pub(super) struct Derived {
    views: Vec<Value>,
    services: Vec<Value>,
    types: BTreeMap<&'static str, (usize, usize)>,
    engine: incr::Stats,
}

/// Gathers what the derive thread knows.
pub(super) fn derived(state: &State) -> Derived {
    let mut held: FxHashMap<*const Resource, Held> = FxHashMap::default();
    let mut services: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let views: Vec<_> = state.published().collect();
    for (at, (_, _, published)) in views.iter().enumerate() {
        for ty in TypeUrl::ALL {
            for resource in published.get(ty).into_iter().flatten() {
                let bytes = bytes(resource);
                let entry = held
                    .entry(std::sync::Arc::as_ptr(resource))
                    .or_insert_with(|| {
                        if let Some(host) = service(ty, &resource.name) {
                            let sum = services.entry(host.to_owned()).or_default();
                            *sum = (sum.0 + 1, sum.1 + bytes);
                        }
                        Held {
                            ty,
                            bytes,
                            view: at,
                            views: 0,
                        }
                    });
                entry.views += 1;
            }
        }
    }
    let mut types: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
    let mut own = vec![0; views.len()];
    for held in held.values() {
        let sum = types.entry(held.ty.label()).or_default();
        *sum = (sum.0 + 1, sum.1 + held.bytes);
        if held.views == 1 {
            own[held.view] += held.bytes;
        }
    }
    let mut by_view: Vec<Value> = views
        .iter()
        .zip(own)
        .map(|((view, proxies, published), own)| {
            let counts: BTreeMap<&str, usize> = TypeUrl::ALL
                .into_iter()
                .filter_map(|ty| Some((ty.label(), published.get(ty)?.len())))
                .collect();
            json!({
                "namespace": &*view.namespace, "role": format!("{:?}", view.role), "proxies": proxies,
                "resources": counts, "ownBytes": own,
            })
        })
        .collect();
    largest(&mut by_view, "ownBytes");
    let mut by_service: Vec<Value> = services
        .into_iter()
        .map(|(host, (count, bytes))| json!({ "host": host, "resources": count, "bytes": bytes }))
        .collect();
    largest(&mut by_service, "bytes");
    Derived {
        views: by_view,
        services: by_service,
        types,
        engine: state.engine().stats(),
    }
}

/// The page, with the resident memory of the process where the system tells it.
pub(super) fn page(derived: Derived, connections: &[Connection]) -> Value {
    let engine = &derived.engine;
    let mut proxies: Vec<Value> = connections
        .iter()
        .map(|c| json!({ "proxy": proxy_name(&c.node), "bytes": of_proxy(c) }))
        .collect();
    let of_proxies: usize = connections.iter().map(of_proxy).sum();
    largest(&mut proxies, "bytes");
    let mut queries: Vec<Value> = engine
        .queries
        .iter()
        .map(|q| json!({ "name": q.name, "memos": q.memos, "bytes": q.bytes }))
        .collect();
    largest(&mut queries, "bytes");
    let resources: usize = derived.types.values().map(|(_, bytes)| bytes).sum();
    let known = resources + engine.bookkeeping_bytes + of_proxies;
    let resident = resident();
    json!({
        "residentBytes": resident,
        "otherBytes": resident.map(|all| all.saturating_sub(known as u64)),
        "engine": {
            "memos": engine.memos, "edges": engine.edges, "bookkeepingBytes": engine.bookkeeping_bytes,
            "queries": queries,
        },
        "resources": derived.types.into_iter().map(|(ty, (count, bytes))| (ty.to_owned(), json!({
            "distinct": count, "bytes": bytes,
        }))).collect::<serde_json::Map<_, _>>(),
        "views": derived.views,
        "services": derived.services,
        "proxies": { "connected": connections.len(), "bytes": of_proxies, "largest": proxies },
    })
}

/// What is kept of a proxy's connection and of what it said of itself.
fn of_proxy(connection: &Connection) -> usize {
    let node = &connection.node;
    let labels = node.labels.iter().map(|(k, v)| text(k) + text(v));
    let extensions = node.extensions.iter().flat_map(|all| all.iter());
    size_of::<Connection>()
        + size_of::<Node>()
        + text(&node.id)
        + text(&node.name)
        + text(&node.service_cluster)
        + std::mem::size_of_val(&*node.addresses)
        + labels.sum::<usize>()
        + extensions.map(|name| text(name)).sum::<usize>()
        + members(&node.metadata)
}

/// What a text takes besides the pointer to it.
fn text(text: &str) -> usize {
    text.len() + 2 * size_of::<usize>()
}

fn members(map: &serde_json::Map<String, Value>) -> usize {
    let one =
        |(name, value): (&String, &Value)| size_of::<(String, Value)>() + name.len() + heap(value);
    map.iter().map(one).sum()
}

/// What a value points to.
fn heap(value: &Value) -> usize {
    match value {
        Value::Object(map) => members(map),
        Value::Array(list) => list.iter().map(|v| size_of::<Value>() + heap(v)).sum(),
        Value::String(string) => string.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// What one resource takes.
fn bytes(resource: &Resource) -> usize {
    size_of::<Resource>() + resource.name.len() + resource.body.len()
}

/// The host that a cluster or assignment belongs to: `outbound|80|v1|HOST`.
fn service(ty: TypeUrl, name: &str) -> Option<&str> {
    matches!(ty, TypeUrl::Cluster | TypeUrl::Endpoint)
        .then(|| name.rsplit_once('|'))
        .flatten()
        .map(|(_, host)| host)
        .filter(|host| !host.is_empty())
}

fn largest(rows: &mut Vec<Value>, by: &str) {
    rows.sort_by_key(|row| std::cmp::Reverse(row[by].as_u64()));
    rows.truncate(SHOWN);
}

/// Resident memory of this process.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_metadata_points_to_is_counted_at_every_depth() {
        let value = json!({"a": ["four", {"b": "six666"}], "c": 1});
        let member = size_of::<(String, Value)>();
        let expected = 2 * member + 2 + 2 * size_of::<Value>() + 4 + member + 1 + 6;
        assert_eq!(heap(&value), expected);
    }

    #[test]
    fn clusters_and_assignments_belong_to_the_host_in_their_name() {
        let host = |ty, name| service(ty, name);
        assert_eq!(
            host(TypeUrl::Cluster, "outbound|80|v1|a.shop"),
            Some("a.shop")
        );
        assert_eq!(host(TypeUrl::Cluster, "inbound|80||"), None);
        assert_eq!(host(TypeUrl::Cluster, "BlackHoleCluster"), None);
        assert_eq!(host(TypeUrl::Route, "a|b"), None);
    }
}
