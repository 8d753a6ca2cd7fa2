//! What several objects want and only one has: hosts, addresses, and the ports of gateways, as generation finds it.
//!
//! Who has a port of a gateway depends on the namespace of its proxy, its labels and its Services. So it is told for the proxies
//! that the files have Pods or Deployments of. Of Gateways whose selector chooses none of these it is told where nothing depends
//! on the proxy: all Gateways that it may serve are of one namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Engine;
use mesh::finding::code;
use mesh::view::ProxyKey;
use model::kinds::kube;
use model::{AnyObject, Diagnostic, Kind, Labels, Namespace};
use serde_json::{Map, Value, json};
use store::Snapshot;
use xlate::findings::{Contested, ContestedAt};

/// The codes that are told here.
pub(super) const CODES: [&str; 3] = [code::SERVER_REFUSED, code::HOST_TAKEN, code::NOT_OWNED];

/// The most selectors that are compared with each other.
const MOST_SELECTORS: usize = 100;

/// The labels by which a Gateway selects proxies.
type Selector = BTreeMap<String, String>;

/// The selectors of Gateways, with the namespaces of those that have each.
type Selectors = BTreeMap<Selector, BTreeSet<Namespace>>;

/// What is known of the proxies of one namespace that have the same labels.
#[derive(Default)]
struct Workload {
    /// The name of one of them.
    name: Arc<str>,
    /// The ports that their containers state.
    ports: Vec<kube::ContainerPort>,
}

/// Proxies, by namespace and labels.
type Proxies = BTreeMap<(Namespace, Labels), Workload>;

/// The findings about a snapshot.
pub(super) fn find(engine: &Engine<Snapshot>, snapshot: &Snapshot) -> Vec<Diagnostic> {
    let mut found = engine.get(snapshot, &Contested).to_vec();
    let selectors = selectors(snapshot);
    for ((namespace, labels), workload) in proxies(snapshot, &selectors) {
        if let Some(proxy) = key(&namespace, &labels, &workload) {
            let at_proxy = engine.get(snapshot, &ContestedAt(proxy));
            found.extend(at_proxy.iter().cloned());
        }
    }
    found.retain(|finding| CODES.contains(&finding.code));
    found.sort();
    found.dedup();
    found
}

/// The selectors of Gateways, but for those that are reached through Services.
fn selectors(snapshot: &Snapshot) -> Selectors {
    let mut all = Selectors::new();
    for object in snapshot.tables.iter_any(Kind::Gateway) {
        let AnyObject::Gateway(gateway) = object else {
            continue;
        };
        if gateway.meta.gateway_api().is_none() {
            let selector = gateway.spec.selector.clone();
            let namespaces = all.entry(selector).or_default();
            namespaces.insert(gateway.namespace().clone());
        }
    }
    all
}

/// The proxies that Gateways select.
fn proxies(snapshot: &Snapshot, selectors: &Selectors) -> Proxies {
    // By one of the labels that each asks for: few workloads have it.
    let mut by_label: BTreeMap<(&str, &str), Vec<&Selector>> = BTreeMap::new();
    for selector in selectors.keys() {
        if let Some((key, value)) = selector.iter().next() {
            let pair = (key.as_str(), value.as_str());
            by_label.entry(pair).or_default().push(selector);
        }
    }
    let mut used: BTreeSet<&Selector> = BTreeSet::new();
    let mut proxies = Proxies::new();
    for (namespace, labels, workload) in workloads(snapshot) {
        let pairs = labels.iter();
        let asking = pairs.filter_map(|(key, value)| by_label.get(&(&**key, &**value)));
        let mut is_selected = false;
        for selector in asking.flatten().copied() {
            if labels.matches_map(selector) {
                used.insert(selector);
                is_selected = true;
            }
        }
        if is_selected {
            proxies.entry((namespace, labels)).or_insert(workload);
        }
    }
    if selectors.len() <= MOST_SELECTORS {
        for selector in selectors
            .keys()
            .filter(|s| !s.is_empty() && !used.contains(s))
        {
            if let Some(namespace) = only_namespace(selector, selectors) {
                let place = (namespace.clone(), Labels::from(selector));
                proxies.entry(place).or_default();
            }
        }
    }
    proxies
}

/// Pods, and those that Deployments will make.
fn workloads(snapshot: &Snapshot) -> impl Iterator<Item = (Namespace, Labels, Workload)> {
    let workload = |name: &str, pod: &kube::Pod| {
        let ports = pod.containers.iter().flat_map(|container| &container.ports);
        Workload {
            name: name.into(),
            ports: ports.cloned().collect(),
        }
    };
    let pods = snapshot.tables.iter_any(Kind::Pod);
    let deployments = snapshot.tables.iter_any(Kind::Deployment);
    pods.chain(deployments)
        .filter_map(move |object| match object {
            AnyObject::Pod(pod) => {
                let name = &pod.meta.name;
                let of = workload(&name.name, &pod.spec);
                Some((name.namespace.clone(), pod.meta.labels.clone(), of))
            }
            AnyObject::Deployment(deployment) => {
                let (name, template) = (&deployment.meta.name, &deployment.spec.template);
                let of = workload(&name.name, &template.spec);
                let labels = template.metadata.labels.clone();
                Some((name.namespace.clone(), labels, of))
            }
            _ => None,
        })
}

/// The namespace of all Gateways that a proxy with the labels of a selector serves; `None` where there are several, or where more
/// labels of the proxy could make it serve others as well.
fn only_namespace<'s>(selector: &Selector, all: &'s Selectors) -> Option<&'s Namespace> {
    let mut namespaces: BTreeSet<&Namespace> = BTreeSet::new();
    for (other, of) in all {
        let mut pairs = other.iter();
        if pairs.any(|(key, value)| selector.get(key).is_some_and(|own| own != value)) {
            // No proxy has both.
            continue;
        }
        if other.keys().any(|key| !selector.contains_key(key)) {
            return None;
        }
        namespaces.extend(of);
    }
    let mut namespaces = namespaces.into_iter();
    match (namespaces.next(), namespaces.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// A gateway proxy as it would introduce itself.
fn key(namespace: &Namespace, labels: &Labels, workload: &Workload) -> Option<ProxyKey> {
    let name = match &*workload.name {
        "" => "gateway",
        name => name,
    };
    let labels = labels.iter();
    let labels: Map<String, Value> = labels
        .map(|(key, value)| (key.to_string(), Value::from(&**value)))
        .collect();
    let ports = serde_json::to_string(&workload.ports).ok()?;
    let metadata = json!({"NAMESPACE": &**namespace, "LABELS": labels, "POD_PORTS": ports});
    let id = format!("router~0.0.0.0~{name}.{namespace}~{namespace}.svc.cluster.local");
    let node = mesh::node::from_envoy(&client::node(&id, &metadata)).ok()?;
    Some(ProxyKey::new(Arc::new(node)))
}
