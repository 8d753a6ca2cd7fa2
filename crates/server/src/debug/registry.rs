//! Services and endpoints as debug pages show them, and what was found wrong with objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use convert::status::Status;
use mesh::network_gateways::{NetworkGateway, NetworkGateways};
use mesh::services::EndpointsOf;
use model::change::ServiceKey;
use model::civil::timestamp;
use model::service::{
    Address, Endpoint, Health, PerCluster, Resolution, Service, TrafficDistribution, Visibility,
};
use model::{AnyObject, Diagnostic, Severity};
use registries::service::{NAME_LABEL, TYPE_LABEL};
use serde_json::{Map, Value, json};
use store::Snapshot;

use super::{proxy_name, services as all_services};
use crate::analysis::Analyst;
use crate::derive::{FindingRow, State};
use crate::writing;

/// `/debug/registryz`.
pub(super) fn services(state: &State) -> Value {
    let snapshot = state.store().snapshot();
    let with_version = |s: &Arc<Service>| {
        let object = snapshot.tables.get_any(s.object.kind, &s.object.name);
        let mut shown = service(s);
        shown["ResourceVersion"] = object.map_or_else(String::new, version).into();
        shown
    };
    all_services(state).iter().map(with_version).collect()
}

/// The version that the API of an object gave it.
fn version(object: AnyObject) -> String {
    object.meta().resource_version.to_string()
}

/// Values by cluster.
fn per_cluster<T>(all: &PerCluster<T>, shown: impl Fn(&[T]) -> Value) -> Map<String, Value> {
    let of_each = all.iter();
    of_each
        .map(|(cluster, list)| (cluster.as_str().to_owned(), shown(list)))
        .collect()
}

/// Ports under the ports that lead to them.
fn ports(pairs: &[(u16, u16)]) -> Value {
    let pairs = pairs.iter();
    pairs
        .map(|(port, other)| (port.to_string(), Value::from(*other)))
        .collect()
}

/// A service, as istiod names the fields.
pub(super) fn service(s: &Service) -> Value {
    let addresses =
        |list: &[Arc<str>]| -> Value { list.iter().map(|a| Value::from(&**a)).collect() };
    let export_to: Option<Vec<&str>> = match &s.export_to {
        Visibility::Public => None,
        Visibility::Namespaces(list) => Some(list.iter().map(|n| n.as_str()).collect()),
    };
    let labels = |labels: &model::Labels| -> Value {
        labels
            .iter()
            .map(|(k, v)| (k.to_string(), Value::from(&**v)))
            .collect()
    };
    json!({
        "Attributes": {
            "ServiceRegistry": match s.registry {
                model::service::Registry::Kubernetes => "Kubernetes",
                model::service::Registry::External => "External",
            },
            "Name": &*s.name,
            "Namespace": &*s.namespace,
            "Labels": labels(&s.labels),
            "ExportTo": export_to,
            "LabelSelectors": labels(&s.selector),
            "Type": &*s.kube.service_type,
            "ExternalName": &*s.kube.external_name,
            "NodeLocal": s.kube.node_local,
            "TrafficDistribution": match s.kube.traffic_distribution {
                TrafficDistribution::Any => 0,
                TrafficDistribution::PreferSameZone => 1,
                TrafficDistribution::PreferSameNode => 2,
                TrafficDistribution::PreferSameNetwork => 3,
            },
            "ObjectName": &*s.object.name.name,
            "PublishNotReadyAddresses": s.kube.publish_not_ready,
            "Aliases": s.aliases.iter().map(|alias| json!({
                "Namespace": &*alias.namespace, "Hostname": &*alias.host,
            })).collect::<Vec<_>>(),
            "ClusterExternalAddresses": {
                "Addresses": per_cluster(&s.kube.external_addresses, addresses),
            },
            "ClusterExternalPorts": per_cluster(&s.kube.external_ports, ports),
            "PassthroughTargetPorts": ports(&s.passthrough_ports),
            "DNSConnectStrategy": u8::from(s.race_first_connect),
        },
        "ports": s.ports.iter().map(|p| json!({
            "name": &*p.name, "port": p.number, "protocol": p.protocol.to_string(),
        })).collect::<Vec<_>>(),
        "creationTime": timestamp(s.created.time().unwrap_or_default().0),
        "hostname": &*s.host,
        "clusterVIPs": { "Addresses": per_cluster(&s.cluster_vips, addresses) },
        "defaultAddress": &*s.default_address,
        "Resolution": match s.resolution {
            Resolution::ClientSide => 0,
            Resolution::Dns => 1,
            Resolution::Passthrough => 2,
            Resolution::DnsRoundRobin => 3,
            Resolution::Alias => 4,
            Resolution::DynamicDns => 5,
        },
        "MeshExternal": s.mesh_external,
    })
}

/// `/debug/networkz`, as istiod names the fields.
pub(super) fn networks(state: &State) -> Value {
    let gateways = state.get(&NetworkGateways);
    gateways.named.iter().map(network_gateway).collect()
}

/// The same by network.
pub(super) fn gateways_by_network(state: &State) -> Value {
    let mut networks: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for gateway in &state.get(&NetworkGateways).named {
        let of_network = networks.entry(gateway.network.to_string()).or_default();
        of_network.push(network_gateway(gateway));
    }
    json!(networks)
}

