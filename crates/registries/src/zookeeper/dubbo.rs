//! Providers of Dubbo at interface level: each is a URL, which is the name of a node.
// Higress: registry/zookeeper/watcher.go GetDubboConfig, 2.1. Unlike there, what providers weigh counts, protocols other than
// `dubbo` are read, and addresses may be IPv6.

use std::collections::BTreeMap;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::report::{Instance, ServiceName};

/// More parameters of a provider than this are not read.
const MOST_PARAMETERS: usize = 500;
/// What a provider weighs that does not say so, beside others that do.
const WEIGHT: f64 = 100.0;

/// A provider, and the service that it is of.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Provider {
    /// `providers:<interface>:<version>:<group>.zookeeper`.
    pub(super) service: ServiceName,
    /// Where it is. Its weight is 1 where it says none.
    pub(super) instance: Instance,
    has_weight: bool,
}

/// Reads the name of a node below `<interface>/providers`.
pub(super) fn provider(interface: &str, node: &str) -> Option<Provider> {
    let url = percent_decode_str(node).decode_utf8().ok()?;
    let (protocol, rest) = url.split_once("://")?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = place.split('/').next()?;
    let place = place.rsplit_once('@').map_or(place, |(_, p)| p);
    let (host, port) = place.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']')?,
        None => host,
    };
    let port: u16 = port.parse().ok()?;
    if host.is_empty() || port == 0 || protocol.is_empty() {
        return None;
    }
    // A name that comes twice says nothing, as in Higress.
    let mut parameters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pair in query.split('&').filter(|p| !p.is_empty()) {
        if parameters.len() == MOST_PARAMETERS {
            return None;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        parameters.entry(key).or_default().push(value);
    }
    let decoded = |text: &str| -> Arc<str> { percent_decode_str(text).decode_utf8_lossy().into() };
    let first = |key| parameters.get(key).map(|v| decoded(v[0]));
    let version = first("version").unwrap_or_else(|| "0.0.0".into());
    let group = first("group").unwrap_or_default();
    let weight = first("weight").and_then(|w| w.parse().ok());
    let weight = weight.filter(|w: &f64| w.is_finite() && *w >= 0.0);
    let single = parameters.iter().filter(|(_, values)| values.len() == 1);
    let mut metadata: BTreeMap<Arc<str>, Arc<str>> = single
        .map(|(key, values)| (decoded(key), decoded(values[0])))
        .collect();
    metadata.insert("protocol".into(), protocol.into());
    Some(Provider {
        service: format!("providers:{interface}:{version}:{group}.zookeeper").into(),
        instance: Instance {
            address: host.into(),
            port,
            protocol: Some(protocol.into()),
            weight: weight.unwrap_or(1.0),
            healthy: true,
            metadata,
        },
        has_weight: weight.is_some(),
    })
}

/// The services of an interface. Where any provider of one says what it weighs, the others weigh what Dubbo takes them to.
pub(super) fn services(
    interface: &str,
    nodes: &[Arc<str>],
) -> BTreeMap<ServiceName, Vec<Instance>> {
    let mut grouped: BTreeMap<ServiceName, Vec<Provider>> = BTreeMap::new();
    for provider in nodes.iter().filter_map(|node| provider(interface, node)) {
        grouped
            .entry(provider.service.clone())
            .or_default()
            .push(provider);
    }
    let weighed = |mut providers: Vec<Provider>| {
        if providers.iter().any(|p| p.has_weight) {
            for silent in providers.iter_mut().filter(|p| !p.has_weight) {
                silent.instance.weight = WEIGHT;
            }
        }
        providers.into_iter().map(|p| p.instance).collect()
    };
    grouped
        .into_iter()
        .map(|(name, providers)| (name, weighed(providers)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_url_of_a_provider_is_left_out() {
        for (node, place) in [
            (
                "dubbo%3A%2F%2F10.0.0.1%3A20880%2Fa.B%3Fx%3D1",
                Some(("10.0.0.1", 20880, "dubbo")),
            ),
            (
                "tri%3A%2F%2F%5B2001%3Adb8%3A%3A1%5D%3A50051%2Fa.B",
                Some(("2001:db8::1", 50051, "tri")),
            ),
            (
                "dubbo://me:pw@host.example:1/a",
                Some(("host.example", 1, "dubbo")),
            ),
            ("dubbo://10.0.0.1:20880", Some(("10.0.0.1", 20880, "dubbo"))),
            ("dubbo://10.0.0.1/a", None),
            ("dubbo://10.0.0.1:0/a", None),
            ("dubbo://:1/a", None),
            ("dubbo://[::1:1/a", None),
            ("10.0.0.1:1", None),
            ("%ff%3A%2F%2Fa%3A1", None),
            ("", None),
        ] {
            let read = provider("a.B", node).map(|p| p.instance);
            let read = read
                .as_ref()
                .map(|i| (&*i.address, i.port, i.protocol.as_deref().unwrap()));
            assert_eq!(read, place, "{node}");
        }
    }

    #[test]
    fn providers_weigh_what_they_say() {
        let node =
            |n, weight: &str| Arc::from(format!("dubbo://10.0.0.{n}:1/a.B?version=1{weight}"));
        for (nodes, weights) in [
            (vec![node(1, ""), node(2, "")], vec![1.0, 1.0]),
            (vec![node(1, ""), node(2, "&weight=50")], vec![100.0, 50.0]),
            (
                vec![node(1, "&weight=0"), node(2, "&weight=x")],
                vec![0.0, 100.0],
            ),
        ] {
            let services = services("a.B", &nodes);
            let found = &services["providers:a.B:1:.zookeeper"];
            assert_eq!(found.iter().map(|i| i.weight).collect::<Vec<_>>(), weights);
        }
    }

    #[test]
    fn versions_and_groups_are_services_of_their_own() {
        let nodes = [
            "?version=1",
            "?version=1&group=g",
            "",
            "?group=h%2Fi&group=x",
        ];
        let nodes = nodes.map(|query| Arc::from(format!("dubbo://10.0.0.1:1/a.B{query}")));
        let services = services("a.B", &nodes);
        let names: Vec<&str> = services.keys().map(|n| &**n).collect();
        let wanted = [
            "providers:a.B:0.0.0:.zookeeper",
            "providers:a.B:0.0.0:h/i.zookeeper",
            "providers:a.B:1:.zookeeper",
            "providers:a.B:1:g.zookeeper",
        ];
        assert_eq!(names, wanted);
    }
}
