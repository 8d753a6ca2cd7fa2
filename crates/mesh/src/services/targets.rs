//! Which service ports a proxy's own workload serves.
//!
//! Istio: GetProxyServiceTargets of pilot/pkg/serviceregistry/{aggregate,kube/controller,serviceentry}, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use model::Labels;
use model::change::ServiceKey;
use model::kinds::istio::{ServiceEntry, WorkloadEntry};
use model::kinds::kube::{self, IntOrString, Pod};
use model::node::Node;
use model::object::{Object, ObjectName};
use model::protocol::Protocol;
use model::service::{Address, Resolution, Service};
use serde::Deserialize;
use store::index::label_value;
use store::{ObjectIndex, Reads, Snapshot};

use super::charge::crowded_out;
use super::endpoints::{EndpointsOf, EntryEndpoints};
use super::entry::EntryServices;
use super::kube::ClusterService;
use super::kube_endpoints::workload_port;
use super::mcs::{self, ImportedService};
use super::pod::{WorkloadOfPod, ready_at, same_protocol, target_port};
use super::pool::Pool;
use super::workload::{Workload, WorkloadOfEntry};
use crate::services::Identity;
use crate::view::ServiceTarget;

/// The service ports that a proxy's workload serves: oldest service first, then by host. Kubernetes Services are those of
/// the proxy's own cluster. `labels` are those of the workload, for what no object tells of.
pub fn targets_of(
    cx: &Cx<'_, Snapshot>,
    node: &Node,
    identity: &Identity<'_>,
    labels: &Labels,
) -> Arc<[ServiceTarget]> {
    let mut targets = of_kubernetes(cx, node, identity, labels);
    for address in node.addresses.iter() {
        let found = of_address(cx, identity, &address.to_string());
        targets.extend(found.into_iter().map(|(target, _)| target));
    }
    targets.sort_by(|a, b| {
        let key = |t: &ServiceTarget| (t.service.created, t.service.host.clone());
        key(a).cmp(&key(b))
    });
    targets.into()
}

fn of_kubernetes(
    cx: &Cx<'_, Snapshot>,
    node: &Node,
    identity: &Identity<'_>,
    labels: &Labels,
) -> Vec<ServiceTarget> {
    let Some(address) = node.addresses.first().map(ToString::to_string) else {
        return Vec::new();
    };
    // A WorkloadEntry with the address of a Pod does not take the Pod's ports away.
    if let Some(pod) = identity.pod.as_ref().filter(|_| !identity.virtual_machine) {
        return of_pod(cx, pod, &address);
    }
    match workload_entry_of(cx, node, identity, &address) {
        Some(workload) => of_workload_entry(cx, &workload),
        None => of_labels(cx, identity, labels).unwrap_or_default(),
    }
}

/// The WorkloadEntry of the proxy's cluster and namespace at its address: of several the one it is named like.
///
/// Istio: pilot/pkg/serviceregistry/util/workloadinstances/util.go GetInstanceForProxy, 1.32.
fn workload_entry_of(
    cx: &Cx<'_, Snapshot>,
    node: &Node,
    identity: &Identity<'_>,
    address: &str,
) -> Option<Arc<Workload>> {
    let all: Vec<Arc<Workload>> = cx
        .names_by::<WorkloadEntry>(ObjectIndex::Address, address)
        .into_iter()
        .filter(|name| name.cluster == identity.cluster && name.namespace == node.namespace)
        .filter_map(|name| (*cx.query(&WorkloadOfEntry(name))).clone())
        .filter(|workload| !workload.named)
        .collect();
    let named = |w: &&Arc<Workload>| Some(&w.name) == identity.own_name.as_ref();
    all.iter().find(named).or_else(|| all.first()).cloned()
}

fn of_workload_entry(cx: &Cx<'_, Snapshot>, workload: &Workload) -> Vec<ServiceTarget> {
    let mut targets = Vec::new();
    for object in services_selecting(cx, &workload.name, &workload.endpoint.labels) {
        let name = object.meta.name.clone();
        let Some(service) = (*cx.query(&ClusterService(name))).clone() else {
            continue;
        };
        if service.resolution != Resolution::ClientSide {
            continue;
        }
        for (port, written) in service.ports.iter().zip(&object.spec.ports) {
            if port.protocol == Protocol::Udp {
                continue;
            }
            targets.extend(
                workload_port(written, workload).map(|target_port| ServiceTarget {
                    service: service.clone(),
                    port: port.clone(),
                    target_port,
                }),
            );
        }
    }
    targets
}

