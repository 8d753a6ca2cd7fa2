//! Services of the type ExternalName that paths of Ingresses lead to: gateways look their names up, as nginx does.
//!
//! Each becomes a ServiceEntry with a host of its own, whose endpoint is the external name. The host is not that name: what an
//! Ingress says of how its Service is spoken to (TLS, certificates) is then about its own requests, not about those of everybody to
//! the name, and is never lost.
//!
//! Names within the cluster are not looked up: they are Services, and whether those may be named is for [`refer`](crate::refer).
//! What leads to the machine of the gateway itself (loopback, metadata) is left out as in every ServiceEntry (`mesh::machine`).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use model::kinds::istio::ServiceEntry;
use model::kinds::kube::{Ingress, IntOrString, Service, ServicePort as KubePort, is_host};
use model::{Object, ObjectName};
use proto_istio::networking::service_entry::{Location, Resolution};
use proto_istio::networking::{ServicePort, WorkloadEntry};
use store::index::ObjectIndex;

use super::class::served;
use super::{derived, name};
use crate::outcome::{Made, Outcome, object};
use crate::reader::{Derive, Reader};
use crate::refer::{CLUSTERSET, plain};
use crate::strata::{Routes, Services};

/// What stands between the name of a Service with its namespace and the domain of the mesh in the host of its ServiceEntry.
pub const ELSEWHERE: &str = ".external.";

/// The ServiceEntry of a Service of the type ExternalName that Ingresses name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntryOfService(pub ObjectName);

impl Derive for EntryOfService {
    type Stratum = Services;
    type Value = Outcome<Services>;

    fn derive(&self, read: &Reader<'_, '_, Services>) -> Outcome<Services> {
        let name = &self.0;
        let Some(service) = read.get::<Service>(name) else {
            return Outcome::default();
        };
        let Some(address) = address(read, &service) else {
            return Outcome::default();
        };
        let value = format!("{}/{}", name.namespace, name.name);
        let mut ingresses = read.list_by::<Ingress>(ObjectIndex::Service, &value);
        ingresses.retain(|ingress| {
            ingress.meta.name.cluster.is_none() && served(read, &ingress.meta.name).is_some()
        });
        let ports = ports(&service, &ingresses);
        if ingresses.is_empty() || ports.is_empty() {
            return Outcome::default();
        }
        let settings = read.settings();
        let entry = ServiceEntry {
            hosts: vec![host(name, &settings.domain)],
            ports,
            location: Location::MeshExternal.into(),
            resolution: Resolution::Dns.into(),
            endpoints: vec![WorkloadEntry {
                address,
                ..WorkloadEntry::default()
            }],
            // Only gateways of Ingresses have use for it.
            export_to: vec![settings.features.edge_namespace.to_string()],
            ..ServiceEntry::default()
        };
        let from = ingresses.iter().map(|ingress| ingress.meta.name.clone());
        let derived = derived(from, [service.key()]);
        Outcome {
            objects: vec![Made::new(object(entry_name(name), derived, entry))],
            ..Outcome::default()
        }
    }
}

/// The host by which gateways look up the external name of a Service, where they do.
pub(super) fn entry_host(read: &Reader<'_, '_, Routes>, service: &ObjectName) -> Option<Arc<str>> {
    Some(entry(read, service)?.spec.hosts.first()?.as_str().into())
}

/// How many clusters gateways have for the external name of a Service: one for each port.
pub(super) fn clusters(read: &Reader<'_, '_, Routes>, service: &ObjectName) -> usize {
    entry(read, service).map_or(0, |entry| entry.spec.ports.len())
}

/// The ServiceEntry of a Service, where one was made of it.
fn entry(read: &Reader<'_, '_, Routes>, service: &ObjectName) -> Option<Arc<Object<ServiceEntry>>> {
    if service.cluster.is_some() {
        return None;
    }
    let entry = read.get::<ServiceEntry>(&entry_name(service));
    entry.filter(|entry| entry.meta.derived.is_some())
}

