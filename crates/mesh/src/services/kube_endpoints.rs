//! The endpoints of Kubernetes Services: of EndpointSlices, and of WorkloadEntries that their selectors choose.
//!
//! Istio: pilot/pkg/serviceregistry/kube/controller/endpointslice.go, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use model::kinds::kube::{self, EndpointConditions, EndpointSlice, IntOrString};
use model::names::ClusterId;
use model::object::{Object, ObjectName};
use model::service::{Address, Endpoint, Health, Resolution, Service};
use store::{ObjectIndex, Reads, Snapshot};

use super::endpoints::at_port;
use super::kube::KubeService;
use super::network::network_of;
use super::pod::{PodOf, ready_at};
use super::workload::{Topology, Workload, selected_entries, with_topology};

/// Slices with this label belong to a service of several clusters.
const MULTICLUSTER: &str = "multicluster.kubernetes.io/service-name";

/// Every endpoint of a Service: of its slices by name, then of the WorkloadEntries. Of two at one address for one
/// port the first stays. Slices count without their Service, too.
pub(super) fn of_service(cx: &Cx<'_, Snapshot>, name: &ObjectName) -> Vec<Endpoint> {
    let value = format!("{}/{}", name.namespace, name.name);
    let slices = cx.list_by::<EndpointSlice>(ObjectIndex::Service, &value);
    let service = cx.query(&KubeService(name.clone()));
    let mut endpoints = Vec::new();
    for slice in slices {
        if &*slice.spec.address_type != "FQDN" && !slice.meta.labels.contains(MULTICLUSTER) {
            of_slice(cx, &slice, service.as_ref().as_deref(), &mut endpoints);
        }
    }
    let mut seen = BTreeSet::new();
    endpoints
        .retain(|e: &Endpoint| seen.insert((e.address.primary().to_owned(), e.port_name.clone())));
    if let Some(service) = &*service {
        of_workload_entries(cx, name, service, &mut endpoints);
    }
    endpoints
}

fn of_slice(
    cx: &Cx<'_, Snapshot>,
    slice: &Object<EndpointSlice>,
    service: Option<&Service>,
    endpoints: &mut Vec<Endpoint>,
) {
    let dual = cx.settings().features.dual_stack
        && service.is_some_and(|s| s.cluster_vips.iter().any(|(_, vips)| vips.len() > 1));
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
fn health(service: Option<&Service>, conditions: EndpointConditions) -> Health {
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
fn keeps_sessions(service: &Service) -> bool {
    let set = |label: &str| service.labels.get(label).is_some_and(|v| !v.is_empty());
    set("istio.io/persistent-session") || set("istio.io/persistent-session-header")
}

/// Istio: pilot/pkg/serviceregistry/kube/controller/controller.go collectWorkloadInstanceEndpoints, 1.32.
fn of_workload_entries(
    cx: &Cx<'_, Snapshot>,
    name: &ObjectName,
    service: &Service,
    endpoints: &mut Vec<Endpoint>,
) {
    if service.selector.is_empty() || service.resolution != Resolution::ClientSide {
        return;
    }
    let Some(object) = cx.get::<kube::Service>(name) else {
        return;
    };
    let workloads: Vec<Arc<Workload>> = selected_entries(cx, &name.namespace, &service.selector)
        .filter(|workload| !workload.named)
        .collect();
    if workloads.is_empty() {
        return;
    }
    for port in &object.spec.ports {
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
