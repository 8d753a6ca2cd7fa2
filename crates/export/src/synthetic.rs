//! Services of Kubernetes as ServiceEntries, with their endpoints: another control plane need not see the cluster.
//!
//! They have no date, by which they come before ServiceEntries that claim their hosts: here Services always do.
//!
//! Istio: pilot/pkg/serviceregistry/serviceentry/conversion.go ServiceToServiceEntry, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use mcp::{Resource, kinds};
use mesh::machine;
use mesh::services::{Addressing, EndpointsOf, OfHost, VisibleTo};
use mesh::view::Families;
use model::change::ServiceKey;
use model::kinds::Kind;
use model::kinds::istio::ServiceEntry;
use model::names::Namespace;
use model::service::{Address, Endpoint, Health, Registry, Resolution, Service, Visibility};
use model::spiffe::SpiffeId;
use prost::Message;
use proto_istio::networking::service_entry::{Location, Resolution as Stated};
use proto_istio::networking::{ServicePort, WorkloadEntry, WorkloadSelector};
use store::{Reads, Snapshot};

use crate::item::Item;

/// What the names of such entries begin with.
const PREFIX: &str = "synthetic-";

/// An entry for each Service that the root namespace may see.
pub(crate) fn entries(cx: &Cx<'_, Snapshot>) -> Vec<Arc<Item>> {
    let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
    let services = cx.query(&VisibleTo(root));
    let of_kubernetes = services
        .iter()
        .filter(|service| service.registry == Registry::Kubernetes);
    of_kubernetes
        .filter_map(|service| {
            let key = ServiceKey {
                namespace: service.namespace.clone(),
                host: service.host.clone(),
            };
            (*cx.query(&Synthetic(key))).clone()
        })
        .collect()
}

/// The entry of one Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Synthetic(ServiceKey);

impl Query<Snapshot> for Synthetic {
    type Value = Option<Arc<Item>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let ServiceKey { namespace, host } = &self.0;
        let services = cx.query(&OfHost(host.clone()));
        let service = services.iter().find(|s| s.namespace == *namespace)?;
        let endpoints = cx.query(&EndpointsOf(self.0.clone()));
        Some(Arc::new(Item::new(&Resource {
            namespace: namespace.to_string(),
            name: format!("{PREFIX}{}", service.name),
            message: kinds::message(Kind::ServiceEntry)?.to_owned(),
            body: spec(cx, service, &endpoints).encode_to_vec().into(),
            ..Resource::default()
        })))
    }
}

fn spec(cx: &Cx<'_, Snapshot>, service: &Service, endpoints: &[Endpoint]) -> ServiceEntry {
    let (resolution, endpoints) = resolved(cx, service, endpoints);
    let addressing = Addressing {
        cluster: cx.settings().cluster.clone(),
        families: Families { v4: true, v6: true },
        auto_allocated: false,
        dual_stack: true,
    };
    let addresses = addressing.all(service);
    let has_workloads = service.kube.external_name.is_empty() && !service.selector.is_empty();
    let selects = endpoints.is_empty() && has_workloads;
    let selector = selects.then(|| WorkloadSelector {
        labels: pairs(&service.selector).collect(),
    });
    let ports = service.ports.iter().map(|port| ServicePort {
        number: port.number.into(),
        protocol: port.protocol.name().to_owned(),
        name: port.name.to_string(),
        ..ServicePort::default()
    });
    let location = match service.mesh_external {
        true => Location::MeshExternal,
        false => Location::MeshInternal,
    };
    ServiceEntry {
        hosts: vec![service.host.to_string()],
        addresses: addresses.iter().map(|a| a.to_string()).collect(),
        ports: ports.collect(),
        location: location.into(),
        resolution: resolution.into(),
        endpoints,
        export_to: match &service.export_to {
            Visibility::Public => Vec::new(),
            Visibility::Namespaces(list) => list.iter().map(|n| n.to_string()).collect(),
        },
        subject_alt_names: texts(&service.service_accounts),
        workload_selector: selector,
    }
}

/// How the addresses behind a service are found, and which they are.
fn resolved(
    cx: &Cx<'_, Snapshot>,
    service: &Service,
    endpoints: &[Endpoint],
) -> (Stated, Vec<WorkloadEntry>) {
    let external = &service.kube.external_name;
    if !external.is_empty() {
        let ports = service.ports.iter().map(|port| port.number);
        let is_allowed = machine::allows(&cx.settings().features, &service.namespace);
        if !is_allowed && machine::is_left_out(external, ports) {
            return (Stated::Static, Vec::new());
        }
        let target = WorkloadEntry {
            address: external.to_string(),
            ..WorkloadEntry::default()
        };
        return (Stated::Dns, vec![target]);
    }
    match service.resolution {
        Resolution::ClientSide => (Stated::Static, workloads(endpoints)),
        Resolution::Dns | Resolution::Alias => (Stated::Dns, workloads(endpoints)),
        Resolution::DnsRoundRobin => (Stated::DnsRoundRobin, workloads(endpoints)),
        Resolution::DynamicDns => (Stated::DynamicDns, Vec::new()),
        Resolution::Passthrough => (Stated::None, Vec::new()),
    }
}

/// The workloads that should get traffic, each once, with the ports at which they serve those of the service.
fn workloads(endpoints: &[Endpoint]) -> Vec<WorkloadEntry> {
    let mut found: BTreeMap<(&str, &str), WorkloadEntry> = BTreeMap::new();
    for endpoint in endpoints {
        let serves = matches!(endpoint.health, Health::Unknown | Health::Healthy);
        let Address::Socket { port, .. } = &endpoint.address else {
            continue;
        };
        if !serves || endpoint.cluster_local {
            continue;
        }
        let place = (endpoint.address.primary(), &*endpoint.network);
        let workload = found.entry(place).or_insert_with(|| workload(endpoint));
        let name = endpoint.port_name.to_string();
        workload.ports.insert(name, (*port).into());
    }
    found.into_values().collect()
}

fn workload(endpoint: &Endpoint) -> WorkloadEntry {
    let account = endpoint.service_account.parse::<SpiffeId>();
    WorkloadEntry {
        address: endpoint.address.primary().to_owned(),
        ports: BTreeMap::new(),
        labels: pairs(&endpoint.labels).collect(),
        network: endpoint.network.to_string(),
        locality: endpoint.locality.to_string(),
        weight: endpoint.weight,
        service_account: account.map_or_else(
            |_| String::new(),
            |account| account.service_account.to_string(),
        ),
    }
}

fn pairs(labels: &model::labels::Labels) -> impl Iterator<Item = (String, String)> + '_ {
    labels.iter().map(|(k, v)| (k.to_string(), v.to_string()))
}

fn texts(list: &[Arc<str>]) -> Vec<String> {
    list.iter().map(|text| text.to_string()).collect()
}
