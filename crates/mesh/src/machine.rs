//! Which endpoints lead to the machine of whoever connects: loopback, the link, nowhere, metadata of clouds, Unix sockets.
//!
//! Whoever writes a ServiceEntry, a WorkloadEntry or an EndpointSlice says where others connect to. An endpoint at loopback
//! would let them use what listens on the machine of each proxy, Envoy's own admin interface among it. Such endpoints are
//! left out for all proxies, unless `PILOTHOUSE_LOCAL_ENDPOINTS` allows them for the namespace of the service. A proxy still
//! knows which services its own workload serves at such an address ([`targets_of`](crate::services::targets_of)).
//!
//! A name that resolves to loopback is not seen here, so names have no ports that Envoy and its agent listen on.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::{ServiceEntry, WorkloadEntry};
use model::kinds::kube::EndpointSlice;
use model::kinds::{AnyObject, Kinded};
use model::names::Namespace;
use model::object::{Object, Origin};
use model::own_port::is_answered;
use model::service::{Address, Endpoint};
use model::settings::Features;
use model::special::is_special_host;
use proto_istio::networking::ServicePort;
use proto_istio::networking::service_entry::Resolution as By;

use crate::address::UNIX_PREFIX;
use crate::finding::{about, code};

/// Whether services of a namespace may have endpoints on the machine of whoever connects.
pub fn allows(features: &Features, namespace: &Namespace) -> bool {
    features.local_endpoints.allows(namespace)
}

/// As [`allows`], for the endpoints of a ServiceEntry. One whose endpoints an McpBridge lists is of the operator; so are the
/// listeners by which gateways reach the proxies that it names.
pub fn allows_entry(features: &Features, entry: &Object<ServiceEntry>) -> bool {
    const LISTED: [&str; 2] = ["registry:static/", "registry:dns/"];
    let is_listed = match &entry.meta.origin {
        Origin::Source(source) => LISTED.iter().any(|start| source.name.starts_with(start)),
        Origin::File { .. } => false,
    };
    is_listed || allows(features, entry.namespace())
}

/// Leaves out of a list the endpoints that lead to the machine of whoever connects.
pub(crate) fn without_local(list: &mut Arc<[Endpoint]>) {
    if list.iter().any(|endpoint| is_local(&endpoint.address)) {
        let others = list.iter().filter(|endpoint| !is_local(&endpoint.address));
        *list = others.cloned().collect();
    }
}

fn is_local(address: &Address) -> bool {
    match address {
        Address::Unix(_) => true,
        Address::Socket { hosts, port } => hosts.iter().any(|host| is_local_at(host, *port)),
    }
}

fn is_local_at(host: &str, port: u16) -> bool {
    // Gateways of networks are found without an address.
    !host.is_empty()
        && (is_special_host(host) || is_answered(port) && host.parse::<IpAddr>().is_err())
}

/// Whether an address is left out of what leads to one of these ports.
pub fn is_left_out(address: &str, ports: impl IntoIterator<Item = u16>) -> bool {
    fault(address, ports.into_iter().any(is_answered)).is_some()
}

/// What an address is, where it is left out. `own_port`: some port there is one of Envoy's or its agent's.
fn fault(address: &str, own_port: bool) -> Option<&'static str> {
    if address.starts_with(UNIX_PREFIX) {
        return Some("is a Unix socket on each proxy's own machine");
    }
    if is_special_host(address) && !address.is_empty() {
        return Some("leads each proxy to its own machine or link");
    }
    let is_name = !address.is_empty() && address.parse::<IpAddr>().is_err();
    (own_port && is_name)
        .then_some("may lead each proxy to its own machine, where Envoy listens on that port")
}

/// An address of a ServiceEntry that is left out.
struct LeftOut<'e> {
    address: &'e str,
    why: &'static str,
    place: Place,
}

/// Where it is stated.
enum Place {
    /// In the list of endpoints.
    Endpoint(usize),
    /// As a host that proxies resolve.
    Host(usize),
}

/// Whether a port is one of Envoy's or its agent's.
fn is_own(port: u32) -> bool {
    u16::try_from(port).is_ok_and(is_answered)
}

/// Whether that is what a port of a ServiceEntry leads to.
fn leads_to_own(port: &ServicePort) -> bool {
    match port.target_port {
        0 => is_own(port.number),
        target => is_own(target),
    }
}

/// What of a ServiceEntry is left out, where its namespace may have no such endpoints.
fn left_out(spec: &ServiceEntry) -> impl Iterator<Item = LeftOut<'_>> {
    let own_port = spec.ports.iter().any(leads_to_own);
    let by_host = spec.endpoints.is_empty()
        && spec.workload_selector.is_none()
        && matches!(spec.resolution(), By::Dns | By::DnsRoundRobin);
    let stated = spec.endpoints.iter().enumerate();
    let stated = stated.filter_map(move |(at, endpoint)| {
        let own_port = own_port || endpoint.ports.values().any(|port| is_own(*port));
        Some(LeftOut {
            address: &endpoint.address,
            why: fault(&endpoint.address, own_port)?,
            place: Place::Endpoint(at),
        })
    });
    let hosts = spec.hosts.iter().enumerate().filter(move |_| by_host);
    let hosts = hosts.filter_map(move |(at, host)| {
        Some(LeftOut {
            address: host,
            why: fault(host, own_port)?,
            place: Place::Host(at),
        })
    });
    stated.chain(hosts)
}

