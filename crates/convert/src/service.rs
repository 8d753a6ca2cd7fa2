//! Where Services are reached.

use std::net::IpAddr;
use std::sync::Arc;

use model::Object;
use model::kinds::kube::{LoadBalancerIngress, Service};

/// The addresses of a Service from outside of its cluster: those of its load balancer, then further ones that are stated.
pub(crate) fn outside_addresses(service: &Object<Service>) -> impl Iterator<Item = Arc<str>> {
    let balanced = service.status.load_balancer.ingress.iter();
    let balanced = balanced.map(name_of);
    let all = balanced.chain(&service.spec.external_ips);
    all.filter(|address| !address.is_empty()).cloned()
}

/// The same, where a point of the load balancer may have an address and a name at once.
pub(crate) fn outside_points(service: &Object<Service>) -> Vec<LoadBalancerIngress> {
    let balanced = service.status.load_balancer.ingress.iter();
    let balanced = balanced.filter(|at| !at.ip.is_empty() || !at.hostname.is_empty());
    let further = service.spec.external_ips.iter();
    let further = further.filter(|address| !address.is_empty());
    in_order(balanced.cloned().chain(further.cloned().map(point)))
}

/// Addresses and host names as a status has them, in order.
pub(crate) fn as_status(addresses: Vec<Arc<str>>) -> Vec<LoadBalancerIngress> {
    in_order(addresses.into_iter().map(point))
}

/// Each point as one address or name, as in statuses of Kubernetes' Ingresses.
pub(crate) fn one_each(points: &[LoadBalancerIngress]) -> Vec<LoadBalancerIngress> {
    as_status(points.iter().map(name_of).cloned().collect())
}

fn name_of(at: &LoadBalancerIngress) -> &Arc<str> {
    match at.ip.is_empty() {
        true => &at.hostname,
        false => &at.ip,
    }
}

fn point(text: Arc<str>) -> LoadBalancerIngress {
    let is_address = text.parse::<IpAddr>().is_ok();
    let (ip, hostname) = match is_address {
        true => (text, Arc::from("")),
        false => (Arc::from(""), text),
    };
    LoadBalancerIngress { ip, hostname }
}

fn in_order(points: impl Iterator<Item = LoadBalancerIngress>) -> Vec<LoadBalancerIngress> {
    let mut all: Vec<_> = points.collect();
    all.sort_by(|a, b| (&a.hostname, &a.ip).cmp(&(&b.hostname, &b.ip)));
    all
}
