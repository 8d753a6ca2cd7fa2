//! What annotations and backends refer to: Services, their ports, and objects of other namespaces. Whether an Ingress may
//! name them is for [`refer`](crate::refer).

use std::sync::Arc;

use annotations::Reference;
use model::kinds::kube::Service;
use model::{Kind, Namespace, ObjectKey, ObjectName};

use super::rules::BackendPort;
use crate::outcome::code;
use crate::reader::{Derive, Reader};
use crate::refer::{Author, Named, Refusal, Target, may_name, service_host};
use crate::strata::Routes;

/// What is wrong with a reference: the code of the finding, and a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) sentence: String,
}

impl From<String> for Fault {
    /// What is named is not there.
    fn from(sentence: String) -> Self {
        Self {
            code: code::NO_BACKEND,
            sentence,
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self {
            code: code::NOT_PERMITTED,
            sentence: refusal.sentence(),
        }
    }
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> Self {
        refusal.sentence()
    }
}

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
        None => "port".to_owned(),
        Some(BackendPort::Name(name)) => format!("port named {name:?}"),
        Some(BackendPort::Number(number)) => format!("port {number}"),
    };
    let absent = || {
        let has: Vec<String> = ports
            .ports
            .iter()
            .map(|(_, number)| number.to_string())
            .collect();
        let has = match has.is_empty() {
            true => "none".to_owned(),
            false => has.join(", "),
        };
        format!("the Service {service} has no {named} (it has {has})")
    };
    found.map(|(_, number)| *number).ok_or_else(absent)
}

/// The host of a Service in the mesh.
pub(crate) fn host_of(read: &Reader<'_, '_, Routes>, service: &ObjectName) -> String {
    service_host(service, &read.settings().domain).to_string()
}

/// What an Ingress names, if it may name it; otherwise why not.
pub(super) fn resolve(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    kind: Kind,
    to: &Reference,
    others: &mut Vec<ObjectKey>,
) -> Result<ObjectName, Refusal> {
    let name = named(ingress, to);
    let object = ObjectKey {
        kind,
        name: name.clone(),
    };
    target(read, ingress, Named::Object(object), others)?;
    Ok(name)
}

/// What an Ingress names as somewhere that requests go, if it may name it; otherwise why not.
pub(super) fn target(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    what: Named<'_>,
    others: &mut Vec<ObjectKey>,
) -> Result<Target, Refusal> {
    let target = may_name(read, Author::new(Kind::Ingress, ingress), what)?;
    others.extend(target.grants().iter().cloned());
    Ok(target)
}

/// What an Ingress means by a reference: an object of its own cluster, and of its own namespace unless that is stated.
pub(super) fn named(ingress: &ObjectName, to: &Reference) -> ObjectName {
    let namespace = match &to.namespace {
        Some(namespace) => Namespace::from(&**namespace),
        None => ingress.namespace.clone(),
    };
    ObjectName::new(namespace, &*to.name).in_cluster(ingress.cluster.as_ref())
}
