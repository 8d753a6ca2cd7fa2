//! Where Services are reached.

use std::sync::Arc;

use model::Object;
use model::kinds::kube::Service;

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
