//! The DNS name table of a proxy: what the agent beside a proxy answers without asking further.
//!
//! Istio: pkg/dns/server/name_table.go BuildNameTable, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use incr::Cx;
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf};
use mesh::services::{Addressing, EndpointsOf};
use model::change::ServiceKey;
use model::names::Network;
use model::service::{Address, Endpoint, Health, Registry, Resolution, Service};
use proto_istio::nds::NameTable;
use proto_istio::nds::name_table::NameInfo;
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet};

/// Services of several clusters; their short names belong to the service of this one.
const CLUSTERSET: &str = ".clusterset.local";

/// Proxies that have the same name table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NameTableOf {
    scope: ScopeKey,
    addressing: Addressing,
    network: Network,
}

impl NameTableOf {
    /// What decides the name table of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        Self {
            scope: proxy.scope.clone(),
            addressing: proxy.addressing(&cx.settings().features),
            network: proxy.node.network.clone(),
        }
    }

    /// Their name table: one resource without a name.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let table = NameTable {
            table: table(cx, self),
        };
        ResourceSet::new([Arc::new(Resource::encode("", &table))])
    }
}

fn table(cx: &Cx<'_, Snapshot>, key: &NameTableOf) -> BTreeMap<String, NameInfo> {
    let mut table = BTreeMap::new();
    if key.scope.gateway {
        return table;
    }
    let scope = cx.query(&ScopeOf(key.scope.clone()));
    let dns_domain = format!("{}.svc.{}", key.scope.namespace, cx.settings().domain);
    for service in scope
        .egress
        .iter()
        .flat_map(|egress| egress.services.iter())
    {
        // By these names the workload means a Service of the cluster.
        if service.registry == Registry::External && scope.is_short_name(&service.host, &dns_domain)
        {
            continue;
        }
        let addresses = key.addressing.all(service);
        let ips = if addresses.iter().any(|a| &**a == "0.0.0.0") {
            if service.resolution == Resolution::Passthrough && !service.ports.is_empty() {
                of_workloads(cx, key, service, &mut table)
            } else {
                Vec::new()
            }
        } else {
            // Ranges of addresses are no answer.
            addresses
                .iter()
                .filter(|a| is_ip(a))
                .map(|a| a.to_string())
                .collect()
        };
        if !ips.is_empty() {
            add(&mut table, service, ips);
        }
    }
    table
}

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Adds the addresses of a service. Those of ServiceEntries of one host add up; a Kubernetes Service takes the place of
/// a ServiceEntry, and is not added to.
fn add(table: &mut BTreeMap<String, NameInfo>, service: &Service, ips: Vec<String>) {
    let kubernetes = service.registry == Registry::Kubernetes;
    let known = table.get_mut(service.host.as_str());
    match known {
        Some(known) if known.registry == registry(Registry::Kubernetes) => {}
        Some(known) if !kubernetes => known.ips.extend(ips),
        _ => {
            let mut info = NameInfo {
                ips,
                registry: registry(service.registry).to_owned(),
                ..NameInfo::default()
            };
            // The agent knows the shorter forms of these by itself.
            if kubernetes && !service.host.ends_with(CLUSTERSET) {
                info.namespace = service.namespace.to_string();
                info.shortname = service.name.to_string();
            }
            table.insert(service.host.to_string(), info);
        }
    }
}

fn registry(registry: Registry) -> &'static str {
    match registry {
        Registry::Kubernetes => "Kubernetes",
        Registry::External => "External",
    }
}

/// The addresses of the workloads of a service that has none of its own; Pods with a host name are added under it.
fn of_workloads(
    cx: &Cx<'_, Snapshot>,
    key: &NameTableOf,
    service: &Service,
    table: &mut BTreeMap<String, NameInfo>,
) -> Vec<String> {
    let endpoints = cx.query(&EndpointsOf(ServiceKey {
        namespace: service.namespace.clone(),
        host: service.host.clone(),
    }));
    let mut ips = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pods: BTreeMap<String, Named> = BTreeMap::new();
    for port in service.ports.iter() {
        let of_port = |e: &&Endpoint| {
            if e.service_port == 0 {
                e.port_name == port.name
            } else {
                e.service_port == port.number
            }
        };
        for endpoint in endpoints.iter().filter(of_port) {
            let Address::Socket { hosts, .. } = &endpoint.address else {
                continue;
            };
            let answers = !hosts.is_empty() && hosts.iter().all(|h| is_ip(h));
            let ready = service.kube.publish_not_ready || endpoint.health == Health::Healthy;
            let same_network = same_or_unknown(&endpoint.network, &key.network);
            // Networks may have equal addresses.
            if !answers || !ready || !same_network || !seen.insert(hosts[0].clone()) {
                continue;
            }
            let own = hosts.iter().map(|h| h.to_string());
            let same_cluster = same_or_unknown(&endpoint.cluster, &key.addressing.cluster);
            if same_cluster || cx.settings().features.multicluster_headless {
                ips.extend(own.clone());
            }
            if let Some((_, domain)) = service.host.split_once('.')
                && !endpoint.subdomain.is_empty()
            {
                let short = format!("{}.{}", endpoint.hostname, endpoint.subdomain);
                let named = pods.entry(format!("{short}.{domain}")).or_default();
                named.short = short;
                if same_cluster {
                    named.near.extend(own);
                } else {
                    named.far.extend(own);
                }
            }
        }
    }
    for (host, named) in pods {
        let info = NameInfo {
            // Of Pods with one name, those of the proxy's own cluster.
            ips: if named.near.is_empty() {
                named.far
            } else {
                named.near
            },
            registry: registry(service.registry).to_owned(),
            shortname: named.short,
            namespace: service.namespace.to_string(),
            ..NameInfo::default()
        };
        table.insert(host, info);
    }
    ips
}

/// The addresses under the name of a Pod.
#[derive(Default)]
struct Named {
    short: String,
    near: Vec<String>,
    far: Vec<String>,
}

/// Whether two names of networks or clusters may be the same: one that is not known counts as any.
fn same_or_unknown(a: &str, b: &str) -> bool {
    a.is_empty() || b.is_empty() || a == b
}
