//! The services of every egress listener as one list, each host once.
//!
//! Istio: pilot/pkg/model/sidecar.go collectImportedServices and appendSidecarServices, 1.32.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, KeyedMap, KeyedSet};
use model::host::Hostname;
use model::names::Namespace;
use model::service::{Port, Registry, Service};
use store::Snapshot;

use super::EgressScope;
use super::imports::with_port;
use crate::services::OfHost;
use crate::virtual_service::DestinationsOf;

/// Where in a list the service of a host stands.
pub(super) type ByHost = Arc<KeyedMap<Hostname, usize>>;

/// Services in the order they were first added.
#[derive(Default)]
pub(super) struct Merged {
    /// The namespace whose ServiceEntries have their hosts before those of others, whatever their age.
    home: Option<Namespace>,
    services: Vec<Arc<Service>>,
    by_host: KeyedMap<Hostname, usize>,
}

impl Merged {
    /// None of a proxy of that namespace, which sees those of all others.
    pub(super) fn at_home(namespace: &Namespace) -> Self {
        Self {
            home: Some(namespace.clone()),
            ..Self::default()
        }
    }

    /// Adds a service. Of two with one host a Kubernetes service wins, then that of the home, then the first; ports of the same
    /// service that different listeners import come together.
    pub(super) fn add(&mut self, service: &Arc<Service>) {
        let Some(at) = self.by_host.get(&service.host) else {
            self.by_host
                .insert(service.host.clone(), self.services.len());
            self.services.push(service.clone());
            return;
        };
        let held = &mut self.services[*at];
        let home = self.home.as_ref();
        let is_home = |service: &Service| home == Some(&service.namespace);
        match (held.registry, service.registry) {
            (Registry::Kubernetes, Registry::External) => {}
            (Registry::External, Registry::Kubernetes) => *held = service.clone(),
            _ if is_home(service) && !is_home(held) => *held = service.clone(),
            _ if held.ports == service.ports || !mergeable(held, service) => {}
            _ => {
                let mut merged = Service::clone(held);
                let mut ports = merged.ports.to_vec();
                let mut numbers: KeyedSet<u16> = ports.iter().map(|p| p.number).collect();
                let more = service.ports.iter().filter(|p| numbers.insert(p.number));
                ports.extend(more.cloned());
                merged.ports = ports.into();
                *held = Arc::new(merged);
            }
        }
    }

    pub(super) fn finish(self) -> (Arc<[Arc<Service>]>, ByHost) {
        (self.services.into(), Arc::new(self.by_host))
    }
}

fn mergeable(a: &Service, b: &Service) -> bool {
    a.namespace == b.namespace && apart(a, b).is_none()
}

/// What keeps the ports of two services of one host and namespace apart: proxies know those of the first alone. `None` where they
/// come together.
pub fn apart(first: &Service, other: &Service) -> Option<&'static str> {
    let differences = [
        ("resolution", first.resolution != other.resolution),
        ("labels", first.labels != other.labels),
        ("workloadSelector", first.selector != other.selector),
        ("exportTo", first.export_to != other.export_to),
    ];
    let mut differing = differences.into_iter().filter(|(_, differ)| *differ);
    differing.next().map(|(field, _)| field)
}

/// Every service that the listeners import, and those that their rules send to.
pub(super) fn collect(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    egress: &[EgressScope],
) -> (Arc<[Arc<Service>]>, ByHost) {
    let mut merged = Merged::default();
    for listener in egress {
        for service in listener.services.iter() {
            merged.add(service);
        }
        for rule in listener.rules.iter() {
            let destinations = cx.query(&DestinationsOf {
                rule: rule.name.clone(),
                source: Some(namespace.clone()),
            });
            for (host, ports) in destinations.iter() {
                let Some(service) = destination(cx, namespace, host) else {
                    continue;
                };
                let imported = match listener.port_to_match() {
                    Some(port) => with_port(&service, Some(port)),
                    None => with_ports(service, ports),
                };
                if let Some(service) = imported {
                    merged.add(&service);
                }
            }
        }
    }
    merged.finish()
}

/// The service that a rule means by a host: that of the proxy's namespace, else a visible Kubernetes service, else the
/// oldest visible one.
fn destination(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    host: &Hostname,
) -> Option<Arc<Service>> {
    let services = cx.query(&OfHost(host.clone()));
    if let Some(own) = services.iter().find(|s| s.namespace == *namespace) {
        return Some(own.clone());
    }
    services
        .iter()
        .filter(|s| s.export_to.allows(namespace))
        .min_by_key(|s| (s.registry != Registry::Kubernetes, s.created))
        .cloned()
}

/// The service with the ports that rules send to; none if it has none of them.
fn with_ports(service: Arc<Service>, ports: &BTreeSet<u16>) -> Option<Arc<Service>> {
    if ports.is_empty() || ports.contains(&0) {
        return Some(service);
    }
    let found: Arc<[Port]> = service
        .ports
        .iter()
        .filter(|p| ports.contains(&p.number))
        .cloned()
        .collect();
    if found.len() == service.ports.len() {
        return Some(service);
    }
    if found.is_empty() {
        return None;
    }
    let mut cut = Service::clone(&service);
    cut.ports = found;
    Some(Arc::new(cut))
}
