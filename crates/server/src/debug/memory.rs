//! Who holds memory: resources by type, by view and by service, and the engine's own bookkeeping.
//!
//! Resources are shared: each is counted once in the totals, and under a view only where no other view has it.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use xlate::{Resource, TypeUrl};

use crate::derive::State;
use crate::metrics::type_label;

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

/// The page, with the resident memory of the process where the system tells it.
pub(super) fn page(state: &State) -> Value {
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
    let mut types: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut own = vec![0; views.len()];
    for held in held.values() {
        let sum = types.entry(type_label(held.ty)).or_default();
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
                .filter_map(|ty| Some((type_label(ty), published.get(ty)?.len())))
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
    let stats = state.engine().stats();
    json!({
        "residentBytes": resident(),
        "engine": { "memos": stats.memos, "edges": stats.edges, "bookkeepingBytes": stats.bookkeeping_bytes },
        "resources": types.into_iter().map(|(ty, (count, bytes))| (ty.to_owned(), json!({
            "distinct": count, "bytes": bytes,
        }))).collect::<serde_json::Map<_, _>>(),
        "views": by_view,
        "services": by_service,
    })
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
