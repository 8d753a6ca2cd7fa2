//! Where Services are reached.

use std::net::IpAddr;
use std::sync::Arc;

use model::Object;
use model::kinds::kube::{LoadBalancerIngress, Service};

/// The addresses of a Service from outside of its cluster: those of its load balancer, then further ones that are stated.
pub(crate) fn outside_addresses(service: &Object<Service>) -> impl Iterator<Item = Arc<str>> {
    points(service).map(|at| name_of(&at).clone())
}

/// The same in order, where a point of the load balancer may have an address and a name at once.
pub(crate) fn outside_points(service: &Object<Service>) -> Vec<LoadBalancerIngress> {
    in_order(points(service))
}

fn points(service: &Object<Service>) -> impl Iterator<Item = LoadBalancerIngress> {
    let balanced = service.status.load_balancer.ingress.iter();
    let further = service.spec.external_ips.iter().cloned().map(point);
    let all = balanced.cloned().chain(further);
    all.filter(|at| !name_of(at).is_empty())
}

/// Addresses and host names as a status has them, in order.
pub(crate) fn as_status(addresses: Vec<Arc<str>>) -> Vec<LoadBalancerIngress> {
    in_order(addresses.into_iter().map(point))
}

/// Each point as one address or name, as in statuses of Kubernetes' Ingresses.
pub(crate) fn one_each(points: &[LoadBalancerIngress]) -> Vec<LoadBalancerIngress> {
    as_status(points.iter().map(name_of).cloned().collect())
}

/// What a point is called by: its address, or else its name.
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
