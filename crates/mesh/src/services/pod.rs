//! Pods as workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::kube::{self, Pod};
use model::names::{ClusterId, Namespace};
use model::object::{Object, ObjectName};
use model::service::{Address, Endpoint, Health, Locality};
use store::{ObjectIndex, Reads, Snapshot};

use super::network::network_of;
use super::trust_domain::trust_domain;
use super::workload::{
    TLS_MODE_LABEL, Topology, Workload, identity, locality_label, with_topology,
};

/// Everything of an endpoint that is known from a Pod, ready or not; `None` while the Pod is not there or has failed.
/// The address is the Pod's own.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/endpoint_builder.go NewEndpointBuilder, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PodOf(pub ObjectName);

impl Query<Snapshot> for PodOf {
    type Value = Option<Arc<Endpoint>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<Endpoint>> {
        let pod = cx.get::<Pod>(&self.0)?;
        (&*pod.status.phase != "Failed").then(|| Arc::new(endpoint(cx, &pod)))
    }
}

fn endpoint(cx: &Cx<'_, Snapshot>, pod: &Object<Pod>) -> Endpoint {
    let settings = cx.settings();
    let labels = &pod.meta.labels;
    let ip = primary(pod);
    let locality = locality(cx, pod);
    let cluster = settings.cluster_of(&pod.meta.name);
    let network = network_of(cx, pod.meta.name.cluster.as_ref(), &ip, labels);
    let topology = Topology {
        cluster,
        locality: &locality,
        node: &pod.spec.node_name,
        network: &network,
    };
    let all: Vec<Arc<str>> = pod.status.addresses().cloned().collect();
    let hostname = if pod.spec.subdomain.is_empty() {
        Arc::from("")
    } else if pod.spec.hostname.is_empty() {
        pod.meta.name.name.as_arc().clone()
    } else {
        pod.spec.hostname.clone()
    };
    Endpoint {
        address: Address::Socket {
            hosts: if settings.features.dual_stack && all.len() > 1 {
                all.into()
            } else {
                Arc::from([ip])
            },
            port: 0,
        },
        labels: with_topology(labels, &topology),
        service_account: identity(
            &trust_domain(cx, pod.meta.name.cluster.as_ref()),
            pod.namespace(),
            &pod.spec.service_account_name,
        ),
        network,
        locality,
        cluster: cluster.clone(),
        mutual_tls: labels.get(TLS_MODE_LABEL) == Some("istio"),
        workload: pod.workload(),
        namespace: pod.namespace().clone(),
        node: pod.spec.node_name.clone(),
        hostname,
        subdomain: pod.spec.subdomain.clone(),
        ..Endpoint::default()
    }
}

fn primary(pod: &Object<Pod>) -> Arc<str> {
    pod.status
        .addresses()
        .next()
        .cloned()
        .unwrap_or_else(|| Arc::from(""))
}

/// As the Pod's labels say, else where its Node is.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/controller.go getPodLocality, 1.32.
fn locality(cx: &Cx<'_, Snapshot>, pod: &Object<Pod>) -> Locality {
    if let Some(stated) = locality_label(&pod.meta.labels) {
        return stated;
    }
    if pod.spec.node_name.is_empty() {
        return Locality::default();
    }
    let node = ObjectName::new("", pod.spec.node_name.clone());
    let node = node.in_cluster(pod.meta.name.cluster.as_ref());
    let Some(node) = cx.get::<kube::Node>(&node) else {
        return Locality::default();
    };
    let label = |key: &str, older: &str| -> Arc<str> {
        let labels = &node.meta.labels;
        let own = labels.get(key).filter(|v| !v.is_empty());
        Arc::from(own.or_else(|| labels.get(older)).unwrap_or_default())
    };
    Locality {
        region: label(
            "topology.kubernetes.io/region",
            "failure-domain.beta.kubernetes.io/region",
        ),
        zone: label(
            "topology.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/zone",
        ),
        subzone: label("topology.istio.io/subzone", ""),
    }
}

/// A Pod as a workload that selectors of ServiceEntries choose: while it is ready and has an address.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/pod.go notifyWorkloadHandlers, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WorkloadOfPod(pub ObjectName);