fn of_pod(cx: &Cx<'_, Snapshot>, pod: &Object<Pod>, address: &str) -> Vec<ServiceTarget> {
    let services = services_selecting(cx, &pod.meta.name, &pod.meta.labels);
    if services.is_empty() {
        return of_slices(cx, &pod.meta.name, address);
    }
    let mut targets = Vec::new();
    for object in services {
        for service in services_of(cx, &object.meta.name) {
            let ports = object.spec.ports.iter();
            let ports = ports.map(|port| (&*port.name, target_port(pod, port)));
            distinct(&service, ports, &mut targets);
        }
    }
    targets
}

/// The Services without selector, in the namespace and cluster of a Pod, whose slices name its address.
fn of_slices(cx: &Cx<'_, Snapshot>, pod: &ObjectName, address: &str) -> Vec<ServiceTarget> {
    let mut targets = Vec::new();
    let unselecting = label_value(&pod.namespace, "", "");
    let mut names = cx.names_by::<kube::Service>(ObjectIndex::Selector, &unselecting);
    names.retain(|name| name.cluster == pod.cluster);
    let left_out = crowded_out(cx, &pod.namespace);
    names.retain(|name| !left_out.contains(name));
    let cluster = cx.settings().cluster_of(pod);
    for service in names.iter().flat_map(|name| services_of(cx, name)) {
        let key = ServiceKey {
            namespace: service.namespace.clone(),
            host: service.host.clone(),
        };
        for endpoint in cx.query(&EndpointsOf(key)).iter() {
            // What was made for a ServiceEntry of the same host stands for itself.
            let here = endpoint.service_port == 0
                && endpoint.cluster == *cluster
                && endpoint.address.primary() == address;
            let port = service.ports.iter().find(|p| p.name == endpoint.port_name);
            if let (true, Some(port)) = (here, port) {
                targets.push(ServiceTarget {
                    service: service.clone(),
                    port: port.clone(),
                    target_port: port_of(&endpoint.address),
                });
            }
        }
    }
    targets
}

/// The Services that select the labels a proxy states, while its Pod is not known. Nothing at all where one of them
/// leads to a port that the proxy does not tell of.
fn of_labels(
    cx: &Cx<'_, Snapshot>,
    identity: &Identity<'_>,
    labels: &Labels,
) -> Option<Vec<ServiceTarget>> {
    let stated = stated_ports(identity.node);
    let mut targets = Vec::new();
    let place = ObjectName::new(identity.node.namespace.clone(), "");
    let place = place.in_cluster(identity.cluster.as_ref());
    for object in services_selecting(cx, &place, labels) {
        let mut ports = Vec::new();
        for port in &object.spec.ports {
            let number = match (&port.target_port, &stated) {
                (None, _) => u16::try_from(port.port).ok()?,
                (Some(IntOrString::Int(number)), _) => u16::try_from(*number).ok()?,
                (Some(IntOrString::String(name)), Some(stated)) => {
                    let same = |p: &&StatedPort| {
                        *p.name == **name && same_protocol(&p.protocol, &port.protocol)
                    };
                    stated.iter().find(same)?.container_port
                }
                (Some(IntOrString::String(name)), None) => name.parse().unwrap_or(0),
            };
            ports.push((&*port.name, Some(number)));
        }
        for service in services_of(cx, &object.meta.name) {
            distinct(&service, ports.iter().copied(), &mut targets);
        }
    }
    Some(targets)
}

/// A port in the metadata `POD_PORTS`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatedPort {
    name: String,
    container_port: u16,
    protocol: String,
}

/// The ports of its Pod that a proxy states; `None` where it states none.
fn stated_ports(node: &Node) -> Option<Vec<StatedPort>> {
    let text = node.metadata.get("POD_PORTS")?.as_str()?;
    let ports: Vec<StatedPort> = serde_json::from_str(text).ok()?;
    (!ports.is_empty()).then_some(ports)
}

/// Adds the ports of a service, by name, that lead somewhere: of several that lead to one port in one protocol, the first.
fn distinct<'a>(
    service: &Arc<Service>,
    target_ports: impl Iterator<Item = (&'a str, Option<u16>)>,
    targets: &mut Vec<ServiceTarget>,
) {
    let mut seen = BTreeSet::new();
    for (name, target_port) in target_ports {
        let port = service.ports.iter().find(|port| *port.name == *name);
        if let (Some(port), Some(target_port)) = (port, target_port)
            && seen.insert((target_port, port.protocol))
        {
            targets.push(ServiceTarget {
                service: service.clone(),
                port: port.clone(),
                target_port,
            });
        }
    }
}

/// What a cluster makes of one of its Services: a service, and another one where the cluster imports it.
fn services_of(cx: &Cx<'_, Snapshot>, object: &ObjectName) -> Vec<Arc<Service>> {
    let mut services = Vec::new();
    services.extend((*cx.query(&ClusterService(object.clone()))).clone());
    if mcs::is_imported(cx, object) {
        let imported = ImportedService(object.in_cluster(None));
        services.extend((*cx.query(&imported)).clone());
    }
    services
}

