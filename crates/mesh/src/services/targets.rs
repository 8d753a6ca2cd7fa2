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
use model::names::Namespace;
use model::node::Node;
use model::object::{Object, ObjectName};
use model::protocol::Protocol;
use model::service::{Address, Resolution, Service};
use serde::Deserialize;
use store::index::label_value;
use store::{ObjectIndex, Reads, Snapshot};

use super::endpoints::{EndpointsOf, EntryEndpoints};
use super::entry::EntryServices;
use super::kube::KubeService;
use super::kube_endpoints::workload_port;
use super::pod::{WorkloadOfPod, ready_at, same_protocol, target_port};
use super::workload::{Workload, WorkloadOfEntry};
use crate::services::Identity;
use crate::view::ServiceTarget;

/// The service ports that a proxy's workload serves: oldest service first, then by host. `labels` are those of the
/// workload, for what no object tells of.
pub fn targets_of(
    cx: &Cx<'_, Snapshot>,
    node: &Node,
    identity: &Identity<'_>,
    labels: &Labels,
) -> Arc<[ServiceTarget]> {
    let mut targets = Vec::new();
    if node.cluster.is_empty() || node.cluster == cx.settings().cluster {
        targets.extend(of_kubernetes(cx, node, identity, labels));
    }
    for address in node.addresses.iter() {
        let stated = identity.stated_namespace.as_ref();
        let found = of_address(cx, stated, &address.to_string());
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
    if let Some(workload) = workload_entry_of(cx, node, identity, &address) {
        return of_workload_entry(cx, &workload);
    }
    match identity.pod.as_ref().filter(|_| !identity.virtual_machine) {
        Some(pod) => of_pod(cx, pod, &address),
        None => of_labels(cx, node, labels).unwrap_or_default(),
    }
}

/// The WorkloadEntry at a proxy's address: of several the one it is named like, else one of its namespace.
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
        .filter_map(|name| (*cx.query(&WorkloadOfEntry(name))).clone())
        .filter(|workload| !workload.named)
        .collect();
    let named = |w: &&Arc<Workload>| Some(&w.name) == identity.own_name.as_ref();
    let near = |w: &&Arc<Workload>| w.name.namespace == node.namespace;
    let chosen = all.iter().find(named).or_else(|| all.iter().find(near));
    chosen.or_else(|| all.first()).cloned()
}

fn of_workload_entry(cx: &Cx<'_, Snapshot>, workload: &Workload) -> Vec<ServiceTarget> {
    let mut targets = Vec::new();
    for object in services_selecting(cx, &workload.name.namespace, &workload.endpoint.labels) {
        let Some(service) = service_of(cx, &object) else {
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
    let services = services_selecting(cx, pod.namespace(), &pod.meta.labels);
    if services.is_empty() {
        return of_slices(cx, pod.namespace(), address);
    }
    let mut targets = Vec::new();
    for object in services {
        if let Some(service) = service_of(cx, &object) {
            let ports = object.spec.ports.iter().map(|port| target_port(pod, port));
            distinct(&service, ports, &mut targets);
        }
    }
    targets
}

/// The Services without selector whose slices name the address.
fn of_slices(cx: &Cx<'_, Snapshot>, namespace: &Namespace, address: &str) -> Vec<ServiceTarget> {
    let mut targets = Vec::new();
    let unselecting = label_value(namespace, "", "");
    let mut names = cx.names_by::<kube::Service>(ObjectIndex::Selector, &unselecting);
    names.dedup_by(|b, a| a.is_namesake(b));
    for name in names {
        let Some(service) = (*cx.query(&KubeService(name))).clone() else {
            continue;
        };
        let key = ServiceKey {
            namespace: service.namespace.clone(),
            host: service.host.clone(),
        };
        for endpoint in cx.query(&EndpointsOf(key)).iter() {
            // What was made for a ServiceEntry of the same host stands for itself.
            let here = endpoint.service_port == 0 && endpoint.address.primary() == address;
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
fn of_labels(cx: &Cx<'_, Snapshot>, node: &Node, labels: &Labels) -> Option<Vec<ServiceTarget>> {
    let stated = stated_ports(node);
    let mut targets = Vec::new();
    for object in services_selecting(cx, &node.namespace, labels) {
        let service = service_of(cx, &object)?;
        let mut ports = Vec::new();
        for port in &object.spec.ports {
            ports.push(Some(match (&port.target_port, &stated) {
                (None, _) => u16::try_from(port.port).ok()?,
                (Some(IntOrString::Int(number)), _) => u16::try_from(*number).ok()?,
                (Some(IntOrString::String(name)), Some(stated)) => {
                    let same = |p: &&StatedPort| {
                        *p.name == **name && same_protocol(&p.protocol, &port.protocol)
                    };
                    stated.iter().find(same)?.container_port
                }
                (Some(IntOrString::String(name)), None) => name.parse().unwrap_or(0),
            }));
        }
        distinct(&service, ports.into_iter(), &mut targets);
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

/// Adds the ports of a service: of several that lead to one port in one protocol, the first.
fn distinct(
    service: &Arc<Service>,
    target_ports: impl Iterator<Item = Option<u16>>,
    targets: &mut Vec<ServiceTarget>,
) {
    let mut seen = BTreeSet::new();
    for (port, target_port) in service.ports.iter().zip(target_ports) {
        if let Some(target_port) = target_port
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

fn service_of(cx: &Cx<'_, Snapshot>, object: &Object<kube::Service>) -> Option<Arc<Service>> {
    (*cx.query(&KubeService(object.meta.name.clone()))).clone()
}

/// The Services whose selectors choose these labels, by name.
fn services_selecting(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    labels: &Labels,
) -> Vec<Arc<Object<kube::Service>>> {
    let mut services: Vec<Arc<Object<kube::Service>>> = labels
        .iter()
        .flat_map(|(key, value)| {
            cx.list_by::<kube::Service>(ObjectIndex::Selector, &label_value(namespace, key, value))
        })
        .filter(|service| labels.matches(&service.spec.selector))
        .collect();
    services.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
    services.dedup_by(|b, a| a.meta.name.is_namesake(&b.meta.name));
    services
}

/// The labels of the endpoint that a ServiceEntry has at an address: of one namespace, or of any.
pub fn labels_at(
    cx: &Cx<'_, Snapshot>,
    namespace: Option<&Namespace>,
    address: &str,
) -> Option<Labels> {
    let found = of_address(cx, namespace, address);
    found.into_iter().next().map(|(_, labels)| labels)
}

/// What ServiceEntries have at an address, with the labels of the endpoint: those of one namespace, or of all.
fn of_address(
    cx: &Cx<'_, Snapshot>,
    namespace: Option<&Namespace>,
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
    let mut found = Vec::new();
    for entry in entries {
        if namespace.is_none_or(|n| *n == entry.namespace) {
            of_entry(cx, entry, address, &mut found);
        }
    }
    found
}

fn of_entry(
    cx: &Cx<'_, Snapshot>,
    entry: ObjectName,
    address: &str,
    found: &mut Vec<(ServiceTarget, Labels)>,
) {
    for service in cx.query(&EntryServices(entry.clone())).iter() {
        let endpoints = cx.query(&EntryEndpoints {
            entry: entry.clone(),
            host: service.host.clone(),
        });
        let own = endpoints.endpoints.iter();
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
