//! Hosts that several VirtualServices route for sidecars.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::istio::VirtualService;
use model::{Age, ObjectName, host};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::mesh_hosts::{MeshHosts, MeshHostsOf};
use crate::facts::{known_as, several};
use crate::finding::Report;

/// Who routes a host in a scope, with when each was created.
type Routers<'a> = Vec<(&'a ObjectName, Age)>;

/// Istio: pkg/config/analysis/analyzers/virtualservice/conflictingmeshgatewayhosts.go, 1.32.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let names = cx.names::<VirtualService>();
    let all: Vec<(ObjectName, MeshHosts)> = names
        .into_iter()
        .filter_map(|name| {
            let hosts = cx.query(&MeshHostsOf(name.clone()));
            Some((name, (*hosts).clone()?))
        })
        .collect();
    let mut scopes: BTreeMap<&str, BTreeMap<&str, Routers<'_>>> = BTreeMap::new();
    for (name, hosts) in &all {
        for scope in &hosts.scopes {
            for host in &hosts.hosts {
                let of_scope = scopes.entry(scope).or_default();
                of_scope
                    .entry(host)
                    .or_default()
                    .push((name, hosts.created));
            }
        }
    }
    let empty = BTreeMap::new();
    let for_all = scopes.get("*").unwrap_or(&empty);
    let mut told = BTreeSet::new();
    for (scope, hosts) in &scopes {
        for (host, routers) in hosts {
            let mut routers = routers.clone();
            if *scope != "*" {
                routers.extend(overlapping(for_all, host));
            }
            if routers.len() > 1 {
                conflict(cx, host, routers, &mut told, report);
            }
        }
    }
}

/// Who routes hosts that overlap with this one for all namespaces.
fn overlapping<'a>(
    for_all: &BTreeMap<&str, Routers<'a>>,
    wanted: &str,
) -> impl Iterator<Item = (&'a ObjectName, Age)> {
    let mut found: Routers<'a> = Vec::new();
    if wanted.starts_with('*') {
        let others = for_all.iter().filter(|(h, _)| host::matches(wanted, h));
        found.extend(others.flat_map(|(_, routers)| routers.iter().copied()));
    } else {
        found.extend(for_all.get(wanted).into_iter().flatten().copied());
        // Wildcards stand together at the beginning.
        let wildcards = for_all.range("*"..="*\u{10ffff}");
        let covering = wildcards.filter(|(h, _)| host::matches(wanted, h));
        found.extend(covering.flat_map(|(_, routers)| routers.iter().copied()));
    }
    found.into_iter()
}

/// What puts the first of them before the next, as findings word it.
fn decided(routers: &[(&ObjectName, Age)]) -> &'static str {
    let first = routers.first();
    let is_other = |name: &ObjectName| first.is_some_and(|(winner, _)| *winner != name);
    let next = routers.iter().find(|(name, _)| is_other(name));
    let created = |router: Option<&(&ObjectName, Age)>| {
        router.map_or_else(Age::default, |(_, created)| *created)
    };
    created(first).why_before(created(next))
}

/// How people know a VirtualService, which may be made of a route of the Gateway API.
fn written(cx: &Cx<'_, Snapshot>, name: &ObjectName) -> String {
    let object = cx.get::<VirtualService>(name);
    object.map_or_else(|| name.to_string(), |object| known_as(&object.meta))
}

fn conflict(
    cx: &Cx<'_, Snapshot>,
    host: &str,
    mut routers: Routers<'_>,
    told: &mut BTreeSet<ObjectName>,
    report: &mut Report<'_>,
) {
    // Istio: pilot/pkg/model/config.go sortConfigByCreationTime, 1.32.
    routers.sort_by_key(|(name, created)| (*created, format!("{}.{}", name.name, name.namespace)));
    let mut names: Vec<&ObjectName> = routers.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let why = decided(&routers);
    let news: Vec<&ObjectName> = names
        .iter()
        .copied()
        .filter(|name| !told.contains(*name))
        .collect();
    if news.is_empty() {
        return;
    }
    let known: Vec<String> = names.iter().map(|name| written(cx, name)).collect();
    for name in news {
        told.insert(name.clone());
        let Some(object) = cx.get::<VirtualService>(name) else {
            continue;
        };
        let message = match names.len() {
            1 => format!("the host {host} stands more than once in this VirtualService"),
            _ => format!("{} route {host} for sidecars", several(&known)),
        };
        let reported = report.add(
            &object,
            &code::CONFLICTING_MESH_HOSTS,
            "spec.hosts",
            message,
        );
        if let Some(winner) = known.first().filter(|_| names.len() > 1) {
            reported.help(format!(
                "only {winner} is in force where both are seen: it {why}; merge their rules, or export them to different namespaces"
            ));
        }
    }
}