/// The Services whose selectors choose these labels, in the namespace and cluster of a workload, by name.
fn services_selecting(
    cx: &Cx<'_, Snapshot>,
    workload: &ObjectName,
    labels: &Labels,
) -> Vec<Arc<Object<kube::Service>>> {
    let namespace = &workload.namespace;
    let left_out = crowded_out(cx, namespace);
    let mut services: Vec<Arc<Object<kube::Service>>> = labels
        .iter()
        .flat_map(|(key, value)| {
            cx.list_by::<kube::Service>(ObjectIndex::Selector, &label_value(namespace, key, value))
        })
        .filter(|service| service.meta.name.cluster == workload.cluster)
        .filter(|service| labels.matches(&service.spec.selector))
        .filter(|service| !left_out.contains(&service.meta.name))
        .collect();
    if workload.cluster.is_none() {
        // Before the Services that may be written for them.
        services.splice(0..0, Pool::selecting(cx, namespace, labels));
    }
    services.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
    services.dedup_by(|b, a| a.meta.name == b.meta.name);
    services
}

/// The labels of the endpoint that a ServiceEntry has at an address of a proxy.
pub fn labels_at(cx: &Cx<'_, Snapshot>, identity: &Identity<'_>, address: &str) -> Option<Labels> {
    let found = of_address(cx, identity, address);
    found.into_iter().next().map(|(_, labels)| labels)
}

/// What ServiceEntries have at an address of a proxy, with the labels of the endpoint: those of the namespace that the
/// proxy states, else of all.
fn of_address(
    cx: &Cx<'_, Snapshot>,
    identity: &Identity<'_>,
    address: &str,
) -> Vec<(ServiceTarget, Labels)> {
    let mut entries: BTreeSet<ObjectName> = cx
        .names_by::<ServiceEntry>(ObjectIndex::Address, address)
        .into_iter()
        .collect();
    let of_entries = cx
        .names_by::<WorkloadEntry>(ObjectIndex::Address, address)
        .into_iter()
        .filter_map(|name| (*cx.query(&WorkloadOfEntry(name))).clone());
    let of_pods = ready_at(cx, address)
        .into_iter()
        .filter_map(|pod| (*cx.query(&WorkloadOfPod(pod.meta.name.clone()))).clone());
    for workload in of_entries.chain(of_pods) {
        let namespace = &workload.name.namespace;
        let select = |key: &str, value: &str| {
            cx.names_by::<ServiceEntry>(ObjectIndex::Selector, &label_value(namespace, key, value))
        };
        entries.extend(select("", ""));
        for (key, value) in workload.endpoint.labels.iter() {
            entries.extend(select(key, value));
        }
    }
    let stated = identity.stated_namespace.as_ref();
    entries.retain(|entry| stated.is_none_or(|n| *n == entry.namespace));
    let mut found = Vec::new();
    for entry in entries {
        of_entry(cx, entry, identity, address, &mut found);
    }
    found
}

fn of_entry(
    cx: &Cx<'_, Snapshot>,
    entry: ObjectName,
    identity: &Identity<'_>,
    address: &str,
    found: &mut Vec<(ServiceTarget, Labels)>,
) {
    // Workloads of other clusters may have the address of a Pod. What an entry lists itself is of no cluster.
    let selects = cx
        .get::<ServiceEntry>(&entry)
        .is_some_and(|entry| entry.spec.workload_selector.is_some());
    let pod = identity.pod.as_ref().filter(|_| selects);
    let cluster = pod.map(|pod| cx.settings().cluster_of(&pod.meta.name));
    for service in cx.query(&EntryServices(entry.clone())).iter() {
        let endpoints = cx.query(&EntryEndpoints {
            entry: entry.clone(),
            host: service.host.clone(),
        });
        let own = endpoints.endpoints.iter();
        let own = own.filter(|e| cluster.is_none_or(|cluster| e.cluster == *cluster));
        for endpoint in own.filter(|e| e.address.primary() == address) {
            let port = service
                .ports
                .iter()
                .find(|p| p.number == endpoint.service_port && p.name == endpoint.port_name);
            if let Some(port) = port {
                let target = ServiceTarget {
                    service: service.clone(),
                    port: port.clone(),
                    target_port: port_of(&endpoint.address),
                };
                found.push((target, endpoint.labels.clone()));
            }
        }
    }
}

fn port_of(address: &Address) -> u16 {
    match address {
        Address::Socket { port, .. } => *port,
        Address::Unix(_) => 0,
    }
}