impl Query<Snapshot> for WorkloadOfPod {
    type Value = Option<Arc<Workload>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<Workload>> {
        let pod = cx.get::<Pod>(&self.0)?;
        if !serves(&pod) {
            return None;
        }
        let endpoint = (*cx.query(&PodOf(self.0.clone()))).clone()?;
        Some(Arc::new(Workload {
            name: self.0.clone(),
            endpoint: Endpoint {
                health: Health::Healthy,
                ..Endpoint::clone(&endpoint)
            },
            ports: named_ports(&pod),
            named: false,
        }))
    }
}

/// Whether a Pod takes traffic: it is ready, has an address and has not ended.
fn serves(pod: &Object<Pod>) -> bool {
    let ended = matches!(&*pod.status.phase, "Failed" | "Succeeded");
    !ended && pod.status.is_ready() && pod.status.addresses().next().is_some()
}

/// The TCP ports that containers name; of one name the first.
fn named_ports(pod: &Object<Pod>) -> BTreeMap<Arc<str>, u16> {
    let mut ports = BTreeMap::new();
    for port in container_ports(pod) {
        let tcp = port.protocol.is_empty() || &*port.protocol == "TCP";
        if let Ok(number) = u16::try_from(port.container_port)
            && tcp
            && !port.name.is_empty()
        {
            ports.entry(port.name.clone()).or_insert(number);
        }
    }
    ports
}

fn container_ports(pod: &Object<Pod>) -> impl Iterator<Item = &kube::ContainerPort> {
    let sidecars = pod.spec.init_containers.iter().filter(|c| c.is_sidecar());
    let containers = pod.spec.containers.iter().chain(sidecars);
    containers.flat_map(|c| c.ports.iter())
}

/// The port of a Pod that a port of a Service leads to; `None` where it names one that the Pod has not.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/util.go FindPort, 1.32.
pub(super) fn target_port(pod: &Object<Pod>, port: &kube::ServicePort) -> Option<u16> {
    let number = match &port.target_port {
        None => port.port,
        Some(kube::IntOrString::Int(number)) => *number,
        Some(kube::IntOrString::String(name)) => {
            container_ports(pod)
                .find(|p| p.name == *name && same_protocol(&p.protocol, &port.protocol))?
                .container_port
        }
    };
    u16::try_from(number).ok()
}

/// Whether two protocols of ports are one; the one that is not written is TCP.
pub(super) fn same_protocol(a: &str, b: &str) -> bool {
    let is_tcp = |protocol: &str| protocol.is_empty() || protocol == "TCP";
    a == b || is_tcp(a) && is_tcp(b)
}

/// The Pod of a proxy in its cluster: the one it names, else, where a flag says so, a ready one of its namespace with its
/// first address.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/pod.go getPodByProxy, 1.32.
pub fn pod_of(
    cx: &Cx<'_, Snapshot>,
    (cluster, name): (Option<&ClusterId>, Option<&ObjectName>),
    namespace: &Namespace,
    address: &str,
) -> Option<Arc<Object<Pod>>> {
    let own = name.and_then(|name| cx.get::<Pod>(name));
    if let Some(pod) = own.filter(|pod| &*pod.status.phase != "Failed") {
        return Some(pod);
    }
    if !cx.settings().features.pods_by_address {
        return None;
    }
    let mut pods = ready_at(cx, address);
    pods.retain(|pod| pod.meta.name.cluster.as_ref() == cluster);
    if pods.len() > 1 {
        pods.retain(|pod| pod.namespace() == namespace);
    }
    pods.into_iter().next()
}

/// The Pods of all clusters that take traffic at an address, by name.
pub(super) fn ready_at(cx: &Cx<'_, Snapshot>, address: &str) -> Vec<Arc<Object<Pod>>> {
    if address.is_empty() {
        return Vec::new();
    }
    let mut pods = cx.list_by::<Pod>(ObjectIndex::Address, address);
    pods.retain(|pod| serves(pod) && *primary(pod) == *address);
    pods
}
