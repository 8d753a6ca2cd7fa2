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
use crate::facts::{first_label, known_as, selector_text, several};
use crate::finding::Report;

/// A selector and a port.
type Place<'a> = (&'a str, u32);
/// The gateways of a place that serve a host and are bound to an address.
type Served<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a ObjectName>>;
/// How people know the gateways that are compared.
type Known<'a> = BTreeMap<&'a ObjectName, String>;

/// Istio: pkg/config/analysis/analyzers/gateway/conflictinggateway.go, 1.32.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let mut gateways = cx.list::<Gateway>();
    gateways.retain(|gateway| is_compared(gateway) && !stands_closed(cx, gateway));
    let known: Known<'_> = gateways
        .iter()
        .map(|gateway| (&gateway.meta.name, known_as(&gateway.meta)))
        .collect();
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
        one(gateway, text, related, (&served, &known), report);
    }
}

/// Whether it is written, or made for a host of Ingresses with annotations. Those of other Ingresses share port 80 for all hosts with
/// each other, and those of the Gateway API are reached through Services, so that their selectors do not say whose they are.
fn is_compared(gateway: &Object<Gateway>) -> bool {
    gateway.meta.derived.is_none() || gateway.meta.is_edge()
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
    (served, known): (&BTreeMap<Place<'_>, Served<'_>>, &Known<'_>),
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
        let mut rivals: BTreeSet<&ObjectName> = BTreeSet::new();
        let mut shared: BTreeSet<&str> = BTreeSet::new();
        let places = related
            .iter()
            .filter_map(|selector| served.get(&(*selector, number)));
        for served in places {
            for host in &server.hosts {
                let serving = served.get(&(&**host, &*server.bind)).into_iter();
                let others = serving.flatten().copied();
                for other in others.filter(|name| **name != gateway.meta.name) {
                    rivals.insert(other);
                    shared.insert(host);
                }
            }
        }
        if rivals.is_empty() || !told.insert((number, rivals.clone(), shared.clone())) {
            continue;
        }
        let names: Vec<&str> = rivals
            .iter()
            .filter_map(|name| known.get(name))
            .map(|name| &**name)
            .collect();
        let hosts: Vec<&str> = shared.into_iter().collect();
        let workloads = match text {
            "" => "all workloads".to_owned(),
            labels => format!("the workloads with {labels}"),
        };
        report
            .add(
                gateway,
                &code::CONFLICTING_GATEWAYS,
                format!("spec.servers[{i}]"),
                format!(
                    "conflicts with {}: each serves {} on port {number} of {workloads}",
                    several(&names),
                    several(&hosts),
                ),
            )
            .help("serve each host from one Gateway, and bind its VirtualServices to that one");
    }
}
