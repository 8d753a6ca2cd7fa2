//! The endpoints of Kubernetes Services: of EndpointSlices, and of WorkloadEntries that their selectors choose.
//!
//! Istio: pilot/pkg/serviceregistry/kube/controller/endpointslice.go, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::Cx;
use model::kinds::kube::{self, EndpointConditions, EndpointSlice, IntOrString};
use model::names::ClusterId;
use model::object::{Object, ObjectName};
use model::service::{Address, Endpoint, Health, Resolution};
use store::{ObjectIndex, Reads, Snapshot};

use super::charge::slice_is_over;
use super::endpoints::at_port;
use super::kube::{objects, resolution};
use super::mcs;
use super::network::network_of;
use super::pod::{PodOf, ready_at};
use super::pool::Pool;
use super::workload::{Topology, Workload, selected_entries, with_topology};

/// Slices with this label belong to a service of several clusters.
const MULTICLUSTER: &str = "multicluster.kubernetes.io/service-name";

/// What one cluster has of a Service.
#[derive(Default)]
struct OfCluster {
    /// The name of the Service there.
    name: ObjectName,
    /// The Service; slices count without it, too.
    service: Option<Arc<Object<kube::Service>>>,
    slices: Vec<Arc<Object<EndpointSlice>>>,
}

/// Every endpoint of a Service, or of what is `imported` of it: of one cluster after the other, by their names; of each,
/// those of its slices by name, then those of its WorkloadEntries. Of two that a cluster has at one address for one port
/// the first stays.
pub(super) fn of_service(
    cx: &Cx<'_, Snapshot>,
    name: &ObjectName,
    imported: bool,
) -> Vec<Endpoint> {
    let pool = Pool::find(cx, name);
    let mut all = Vec::new();
    for cluster in clusters(cx, name, pool.as_ref()).into_values() {
        let mut endpoints = Vec::new();
        let object = cluster.service.as_deref();
        match pool.as_ref().filter(|_| cluster.name.cluster.is_none()) {
            Some(pool) => endpoints = pool.endpoints(cx),
            None => cluster
                .slices
                .iter()
                .for_each(|slice| of_slice(cx, slice, object, &mut endpoints)),
        }
        let mut seen = BTreeSet::new();
        endpoints.retain(|e: &Endpoint| {
            seen.insert((e.address.primary().to_owned(), e.port_name.clone()))
        });
        let known = object.filter(|_| !imported || mcs::is_imported(cx, &cluster.name));
        if mcs::is_confined(cx, &cluster.name, imported, known.is_some()) {
            for endpoint in &mut endpoints {
                endpoint.cluster_local = true;
            }
        }
        if let Some(object) = known {
            of_workload_entries(cx, object, &mut endpoints);
        }
        all.extend(endpoints);
    }
    all
}

/// What each cluster has of a Service.
fn clusters(
    cx: &Cx<'_, Snapshot>,
    name: &ObjectName,
    pool: Option<&Pool>,
) -> BTreeMap<ClusterId, OfCluster> {
    let mut clusters: BTreeMap<ClusterId, OfCluster> = BTreeMap::new();
    let mut of = |object: &ObjectName, put: &mut dyn FnMut(&mut OfCluster)| {
        let cluster = cx.settings().cluster_of(object).clone();
        let entry = clusters.entry(cluster).or_insert_with(|| OfCluster {
            name: name.in_cluster(object.cluster.as_ref()),
            ..OfCluster::default()
        });
        put(entry);
    };
    for service in objects(cx, name, pool) {
        of(&service.meta.name, &mut |c| {
            c.service = Some(service.clone())
        });
    }
    let value = format!("{}/{}", name.namespace, name.name);
    for slice in cx.list_by::<EndpointSlice>(ObjectIndex::Service, &value) {
        let is_left_out =
            &*slice.spec.address_type == "FQDN" || slice.meta.labels.contains(MULTICLUSTER);
        if !is_left_out && !slice_is_over(cx, &slice) {
            of(&slice.meta.name, &mut |c| c.slices.push(slice.clone()));
        }
    }
    clusters
}