fn entry_name(service: &ObjectName) -> ObjectName {
    ObjectName::new(service.namespace.clone(), name::of_service(service))
}

fn host(service: &ObjectName, domain: &str) -> String {
    format!("{}.{}{ELSEWHERE}{domain}", service.name, service.namespace)
}

/// What gateways connect to for a Service: an address, or a name outside of the cluster.
fn address(read: &Reader<'_, '_, Services>, service: &Object<Service>) -> Option<String> {
    if &*service.spec.service_type != "ExternalName" {
        return None;
    }
    let name = plain(&service.spec.external_name);
    if name.parse::<IpAddr>().is_ok() {
        return Some(name);
    }
    if !is_host(&name) || name.contains('*') || is_of_cluster(&name, &read.settings().domain) {
        return None;
    }
    let mut labels = name.rsplit('.');
    let (namespace, of_service) = (labels.next()?, labels.next()?);
    // The resolver of a Pod takes `web.shop` for the Service, and `web-0.web.shop` for one of its Pods.
    let service = ObjectName::new(namespace, of_service);
    if !read.namesakes::<Service>(&service).is_empty() {
        return None;
    }
    let is_short = labels.next().is_none();
    Some(match is_short {
        // Nor may it take it for a Service that is not known here.
        true => format!("{name}."),
        false => name,
    })
}

/// Whether a name is of the DNS of the cluster.
fn is_of_cluster(name: &str, domain: &str) -> bool {
    let is_below = |domain: &str| {
        let rest = name.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    [domain, CLUSTERSET, "cluster.local", "svc", "pod"]
        .into_iter()
        .any(is_below)
}

/// The ports of a Service, and those that Ingresses name though it does not list them.
fn ports(service: &Object<Service>, ingresses: &[Arc<Object<Ingress>>]) -> Vec<ServicePort> {
    let name = &service.meta.name.name;
    let named = ingresses.iter().flat_map(|ingress| {
        let backends = ingress.spec.backends();
        let services = backends.filter_map(|backend| backend.service.as_ref());
        services.filter(move |named| *named.name == **name)
    });
    let named = named.filter_map(|named| u16::try_from(named.port.number).ok());
    let mut ports: BTreeMap<u16, u16> = named.map(|port| (port, port)).collect();
    let stated = service.spec.ports.iter();
    ports.extend(stated.filter_map(|port| Some((u16::try_from(port.port).ok()?, target(port)?))));
    let ports = ports.into_iter().filter(|(number, _)| *number > 0);
    let ports = ports.map(|(number, target)| ServicePort {
        number: number.into(),
        protocol: "HTTP".to_owned(),
        name: format!("http-{number}"),
        target_port: target.into(),
    });
    ports.collect()
}

/// The port that connections go to: nginx goes by numbers only.
fn target(port: &KubePort) -> Option<u16> {
    let target = port.target_port.as_ref().and_then(IntOrString::number);
    let target = target.filter(|number| *number > 0).unwrap_or(port.port);
    u16::try_from(target).ok()
}

#[cfg(test)]
mod tests {
    use super::is_of_cluster;

    #[test]
    fn names_of_the_cluster_are_known() {
        for name in [
            "cluster.local",
            "web.bank.svc.cluster.local",
            "10-0-0-1.bank.pod.cluster.local",
            "10-0-0-1.bank.pod",
            "web.bank.svc",
            "web.bank.svc.clusterset.local",
            "web.bank.svc.corp.internal",
        ] {
            assert!(is_of_cluster(name, "corp.internal"), "{name}");
        }
        for name in [
            "files.example.org",
            "mycluster.local",
            "web.bank",
            "svc.example.org",
        ] {
            assert!(!is_of_cluster(name, "corp.internal"), "{name}");
        }
    }
}
