//! The endpoints of a service, of all its ports, whoever tells of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::{Cx, Query};
use model::Labels;
use model::change::ServiceKey;
use model::host::Hostname;
use model::kinds::istio::ServiceEntry;
use model::object::{Object, ObjectName};
use model::service::{Address, Endpoint, Resolution};
use store::{ObjectIndex, Reads, Snapshot};

use super::entry::{EntryServices, port_number, resolution, resolves_names, too_many_endpoints};
use super::kube::name_of;
use super::kube_endpoints;
use super::mcs;
use super::workload::{self, Workload, selected};
use crate::machine;

/// Every endpoint of a service: those of ServiceEntries, of Kubernetes, and of registries, in this order.
///
/// Those on the machine of whoever connects are not among them ([`machine`]). They carry the name of the port that they serve. What the service's ports are, and which endpoints a proxy may
/// see, is for the caller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EndpointsOf(pub ServiceKey);

impl Query<Snapshot> for EndpointsOf {
    type Value = Arc<[Endpoint]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<[Endpoint]> {
        let mut lists = of_entries(cx, &self.0);
        let of_entries = lists.len();
        if let Some(name) = name_of(&self.0.host, &cx.settings().domain)
            && name.namespace == self.0.namespace
        {
            lists.push(kube_endpoints::of_service(cx, &name, false).into());
        }
        if let Some(name) = mcs::imported_name(cx, &self.0.host)
            && name.namespace == self.0.namespace
        {
            lists.push(kube_endpoints::of_service(cx, &name, true).into());
        }
        if let Some(shards) = cx.shards(&self.0) {
            lists.push(shards.endpoints().cloned().collect());
        }
        if !machine::allows(&cx.settings().features, &self.0.namespace) {
            let others = lists.iter_mut().skip(of_entries);
            others.for_each(machine::without_local);
        }
        lists.retain(|list| !list.is_empty());
        match &*lists {
            // The memo of an entry holds the same list.
            [one] => one.clone(),
            all => all.iter().flat_map(|list| list.iter()).cloned().collect(),
        }
    }
}

/// Istio: pilot/pkg/serviceregistry/serviceentry/conversion.go mergeServicesInstancesByNamespaceHost, 1.32.
fn of_entries(cx: &Cx<'_, Snapshot>, service: &ServiceKey) -> Vec<Arc<[Endpoint]>> {
    let host = &service.host;
    let mut entries: Vec<Arc<Object<ServiceEntry>>> = cx
        .names_by::<ServiceEntry>(ObjectIndex::Host, &host.to_ascii_lowercase())
        .into_iter()
        .filter(|name| name.namespace == service.namespace)
        .filter_map(|name| cx.get::<ServiceEntry>(&name))
        .filter(|entry| entry.spec.hosts.iter().any(|h| *h == **host))
        .collect();
    entries.sort_by(|a, b| a.cmp_age(b));
    let mut lists = Vec::new();
    let mut ports = BTreeSet::new();
    // Of entries that make one service, the oldest says how its cluster finds endpoints.
    let mut has_one = None;
    for entry in entries {
        let services = cx.query(&EntryServices(entry.meta.name.clone()));
        let addresses = services.iter().filter(|s| s.host == *host).count();
        if addresses == 0 {
            continue;
        }
        let is_robin = resolution(&entry.spec) == Resolution::DnsRoundRobin;
        let first_only = *has_one.get_or_insert(is_robin) || is_robin;
        let own = cx.query(&EntryEndpoints {
            entry: entry.meta.name.clone(),
            host: host.clone(),
        });
        let mut endpoints = own.endpoints.clone();
        if !machine::allows_entry(&cx.settings().features, &entry) {
            machine::without_local(&mut endpoints);
        }
        // Each address of the entry is a service of its own, and each brings the endpoints.
        for _ in 0..addresses {
            // One address is all that such a cluster may have.
            let list = match first_only {
                true => {
                    let all = endpoints.iter();
                    all.filter(|e| ports.insert(e.service_port))
                        .cloned()
                        .collect()
                }
                false => endpoints.clone(),
            };
            ports.extend(list.iter().map(|e| e.service_port));
            lists.push(list);
        }
    }
    lists
}

/// The endpoints of one host of a ServiceEntry, for every port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct EntryEndpoints {
    pub(super) entry: ObjectName,
    pub(super) host: Hostname,
}

/// The endpoints that a ServiceEntry gives one host.
#[derive(PartialEq, Debug, Default)]
pub(super) struct OfEntry {
    pub(super) endpoints: Arc<[Endpoint]>,
    /// Where there are none because they would be too many: how many.
    refused: Option<usize>,
}

