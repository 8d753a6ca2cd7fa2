//! The metadata under `istio` that telemetry, ALPN and people read from clusters.

use model::Kind;
use model::object::ObjectName;
use model::service::Service;
use prost_types::value::Kind as Value;
use prost_types::{ListValue, Struct};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::core::v3::Metadata;

const ISTIO: &str = "istio";

pub(super) fn text(value: impl Into<String>) -> prost_types::Value {
    prost_types::Value {
        kind: Some(Value::StringValue(value.into())),
    }
}

pub(super) fn truth() -> prost_types::Value {
    prost_types::Value {
        kind: Some(Value::BoolValue(true)),
    }
}

/// Sets a field of the cluster's Istio metadata.
pub(super) fn set(cluster: &mut Cluster, key: &str, value: prost_types::Value) {
    cluster
        .metadata
        .get_or_insert_with(Metadata::default)
        .filter_metadata
        .entry(ISTIO.to_owned())
        .or_default()
        .fields
        .insert(key.to_owned(), value);
}

/// Names the services behind the cluster.
pub(super) fn set_services<'a>(cluster: &mut Cluster, services: impl Iterator<Item = &'a Service>) {
    let values = services
        .map(|service| {
            let fields = [
                ("host", &*service.host),
                ("name", &*service.name),
                ("namespace", &*service.namespace),
            ];
            let fields = fields.map(|(k, v)| (k.to_owned(), text(v)));
            prost_types::Value {
                kind: Some(Value::StructValue(Struct {
                    fields: fields.into(),
                })),
            }
        })
        .collect();
    let list = prost_types::Value {
        kind: Some(Value::ListValue(ListValue { values })),
    };
    set(cluster, "services", list);
}

/// Names the rule that shaped the cluster.
pub(super) fn set_rule(cluster: &mut Cluster, rule: &ObjectName) {
    set(cluster, "config", text(rule_path(rule)));
}

/// The path of a rule in the API of Kubernetes.
fn rule_path(rule: &ObjectName) -> String {
    let ObjectName {
        namespace, name, ..
    } = rule;
    let api = Kind::DestinationRule.api_version();
    format!("/apis/{api}/namespaces/{namespace}/destination-rule/{name}")
}
