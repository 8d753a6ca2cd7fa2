//! Gateways that serve the same host on the same port of the same workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Cx;
use model::kinds::istio::Gateway;
use model::kinds::kube::Ingress;
use model::{Kind, Object, ObjectKey, ObjectName};
use proto_istio::networking::Server;
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::workloads::{WorkloadsIn, namespaces};
use crate::facts::{first_label, selector_text};
use crate::finding::Report;

/// A selector and a port.
type Place<'a> = (&'a str, u32);
/// The gateways of a place that serve a host and are bound to an address.
type Served<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a ObjectName>>;

/// Istio: pkg/config/analysis/analyzers/gateway/conflictinggateway.go, 1.32.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let mut gateways = cx.list::<Gateway>();
    gateways.retain(|gateway| !stands_closed(cx, gateway));
    let texts: Vec<String> = gateways
        .iter()
        .map(|g| selector_text(&g.spec.selector))
        .collect();
    let mut hosts: BTreeMap<(Place<'_>, &ObjectName), BTreeMap<&str, &str>> = BTreeMap::new();
    let mut selectors: BTreeMap<&str, &Arc<Object<Gateway>>> = BTreeMap::new();
    for (gateway, text) in gateways.iter().zip(&texts) {
        for server in &gateway.spec.servers {
            let own = server.hosts.iter().map(|h| (&**h, &*server.bind));
            // Of several servers on one port the last stands for the gateway.
            let place = (&**text, port(server));
            hosts.insert((place, &gateway.meta.name), own.collect());
            selectors.insert(text, gateway);
        }
    }
    let mut served: BTreeMap<Place<'_>, Served<'_>> = BTreeMap::new();
    for ((place, name), hosts) in hosts {
        let served = served.entry(place).or_default();
        for (host, bind) in hosts {
            served.entry((host, bind)).or_default().insert(name);
        }
    }
    let mut related: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (gateway, text) in gateways.iter().zip(&texts) {
        let related = related.entry(text).or_insert_with(|| {
            let same =
                |other: &&str| **other == **text || overlap(cx, text, gateway, other, &selectors);
            selectors.keys().copied().filter(same).collect()
        });
        one(gateway, text, related, &served, report);
    }
}

/// Whether a gateway is there only because of Ingresses that were rejected, whose hosts are closed.
fn stands_closed(cx: &Cx<'_, Snapshot>, gateway: &Object<Gateway>) -> bool {
    let derived = gateway.meta.derived.as_ref();
    let from = derived.map(|derived| &*derived.from).unwrap_or_default();
    let mut ingresses = from
        .iter()
        .filter(|key| key.kind == Kind::Ingress)
        .peekable();
    let is_closed = |key: &ObjectKey| {
        let ingress = cx.get::<Ingress>(&key.name);
        ingress.is_some_and(|ingress| ingress.meta.closed.is_some())
    };
    ingresses.peek().is_some() && ingresses.all(is_closed)
}

fn port(server: &Server) -> u32 {
    server.port.as_ref().map_or(0, |p| p.number)
}

/// Whether two different selectors mean a common workload. Only those of which one contains the other are looked at.
fn overlap(
    cx: &Cx<'_, Snapshot>,
    text: &str,
    gateway: &Object<Gateway>,
    other: &str,
    selectors: &BTreeMap<&str, &Arc<Object<Gateway>>>,
) -> bool {
    // Texts that differ and are of one length do not contain each other.
    if text.len() == other.len() || !(other.contains(text) || text.contains(other)) {
        return false;
    }
    let Some(theirs) = selectors.get(other) else {
        return false;
    };
    // No workload has two values of one label.
    let mut pairs = gateway.spec.selector.iter();
    if pairs.any(|(key, value)| theirs.spec.selector.get(key).is_some_and(|v| v != value)) {
        return false;
    }
    namespaces(cx).into_iter().any(|namespace| {
        let workloads = cx.query(&WorkloadsIn(namespace));
        let mut both = workloads.matching(&gateway.spec.selector);
        both.any(|w| w.labels.matches_map(&theirs.spec.selector))
    })
}

fn one(
    gateway: &Object<Gateway>,
    text: &str,
    related: &[&str],
    served: &BTreeMap<Place<'_>, Served<'_>>,
    report: &mut Report<'_>,
) {
    if related.is_empty() && !text.is_empty() {
        report
            .add(
                gateway,
                &code::NOT_FOUND,
                first_label("spec.selector", &gateway.spec.selector),
                format!("no gateway with servers has the selector {text}"),
            )
            .help("add servers to the gateway, or remove it");
        return;
    }
    let mut told = BTreeSet::new();
    for (i, server) in gateway.spec.servers.iter().enumerate() {
        let number = port(server);
        let rivals: BTreeSet<&ObjectName> = related
            .iter()
            .filter_map(|selector| served.get(&(*selector, number)))
            .flat_map(|served| {
                let hosts = server.hosts.iter();
                hosts.filter_map(|host| served.get(&(&**host, &*server.bind)))
            })
            .flatten()
            .copied()
            .filter(|name| **name != gateway.meta.name)
            .collect();
        let rivals: Vec<&ObjectName> = rivals.into_iter().collect();
        if rivals.is_empty() || !told.insert((number, rivals.clone(), server.hosts.join(","))) {
            continue;
        }
        report
            .add(
                gateway,
                &code::CONFLICTING_GATEWAYS,
                format!("spec.servers[{i}]"),
                format!(
                    "{} serves {} on port {number} of the same workloads, too",
                    crate::facts::several(&rivals),
                    server.hosts.join(", ")
                ),
            )
            .help("which of them answers is not defined; serve the host from one Gateway, or bind the routes to both");
    }
}
