//! VirtualServices.

pub(crate) mod claims;
pub(crate) mod conflicts;
pub(crate) mod delegates;
pub(crate) mod destinations;
pub(crate) mod gateways;
pub(crate) mod hidden;
pub(crate) mod without_service;

use proto_istio::networking::{Destination, VirtualService};

/// A destination of a VirtualService and where it stands.
struct Named<'a> {
    destination: &'a Destination,
    path: String,
}

/// Every destination.
pub(super) fn destinations_of(spec: &VirtualService) -> impl Iterator<Item = &Destination> {
    destinations(spec)
        .into_iter()
        .map(|named| named.destination)
}

/// Every destination: those of routes, then those of mirrors.
fn destinations(spec: &VirtualService) -> Vec<Named<'_>> {
    let mut all = Vec::new();
    for (i, rule) in spec.tcp.iter().enumerate() {
        for (j, route) in rule.route.iter().enumerate() {
            push(
                &mut all,
                &route.destination,
                format!("spec.tcp[{i}].route[{j}].destination"),
            );
        }
    }
    for (i, rule) in spec.tls.iter().enumerate() {
        for (j, route) in rule.route.iter().enumerate() {
            push(
                &mut all,
                &route.destination,
                format!("spec.tls[{i}].route[{j}].destination"),
            );
        }
    }
    for (i, rule) in spec.http.iter().enumerate() {
        for (j, route) in rule.route.iter().enumerate() {
            push(
                &mut all,
                &route.destination,
                format!("spec.http[{i}].route[{j}].destination"),
            );
        }
    }
    for (i, rule) in spec.http.iter().enumerate() {
        push(&mut all, &rule.mirror, format!("spec.http[{i}].mirror"));
        for (j, mirror) in rule.mirrors.iter().enumerate() {
            push(
                &mut all,
                &mirror.destination,
                format!("spec.http[{i}].mirrors[{j}].destination"),
            );
        }
    }
    all
}

fn push<'a>(all: &mut Vec<Named<'a>>, destination: &'a Option<Destination>, path: String) {
    if let Some(destination) = destination {
        all.push(Named { destination, path });
    }
}
