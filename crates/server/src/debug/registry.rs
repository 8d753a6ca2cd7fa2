//! Services, endpoints and objects as debug pages show them.

use std::collections::BTreeMap;

use convert::status::Status;
use mesh::services::EndpointsOf;
use model::change::ServiceKey;
use model::service::{
    Address, Endpoint, Health, Resolution, Service, TrafficDistribution, Visibility,
};
use model::{Derived, Diagnostic, Kind, Severity, template};
use registries::service::{NAME_LABEL, TYPE_LABEL};
use serde_json::{Value, json};
use store::Snapshot;

use super::{proxy_name, services as all_services, timestamp};
use crate::analysis::Analyst;
use crate::derive::{FindingRow, State};
use crate::writing;

/// `/debug/registryz`.
pub(super) fn services(state: &State) -> Value {
    all_services(state).iter().map(|s| service(s)).collect()
}

fn service(s: &Service) -> Value {
    let addresses: BTreeMap<&str, Vec<&str>> = s
        .cluster_vips
        .iter()
        .map(|(cluster, list)| (cluster.as_str(), list.iter().map(|a| &**a).collect()))
        .collect();
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
        },
        "ports": s.ports.iter().map(|p| json!({
            "name": &*p.name, "port": p.number, "protocol": p.protocol.to_string(),
        })).collect::<Vec<_>>(),
        "creationTime": timestamp(s.created.time().unwrap_or_default().0),
        "hostname": &*s.host,
        "clusterVIPs": { "Addresses": addresses },
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

/// `/debug/endpointShardz`.
pub(super) fn endpoints(state: &State) -> Value {
    let mut hosts: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for s in all_services(state) {
        let key = ServiceKey {
            namespace: s.namespace.clone(),
            host: s.host.clone(),
        };
        let list = state.get(&EndpointsOf(key));
        let mut shards: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut accounts: BTreeMap<&str, Value> = BTreeMap::new();
        let provider = match s.registry {
            model::service::Registry::Kubernetes => "Kubernetes",
            model::service::Registry::External => "External",
        };
        for e in list.iter() {
            shards
                .entry(format!("{provider}/{}", e.cluster))
                .or_default()
                .push(endpoint(e));
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

fn endpoint(e: &Endpoint) -> Value {
    let (addresses, port): (Vec<&str>, u16) = match &e.address {
        Address::Socket { hosts, port } => (hosts.iter().map(|h| &**h).collect(), *port),
        Address::Unix(path) => (vec![path], 0),
    };
    let labels: BTreeMap<&str, &str> = e.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    json!({
        "Labels": labels,
        "Addresses": addresses,
        "ServicePortName": &*e.port_name,
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
        "NodeName": &*e.node,
    })
}

/// `/debug/configz`: objects in force, all or those of a kind. Secrets are told by name only.
pub(super) fn objects(state: &State, kind: Option<&str>) -> Vec<Value> {
    let snapshot = state.store().snapshot();
    Kind::ALL
        .iter()
        .filter(|of| kind.is_none_or(|kind| of.name() == kind))
        .flat_map(|kind| snapshot.tables.iter_any(*kind))
        .map(|object| {
            let meta = object.meta();
            let map = |labels: &model::Labels| -> BTreeMap<String, String> {
                labels
                    .iter()
                    .map(|(k, v)| (k.to_string(), template::written(v).into_owned()))
                    .collect()
            };
            let mut metadata = json!({
                "name": &*meta.name.name,
                "namespace": &*meta.name.namespace,
                "labels": map(&meta.labels),
                "annotations": annotations(object.key().kind, map(&meta.annotations)),
            });
            if let Some(created) = meta.created.time() {
                metadata["creationTimestamp"] = timestamp(created.0).into();
            }
            let mut shown = json!({
                "kind": object.key().kind.name(),
                "apiVersion": object.key().kind.api_version(),
                "metadata": metadata,
                "spec": object.spec_json(),
                "origin": meta.origin.to_string(),
            });
            if let Some(cluster) = &meta.name.cluster {
                shown["cluster"] = cluster.as_str().into();
            }
            if let Some(made) = &meta.derived {
                shown["derived"] = derived(made, &snapshot);
            }
            shown
        })
        .collect()
}

/// Annotations as they are shown. kubectl keeps objects as they were applied in one, and so all that a Secret holds: of
/// Secrets, names alone are shown, and that one of no object.
fn annotations(kind: Kind, mut all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    all.remove("kubectl.kubernetes.io/last-applied-configuration");
    if kind == Kind::Secret {
        for value in all.values_mut() {
            *value = format!("({} bytes, redacted)", value.len());
        }
    }
    all
}

/// What an object was derived from.
fn derived(made: &Derived, snapshot: &Snapshot) -> Value {
    let from = made.from.iter().map(|key| {
        let mut shown = json!({
            "kind": key.kind.name(),
            "name": &*key.name.name,
            "namespace": &*key.name.namespace,
            "at": snapshot.place_of(key).map(|at| at.to_string()),
        });
        if let Some(cluster) = &key.name.cluster {
            shown["cluster"] = cluster.as_str().into();
        }
        shown
    });
    json!({ "by": made.by, "from": from.collect::<Vec<_>>() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_a_secret_do_not_tell_what_it_holds() {
        let all = || {
            let pairs = [
                (
                    "kubectl.kubernetes.io/last-applied-configuration",
                    "{data: secret}",
                ),
                ("note", "secret"),
            ];
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        };
        let shown = annotations(Kind::Secret, all());
        assert_eq!(shown["note"], "(6 bytes, redacted)");
        assert_eq!(shown.len(), 1);
        let shown = annotations(Kind::ConfigMap, all());
        assert_eq!((shown.len(), shown["note"].as_str()), (1, "secret"));
    }
}
