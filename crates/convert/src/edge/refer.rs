//! What annotations and backends refer to: Services, their ports, and objects of other namespaces.

use std::sync::Arc;

use annotations::Reference;
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::Service;
use model::{Kind, Namespace, ObjectKey, ObjectName};
use store::index::ObjectIndex;

use super::rules::BackendPort;
use crate::gateway_api::grant;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The ports of a Service; none where there is no such Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PortsOf(pub(super) ObjectName);

/// The ports of a Service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ports {
    /// Names and numbers, in order.
    ports: Vec<(Arc<str>, u16)>,
    /// It stands for a host elsewhere, and need not state its ports.
    is_external: bool,
}

impl Derive for PortsOf {
    type Stratum = Routes;
    type Value = Option<Ports>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<Ports> {
        let service = read.get::<Service>(&self.0)?;
        let ports = service.spec.ports.iter();
        let ports = ports.filter_map(|p| Some((p.name.clone(), u16::try_from(p.port).ok()?)));
        Some(Ports {
            ports: ports.collect(),
            is_external: &*service.spec.service_type == "ExternalName",
        })
    }
}

/// The number of a port of a Service, or what is wrong with it as a sentence about it.
pub(crate) fn port(
    read: &Reader<'_, '_, Routes>,
    service: &ObjectName,
    port: Option<&BackendPort>,
) -> Result<u16, String> {
    let ports = read.derived(PortsOf(service.clone()));
    let Some(ports) = ports.as_ref() else {
        return Err(format!("there is no Service {service}"));
    };
    let mut stated = ports.ports.iter();
    let found = match port {
        None => stated.next(),
        Some(BackendPort::Name(name)) => stated.find(|(named, _)| named == name),
        Some(BackendPort::Number(number)) if ports.is_external => return Ok(*number),
        Some(BackendPort::Number(number)) => stated.find(|(_, stated)| stated == number),
    };
    let named = match port {
        None => "a port".to_owned(),
        Some(BackendPort::Name(name)) => format!("a port named {name:?}"),
        Some(BackendPort::Number(number)) => format!("the port {number}"),
    };
    let absent = || format!("the Service {service} has not {named}");
    found.map(|(_, number)| *number).ok_or_else(absent)
}

/// The host of a Service in the mesh.
pub(crate) fn host_of(read: &Reader<'_, '_, Routes>, service: &ObjectName) -> String {
    let domain = &read.settings().domain;
    format!("{}.{}.svc.{domain}", service.name, service.namespace)
}

/// The object that an Ingress names, if it may name it; otherwise why not.
///
/// An object of another namespace needs a ReferenceGrant there, or the setting that lets all be named.
pub(super) fn resolve(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    kind: Kind,
    to: &Reference,
    others: &mut Vec<ObjectKey>,
) -> Result<ObjectName, String> {
    let name = named(ingress, to);
    let by = (Kind::Ingress, &ingress.namespace);
    may_name(read, by, ObjectKey { kind, name }, others)
}

/// What an Ingress means by a reference: an object of its own cluster, and of its own namespace unless that is stated.
pub(super) fn named(ingress: &ObjectName, to: &Reference) -> ObjectName {
    let namespace = match &to.namespace {
        Some(namespace) => Namespace::from(&**namespace),
        None => ingress.namespace.clone(),
    };
    ObjectName::new(namespace, &*to.name).in_cluster(ingress.cluster.as_ref())
}

/// The object that an Ingress of a kind in a namespace names, if it may name it; otherwise why not.
pub(crate) fn may_name(
    read: &Reader<'_, '_, Routes>,
    (by, home): (Kind, &Namespace),
    object: ObjectKey,
    others: &mut Vec<ObjectKey>,
) -> Result<ObjectName, String> {
    let name = object.name.clone();
    if name.namespace == *home || read.settings().features.edge_cross_namespace {
        return Ok(name);
    }
    match grant(read, by, home, &object) {
        Some(grant) => {
            others.push(grant);
            Ok(name)
        }
        None => Err(format!(
            "{object} is of another namespace: a ReferenceGrant there must let an Ingress of {home} name it, or \
             --ingress-allow-cross-namespace all"
        )),
    }
}

/// The Service that a host name stands for: `web.shop`, `web.shop.svc`, `web.shop.svc.cluster.local`; `web` of the
/// namespace of the Ingress.
pub(super) fn service_named(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    host: &str,
) -> Option<Reference> {
    let domain = format!(".svc.{}", read.settings().domain);
    let short = host
        .strip_suffix(&domain)
        .or_else(|| host.strip_suffix(".svc"));
    let parts: Vec<&str> = short.unwrap_or(host).split('.').collect();
    let (name, namespace) = match (parts.as_slice(), short) {
        ([name, namespace], Some(_)) => (*name, *namespace),
        ([name], None) => (*name, &*ingress.namespace),
        ([name, namespace], None) => {
            let name = ObjectName::new(*namespace, *name);
            let name = name.in_cluster(ingress.cluster.as_ref());
            read.derived(PortsOf(name)).as_ref().as_ref()?;
            (parts[0], *namespace)
        }
        _ => return None,
    };
    Some(Reference {
        namespace: Some(namespace.into()),
        name: name.into(),
    })
}

/// Whether a ServiceEntry declares a host.
pub(super) fn is_declared(read: &Reader<'_, '_, Routes>, host: &str) -> bool {
    !read
        .names_by::<ServiceEntry>(ObjectIndex::Host, host)
        .is_empty()
}
