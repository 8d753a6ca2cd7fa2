//! Where Services are reached.

use std::net::IpAddr;
use std::sync::Arc;

use model::Object;
use model::kinds::kube::{LoadBalancerIngress, Service};

/// The addresses of a Service from outside of its cluster: those of its load balancer, then further ones that are stated.
pub(crate) fn outside_addresses(service: &Object<Service>) -> impl Iterator<Item = Arc<str>> {
    let balanced = service.status.load_balancer.ingress.iter();
    let balanced = balanced.map(|at| match at.ip.is_empty() {
        true => &at.hostname,
        false => &at.ip,
    });
    let all = balanced.chain(&service.spec.external_ips);
    all.filter(|address| !address.is_empty()).cloned()
}

/// Addresses and host names as a status has them, in order.
pub(crate) fn as_status(addresses: Vec<Arc<str>>) -> Vec<LoadBalancerIngress> {
    let each = addresses.into_iter().map(|text| {
        let is_address = text.parse::<IpAddr>().is_ok();
        let (ip, hostname) = match is_address {
            true => (text, Arc::from("")),
            false => (Arc::from(""), text),
        };
        LoadBalancerIngress { ip, hostname }
    });
    let mut all: Vec<_> = each.collect();
    all.sort_by(|a, b| (&a.hostname, &a.ip).cmp(&(&b.hostname, &b.ip)));
    all
}
