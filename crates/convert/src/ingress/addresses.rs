//! The addresses at which Ingresses are reached: their status.
//!
//! Istio: pilot/pkg/config/kube/ingress/ingress.go runningAddresses, 1.32.

use std::sync::Arc;

use model::ObjectName;
use model::kinds::kube::{LoadBalancerIngress, Node, Pod, Service};
use store::index::{ObjectIndex, label_value};

use super::class::ServedBy;
use super::gateway::selector;
use crate::edge::StatusOfEdge;
use crate::reader::{Derive, Reader};
use crate::service::{as_status, outside_addresses};
use crate::strata::Routes;

/// The addresses of the proxies that serve Ingresses, in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Addresses;

/// The addresses of an Ingress; none where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StatusOf(pub ObjectName);

impl Derive for StatusOf {
    type Stratum = Routes;
    type Value = Option<Arc<Vec<LoadBalancerIngress>>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let annotated = read.derived(StatusOfEdge(self.0.clone()));
        if annotated.is_some() {
            return annotated.as_ref().clone();
        }
        let served = read.derived(ServedBy(self.0.clone()));
        served.is_some().then(|| read.derived(Addresses))
    }
}

impl Derive for Addresses {
    type Stratum = Routes;
    type Value = Vec<LoadBalancerIngress>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let service = &read.settings().mesh.ingress_service;
        let found = if service.is_empty() {
            of_nodes(read)
        } else {
            of_service(read, service)
        };
        as_status(found)
    }
}

/// The addresses of the load balancer in front of the proxies.
fn of_service(read: &Reader<'_, '_, Routes>, name: &str) -> Vec<Arc<str>> {
    let namespace = read.settings().features.ingress_namespace.clone();
    let Some(service) = read.get::<Service>(&ObjectName::new(namespace, name)) else {
        return Vec::new();
    };
    if &*service.spec.service_type == "ExternalName" {
        return vec![service.spec.external_name.clone()];
    }
    outside_addresses(&service).collect()
}

/// The outer addresses of the first node that is known to run such a proxy.
fn of_nodes(read: &Reader<'_, '_, Routes>) -> Vec<Arc<str>> {
    let settings = read.settings();
    let namespace = &settings.features.ingress_namespace;
    let labels = selector(&settings.mesh);
    let Some((label, value)) = labels.first_key_value() else {
        return Vec::new();
    };
    let value = label_value(namespace, label, value);
    let pods = read.list_by::<Pod>(ObjectIndex::Label, &value);
    let ours = pods.iter().filter(|pod| pod.meta.name.cluster.is_none());
    let running = ours.filter(|pod| &*pod.status.phase == "Running");
    let mut nodes = running.filter_map(|pod| {
        let name = ObjectName::new("", pod.spec.node_name.clone());
        read.get::<Node>(&name)
    });
    let Some(node) = nodes.next() else {
        return Vec::new();
    };
    let mut addresses: Vec<Arc<str>> = Vec::new();
    for at in &node.status.addresses {
        let outer = &*at.address_type == "ExternalIP" && !at.address.is_empty();
        if outer && !addresses.contains(&at.address) {
            addresses.push(at.address.clone());
        }
    }
    addresses
}