/// A gateway between networks.
fn network_gateway(g: &NetworkGateway) -> Value {
    json!({
        "Network": &*g.network, "Cluster": g.cluster.as_str(), "Addr": &*g.address, "Port": g.port,
    })
}

/// `/debug/endpointShardz`.
pub(super) fn endpoints(state: &State) -> Value {
    let mut hosts: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    let settings = state.store().snapshot().settings.clone();
    for s in all_services(state) {
        let key = ServiceKey {
            namespace: s.namespace.clone(),
            host: s.host.clone(),
        };
        let list = state.get(&EndpointsOf(key));
        let mut shards: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut accounts: BTreeMap<&str, Value> = BTreeMap::new();
        let sends_unhealthy = xlate::always_sends_unhealthy(&settings, &s);
        let provider = match s.registry {
            model::service::Registry::Kubernetes => "Kubernetes",
            model::service::Registry::External => "External",
        };
        for e in list.iter() {
            shards
                .entry(format!("{provider}/{}", e.cluster))
                .or_default()
                .push(endpoint(e, sends_unhealthy));
            if !e.service_account.is_empty() {
                accounts.insert(&e.service_account, json!({}));
            }
        }
        let mut shown = json!({ "Shards": shards, "ServiceAccounts": accounts });
        let of = |label| s.labels.get(label).filter(|value| !value.is_empty());
        if let (Some(kind), Some(name)) = (of(TYPE_LABEL), of(NAME_LABEL)) {
            shown["Registry"] = format!("{kind}/{name}").into();
        }
        let host = hosts.entry(s.host.to_string()).or_default();
        host.insert(s.namespace.to_string(), shown);
    }
    json!(hosts)
}

fn endpoint(e: &Endpoint, sends_unhealthy: bool) -> Value {
    let (addresses, port): (Vec<&str>, u16) = match &e.address {
        Address::Socket { hosts, port } => (hosts.iter().map(|h| &**h).collect(), *port),
        Address::Unix(path) => (vec![path], 0),
    };
    let labels: BTreeMap<&str, &str> = e.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    json!({
        "Labels": labels,
        "Addresses": addresses,
        "ServicePortName": &*e.port_name,
        "LegacyClusterPortKey": e.service_port,
        "ServiceAccount": &*e.service_account,
        "Network": &*e.network,
        "Locality": { "Label": e.locality.to_string(), "ClusterID": &*e.cluster },
        "EndpointPort": port,
        "LbWeight": e.weight,
        "TLSMode": if e.mutual_tls { "istio" } else { "disabled" },
        "Namespace": &*e.namespace,
        "WorkloadName": &*e.workload,
        "HostName": &*e.hostname,
        "SubDomain": &*e.subdomain,
        "HealthStatus": match e.health {
            Health::Unknown | Health::Healthy => 0,
            Health::Unhealthy => 1,
            Health::Draining => 2,
            Health::Terminating => 3,
        },
        "SendUnhealthyEndpoints": sends_unhealthy,
        "NodeName": &*e.node,
    })
}

/// `/debug/status`: objects with the status that they get, as kubectl lists them.
pub(super) fn statuses(snapshot: &Snapshot, derived: Vec<Status>) -> Value {
    convert::status::list(&writing::wanted::documents(snapshot, derived))
}

/// `/debug/configz?findings`: what was found when objects were read, then what generation found.
pub(super) fn findings(read: &[Diagnostic], generated: &[FindingRow]) -> Value {
    let of_proxies = generated.iter().map(|row| {
        let mut shown = finding(&row.finding);
        shown["proxies"] = row.proxies.iter().map(|n| proxy_name(n)).collect();
        shown
    });
    read.iter().map(finding).chain(of_proxies).collect()
}

fn finding(d: &Diagnostic) -> Value {
    let mut shown = json!({
        "code": d.code,
        "level": match d.severity {
            Severity::Info => "Info",
            Severity::Warning => "Warning",
            Severity::Error => "Error",
        },
        "object": d.object.as_ref().map(ToString::to_string),
        "origin": d.origin.as_ref().map(ToString::to_string),
        "path": &*d.path,
        "message": &*d.message,
        "help": d.help.as_deref(),
    });
    if let Some(key) = &d.object {
        shown["group"] = key.kind.group().into();
        shown["kind"] = key.kind.name().into();
        shown["namespace"] = (&*key.name.namespace).into();
        shown["name"] = (&*key.name.name).into();
    }
    shown
}

/// `/debug/analysis`: what is found between objects at the revision named, the worst first.
pub(super) fn analysis(analyst: &Analyst) -> Value {
    let (analyzed, current) = analyst.latest();
    let findings: Vec<Value> = analyzed
        .current()
        .map(|f| {
            let mut shown = finding(&f.diagnostic);
            shown["analyzer"] = f.analyzer.into();
            shown
        })
        .collect();
    json!({
        "revision": analyzed.revision,
        "current": current,
        "milliseconds": analyzed.took.as_secs_f64() * 1e3,
        "evaluations": analyzed.runs,
        "findings": findings,
    })
}