/// What of a ServiceEntry's endpoints is left out: the first, and how many there are.
pub fn of_entry(features: &Features, entry: &Object<ServiceEntry>) -> Option<Diagnostic> {
    if allows_entry(features, entry) {
        return None;
    }
    let all = left_out(&entry.spec).map(|left_out| {
        let path = match left_out.place {
            Place::Endpoint(at) => format!("spec.endpoints[{at}].address"),
            Place::Host(at) => format!("spec.hosts[{at}]"),
        };
        (left_out.address, left_out.why, path)
    });
    first_of(entry, all)
}

/// A ServiceEntry without what is left out, for who resolves it elsewhere; `None` where that is nothing. One of which no endpoint is
/// left has none: neither hosts nor workloads are looked up instead.
pub fn without_left_out(features: &Features, entry: &Object<ServiceEntry>) -> Option<ServiceEntry> {
    if allows_entry(features, entry) {
        return None;
    }
    let mut endpoints = BTreeSet::new();
    let mut is_found_by_host = false;
    for left_out in left_out(&entry.spec) {
        match left_out.place {
            Place::Endpoint(at) => {
                endpoints.insert(at);
            }
            Place::Host(_) => is_found_by_host = true,
        }
    }
    // What the workloads are is not known here: one may be a name.
    let selects = entry.spec.workload_selector.is_some();
    let selects_own = selects && entry.spec.ports.iter().any(leads_to_own);
    if endpoints.is_empty() && !is_found_by_host && !selects_own {
        return None;
    }
    let mut spec = entry.spec.clone();
    let stated = std::mem::take(&mut spec.endpoints).into_iter().enumerate();
    let others = stated.filter(|(at, _)| !endpoints.contains(at));
    spec.endpoints = others.map(|(_, endpoint)| endpoint).collect();
    if selects_own {
        spec.ports.retain(|port| !leads_to_own(port));
    }
    let is_left = match selects && endpoints.is_empty() {
        true => !spec.ports.is_empty(),
        false => !spec.endpoints.is_empty(),
    };
    if !is_left {
        spec.ports.clone_from(&entry.spec.ports);
        spec.workload_selector = None;
        spec.set_resolution(By::Static);
    }
    Some(spec)
}

/// What of the endpoints of a part of a Service is left out, as [`of_entry`]. Only files have such: Kubernetes refuses them.
pub fn of_slice(features: &Features, slice: &Object<EndpointSlice>) -> Option<Diagnostic> {
    if allows(features, slice.namespace()) {
        return None;
    }
    let mut ports = slice.spec.ports.iter().filter_map(|port| port.port);
    let own_port = ports.any(|port| u16::try_from(port).is_ok_and(is_answered));
    // Consumers use the first address only.
    let endpoints = slice.spec.endpoints.iter();
    let addresses = endpoints.filter_map(|endpoint| endpoint.addresses.first());
    let all = addresses.filter_map(|address| {
        let why = fault(address, own_port)?;
        Some((&**address, why, "endpoints".to_owned()))
    });
    first_of(slice, all)
}

/// What of an object is left out, for whoever has it alone.
pub fn of_object(features: &Features, object: &AnyObject) -> Option<Diagnostic> {
    match object {
        AnyObject::ServiceEntry(entry) => of_entry(features, entry),
        AnyObject::WorkloadEntry(entry) => of_workload(features, entry),
        AnyObject::EndpointSlice(slice) => of_slice(features, slice),
        _ => None,
    }
}

/// A finding about the first of the addresses that are left out, which says how many more there are.
fn first_of<'a, T: Kinded>(
    object: &Object<T>,
    mut all: impl Iterator<Item = (&'a str, &'static str, String)>,
) -> Option<Diagnostic> {
    let (address, why, path) = all.next()?;
    let message = sentence(address, why, all.count());
    Some(about(object, code::LOCAL_ENDPOINT, Severity::Warning, message).at(path))
}

/// The address of a WorkloadEntry, where it is left out.
pub fn of_workload(features: &Features, entry: &Object<WorkloadEntry>) -> Option<Diagnostic> {
    if allows(features, entry.namespace()) {
        return None;
    }
    let address = &entry.spec.address;
    let own_port = entry.spec.ports.values().any(|port| is_own(*port));
    let why = fault(address, own_port)?;
    let told = about(
        entry,
        code::LOCAL_ENDPOINT,
        Severity::Warning,
        sentence(address, why, 0),
    );
    Some(told.at("spec.address"))
}

fn sentence(address: &str, why: &str, more: usize) -> String {
    let left_out = match more {
        0 => "so the endpoint is left out".to_owned(),
        1 => "so the endpoint is left out, as is 1 more".to_owned(),
        more => format!("so the endpoint is left out, as are {more} more"),
    };
    format!(
        "{address:?} {why}, {left_out}: PILOTHOUSE_LOCAL_ENDPOINTS can allow that for the namespace"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_endpoint_is_one() {
        for (more, wanted) in [
            (0, "so the endpoint is left out:"),
            (1, "so the endpoint is left out, as is 1 more:"),
            (2, "so the endpoint is left out, as are 2 more:"),
        ] {
            let text = sentence("127.0.0.1", "leads there", more);
            assert!(text.contains(wanted), "{text}");
        }
    }
}