fn of_slice(
    cx: &Cx<'_, Snapshot>,
    slice: &Object<EndpointSlice>,
    service: Option<&Object<kube::Service>>,
    endpoints: &mut Vec<Endpoint>,
) {
    let dual =
        cx.settings().features.dual_stack && service.is_some_and(|s| s.spec.cluster_ips.len() > 1);
    let cluster = slice.meta.name.cluster.as_ref();
    for listed in &slice.spec.endpoints {
        let health = health(service, listed.conditions);
        for address in &listed.addresses {
            let pod = match &listed.target_ref {
                Some(target) if &*target.kind == "Pod" => {
                    let namespace = if target.namespace.is_empty() {
                        slice.namespace().clone()
                    } else {
                        target.namespace.as_ref().into()
                    };
                    let pod = ObjectName::new(namespace, target.name.clone()).in_cluster(cluster);
                    // Without its Pod nothing is known of whom it would be trusted as.
                    let Some(pod) = (*cx.query(&PodOf(pod))).clone() else {
                        continue;
                    };
                    Some((pod, true))
                }
                _ => ready_at(cx, address)
                    .into_iter()
                    .find(|pod| {
                        pod.namespace() == slice.namespace()
                            && pod.meta.name.cluster.as_ref() == cluster
                    })
                    .and_then(|pod| (*cx.query(&PodOf(pod.meta.name.clone()))).clone())
                    .map(|pod| (pod, false)),
            };
            let of_pod = match &pod {
                Some((pod, true)) if dual => hosts(&pod.address).filter(|all| all.len() > 1),
                _ => None,
            };
            if of_pod.is_some() && &*slice.spec.address_type == "IPv6" {
                // The slice of the other family has it with both addresses.
                continue;
            }
            let hosts = of_pod.unwrap_or_else(|| Arc::from([address.clone()]));
            let base = match pod {
                Some((pod, _)) => Endpoint::clone(&pod),
                None => Endpoint {
                    cluster: cx.settings().cluster_of(&slice.meta.name).clone(),
                    ..Endpoint::default()
                },
            };
            let base = in_network(cx, cluster, base, address);
            endpoints.extend(slice.spec.ports.iter().map(|port| Endpoint {
                address: Address::Socket {
                    hosts: hosts.clone(),
                    port: port.port.and_then(|p| u16::try_from(p).ok()).unwrap_or(0),
                },
                port_name: port.name.clone().unwrap_or_else(|| Arc::from("")),
                health,
                ..base.clone()
            }));
        }
    }
}

fn hosts(address: &Address) -> Option<Arc<[Arc<str>]>> {
    match address {
        Address::Socket { hosts, .. } => Some(hosts.clone()),
        Address::Unix(_) => None,
    }
}

/// The endpoint in the network of its address, where its Pod tells of none.
fn in_network(
    cx: &Cx<'_, Snapshot>,
    cluster: Option<&ClusterId>,
    endpoint: Endpoint,
    address: &str,
) -> Endpoint {
    let network = if endpoint.network.is_empty() {
        network_of(cx, cluster, address, &endpoint.labels)
    } else {
        endpoint.network.clone()
    };
    let labels = with_topology(
        &endpoint.labels,
        &Topology {
            cluster: &endpoint.cluster,
            locality: &endpoint.locality,
            node: &endpoint.node,
            network: &network,
        },
    );
    Endpoint {
        labels,
        network,
        ..endpoint
    }
}

/// What a slice says of an endpoint's readiness. What is not said counts in favour of shutting down.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/endpointslice.go endpointHealthStatus, 1.32.
fn health(service: Option<&Object<kube::Service>>, conditions: EndpointConditions) -> Health {
    if conditions.ready != Some(false) {
        return Health::Healthy;
    }
    let terminating = conditions.terminating != Some(false);
    match service {
        Some(service) if terminating => {
            if keeps_sessions(service) && conditions.serving != Some(false) {
                Health::Draining
            } else {
                Health::Terminating
            }
        }
        _ => Health::Unhealthy,
    }
}

/// Whether endpoints of a service keep the sessions they have while they shut down.
fn keeps_sessions(service: &Object<kube::Service>) -> bool {
    let set = |label: &str| {
        service
            .meta
            .labels
            .get(label)
            .is_some_and(|v| !v.is_empty())
    };
    set("istio.io/persistent-session") || set("istio.io/persistent-session-header")
}

/// The WorkloadEntries that a Service selects in its cluster.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/controller.go collectWorkloadInstanceEndpoints, 1.32.
fn of_workload_entries(
    cx: &Cx<'_, Snapshot>,
    object: &Object<kube::Service>,
    endpoints: &mut Vec<Endpoint>,
) {
    let (name, spec) = (&object.meta.name, &object.spec);
    if spec.selector.is_empty() || resolution(spec) != Resolution::ClientSide {
        return;
    }
    let workloads: Vec<Arc<Workload>> = selected_entries(cx, &name.namespace, &spec.selector)
        .filter(|workload| !workload.named && workload.name.cluster == name.cluster)
        .collect();
    if workloads.is_empty() {
        return;
    }
    for port in &spec.ports {
        for workload in &workloads {
            if let Some(target) = workload_port(port, workload) {
                endpoints.push(Endpoint {
                    address: at_port(&workload.endpoint.address, target),
                    port_name: port.name.clone(),
                    ..workload.endpoint.clone()
                });
            }
        }
    }
}

/// The port of a WorkloadEntry that a port of a Service leads to: the one it gives the Service's target port by name,
/// else that number. `None` where the Service names a port that the WorkloadEntry has not.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/controller.go serviceInstanceFromWorkloadInstance, 1.32.
pub(super) fn workload_port(port: &kube::ServicePort, workload: &Workload) -> Option<u16> {
    let own = |name: &str| workload.ports.get(name).copied().filter(|p| *p > 0);
    match &port.target_port {
        Some(IntOrString::String(name)) if !name.is_empty() => own(name),
        Some(IntOrString::Int(number)) if *number > 0 => {
            own(&port.name).or_else(|| u16::try_from(*number).ok())
        }
        _ => u16::try_from(port.port).ok(),
    }
}