impl Query<Snapshot> for EntryEndpoints {
    type Value = OfEntry;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> OfEntry {
        let Some(entry) = cx.get::<ServiceEntry>(&self.entry) else {
            return OfEntry::default();
        };
        match of_entry(cx, &entry, &self.host) {
            Ok(endpoints) => OfEntry {
                endpoints: endpoints.into(),
                refused: None,
            },
            Err(count) => OfEntry {
                refused: Some(count),
                ..OfEntry::default()
            },
        }
    }
}

/// How many endpoints the hosts of a ServiceEntry would have, where they are so many that they have none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RefusedEndpoints(pub ObjectName);

impl Query<Snapshot> for RefusedEndpoints {
    type Value = Option<usize>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<usize> {
        let entry = cx.get::<ServiceEntry>(&self.0)?;
        let host = entry.spec.hosts.first()?.as_str().into();
        let own = EntryEndpoints {
            entry: self.0.clone(),
            host,
        };
        cx.query(&own).refused
    }
}

/// How many endpoints each host and port of a ServiceEntry has: those that it states, or the workloads that it selects.
pub(super) fn endpoints_of_entry(cx: &Cx<'_, Snapshot>, entry: &Object<ServiceEntry>) -> usize {
    match &entry.spec.workload_selector {
        None => entry.spec.endpoints.len(),
        Some(selector) => {
            let selector = Labels::from(&selector.labels);
            selected(cx, entry.namespace(), &selector).len()
        }
    }
}

/// The error is how many endpoints all hosts of the entry would have, which is too many.
fn of_entry(
    cx: &Cx<'_, Snapshot>,
    entry: &Object<ServiceEntry>,
    host: &str,
) -> Result<Vec<Endpoint>, usize> {
    let spec = &entry.spec;
    let mut endpoints = Vec::new();
    let check = |workloads| too_many_endpoints(spec, workloads).map_or(Ok(()), Err);
    if let Some(selector) = &spec.workload_selector {
        let selector = Labels::from(&selector.labels);
        let names = resolves_names(resolution(spec));
        let workloads = selected(cx, entry.namespace(), &selector);
        check(workloads.len())?;
        for workload in workloads {
            if names || !workload.named {
                serve(&workload, spec, &mut endpoints);
            }
        }
    } else if spec.endpoints.is_empty() {
        if resolves_names(resolution(spec)) {
            endpoints.extend(spec.ports.iter().map(|port| {
                let target = if port.target_port > 0 {
                    port.target_port
                } else {
                    port.number
                };
                Endpoint {
                    address: Address::Socket {
                        hosts: Arc::from([Arc::from(host)]),
                        port: port_number(target),
                    },
                    port_name: Arc::from(port.name.as_str()),
                    service_port: port_number(port.number),
                    cluster: cx.settings().cluster.clone(),
                    workload: entry.meta.name.name.as_arc().clone(),
                    namespace: entry.namespace().clone(),
                    ..Endpoint::default()
                }
            }));
        }
    } else {
        check(spec.endpoints.len())?;
        let mut known = BTreeSet::new();
        for (at, endpoint) in spec.endpoints.iter().enumerate() {
            let name = format!("{}-{at}", entry.meta.name.name);
            let name = ObjectName::new(entry.namespace().clone(), name);
            let labels = Labels::from(&*endpoint.labels);
            let mut workload = workload::from_entry(cx, endpoint, &labels, &name, None);
            workload.endpoint.labels.share_among(&mut known);
            serve(&workload, spec, &mut endpoints);
        }
    }
    Ok(endpoints)
}

/// The endpoints of a workload for every port of a ServiceEntry.
///
/// Istio: pilot/pkg/serviceregistry/serviceentry/conversion.go convertWorkloadInstanceToServiceInstance, 1.32.
fn serve(workload: &Workload, spec: &ServiceEntry, endpoints: &mut Vec<Endpoint>) {
    for port in &spec.ports {
        let own = workload.ports.get(port.name.as_str()).copied();
        let target = match own.filter(|p| *p > 0) {
            Some(target) => target,
            None if port.target_port > 0 => port_number(port.target_port),
            None => port_number(port.number),
        };
        endpoints.push(Endpoint {
            address: at_port(&workload.endpoint.address, target),
            port_name: Arc::from(port.name.as_str()),
            service_port: port_number(port.number),
            ..workload.endpoint.clone()
        });
    }
}

/// The address with another port; a Unix socket has none.
pub(super) fn at_port(address: &Address, port: u16) -> Address {
    match address {
        Address::Socket { hosts, .. } => Address::Socket {
            hosts: hosts.clone(),
            port,
        },
        Address::Unix(path) => Address::Unix(path.clone()),
    }
}
