//! Reading what a proxy says of itself in its first request.
//!
//! Istio: pilot/pkg/model/context.go ParseServiceNodeWithMetadata and pilot/pkg/xds/ads.go initProxyMetadata, 1.32.

use std::net::IpAddr;
use std::sync::Arc;

use model::labels::Labels;
use model::names::{ClusterId, Namespace, Network};
use model::node::{Interception, IstioVersion, Node, Role};
use model::service::Locality;
use prost_types::value::Kind as ValueKind;
use proto_envoy::envoy::config::core::v3 as core;
use serde_json::{Map, Value};

/// Reads a node: its id is `role~ip~name.namespace~dns-domain`, the rest is metadata.
///
/// # Errors
///
/// What is wrong with the id, in a sentence for the person who configured the proxy.
pub fn from_envoy(node: &core::Node) -> Result<Node, String> {
    let mut parts = node.id.split('~');
    let (Some(role), Some(ip), Some(instance), Some(domain), None) = (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    ) else {
        return Err(format!(
            "node id {:?} does not have the form role~ip~name.namespace~dns-domain",
            node.id
        ));
    };
    let role = match role {
        "sidecar" => Role::Sidecar,
        "router" => Role::Router,
        "waypoint" => Role::Waypoint,
        "ztunnel" => Role::Ztunnel,
        other => {
            return Err(format!(
                "node id {:?}: role {other:?} is none of sidecar, router, waypoint, ztunnel",
                node.id
            ));
        }
    };
    let metadata: Map<String, Value> = node
        .metadata
        .as_ref()
        .map(struct_to_json)
        .unwrap_or_default();
    let text = |key: &str| {
        metadata
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };

    let mut addresses: Vec<IpAddr> = text("INSTANCE_IPS")
        .split(',')
        .filter_map(|a| a.trim().parse().ok())
        .collect();
    if addresses.is_empty() {
        addresses.extend(ip.parse::<IpAddr>().ok());
    }
    if addresses.is_empty() {
        return Err(format!(
            "node id {:?}: {ip:?} is no IP address and INSTANCE_IPS has none",
            node.id
        ));
    }
    let namespace = match text("NAMESPACE") {
        "" => instance
            .split_once('.')
            .map_or("", |(_, namespace)| namespace),
        stated => stated,
    };
    let labels: Labels = metadata
        .get("LABELS")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
        .collect();
    let locality = node.locality.as_ref().map(|l| Locality {
        region: l.region.as_str().into(),
        zone: l.zone.as_str().into(),
        subzone: l.sub_zone.as_str().into(),
    });
    // Istio's own proxies lack nothing that is sent to them; others say what they have.
    let version = istio_version(text("ISTIO_VERSION"));
    let extensions = (!text_is_set(&metadata, "ISTIO_VERSION") && !node.extensions.is_empty())
        .then(|| {
            Arc::new(
                node.extensions
                    .iter()
                    .map(|e| Arc::from(e.name.as_str()))
                    .collect(),
            )
        });

    Ok(Node {
        id: node.id.as_str().into(),
        role,
        name: instance
            .split_once('.')
            .map_or(instance, |(name, _)| name)
            .into(),
        namespace: Namespace::new(namespace),
        dns_domain: domain.into(),
        addresses: addresses.into(),
        labels,
        locality: locality.unwrap_or_default(),
        network: Network::new(text("NETWORK")),
        cluster: ClusterId::new(text("CLUSTER_ID")),
        version,
        extensions,
        envoy_version: envoy_version(node),
        metadata: Arc::new(metadata),
    })
}

/// How traffic reaches the proxy, as its metadata says.
pub fn interception(node: &Node) -> Interception {
    match node
        .metadata
        .get("INTERCEPTION_MODE")
        .and_then(Value::as_str)
    {
        Some("NONE") => Interception::None,
        Some("TPROXY") => Interception::Tproxy,
        _ => Interception::Redirect,
    }
}

fn text_is_set(metadata: &Map<String, Value>, key: &str) -> bool {
    metadata
        .get(key)
        .and_then(Value::as_str)
        .is_some_and(|t| !t.is_empty())
}

/// Reads `1.32.0`, `1.32-alpha.abc`, `1.32`; anything else counts as the newest.
fn istio_version(text: &str) -> Option<IstioVersion> {
    let mut numbers = text.split(['.', '-']).map(|part| part.parse::<u16>().ok());
    Some(IstioVersion {
        major: numbers.next()??,
        minor: numbers.next()??,
        patch: numbers.next().flatten().unwrap_or(0),
    })
}

fn envoy_version(node: &core::Node) -> Option<(u32, u32, u32)> {
    match node.user_agent_version_type.as_ref()? {
        core::node::UserAgentVersionType::UserAgentBuildVersion(build) => build
            .version
            .as_ref()
            .map(|v| (v.major_number, v.minor_number, v.patch)),
        core::node::UserAgentVersionType::UserAgentVersion(_) => None,
    }
}

fn struct_to_json(fields: &prost_types::Struct) -> Map<String, Value> {
    fields
        .fields
        .iter()
        .map(|(k, v)| (k.clone(), value_to_json(v)))
        .collect()
}

fn value_to_json(value: &prost_types::Value) -> Value {
    match &value.kind {
        Some(ValueKind::BoolValue(b)) => (*b).into(),
        #[allow(clippy::cast_possible_truncation)] // Only where nothing is truncated.
        Some(ValueKind::NumberValue(n)) if n.fract() == 0.0 && n.abs() < 9e15 => (*n as i64).into(),
        Some(ValueKind::NumberValue(n)) => (*n).into(),
        Some(ValueKind::StringValue(s)) => s.as_str().into(),
        Some(ValueKind::ListValue(list)) => list.values.iter().map(value_to_json).collect(),
        Some(ValueKind::StructValue(fields)) => struct_to_json(fields).into(),
        Some(ValueKind::NullValue(_)) | None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str) -> core::Node {
        core::Node {
            id: id.into(),
            ..core::Node::default()
        }
    }

    #[test]
    fn an_id_alone_is_enough() {
        let node = from_envoy(&node("sidecar~10.1.1.1~web-0.shop~shop.svc.cluster.local")).unwrap();
        assert_eq!(node.role, Role::Sidecar);
        assert_eq!(node.namespace, "shop");
        assert_eq!(&*node.name, "web-0");
        assert_eq!(node.addresses[0].to_string(), "10.1.1.1");
        assert_eq!(node.extensions, None);
    }

    #[test]
    fn an_id_of_another_form_is_refused_with_the_reason() {
        assert!(
            from_envoy(&node("web"))
                .unwrap_err()
                .contains("role~ip~name.namespace~dns-domain")
        );
        assert!(
            from_envoy(&node("cat~1.1.1.1~a.b~c"))
                .unwrap_err()
                .contains("\"cat\"")
        );
        assert!(
            from_envoy(&node("sidecar~here~a.b~c"))
                .unwrap_err()
                .contains("no IP address")
        );
    }

    #[test]
    fn versions_are_read_with_and_without_a_patch() {
        let version = |major, minor, patch| {
            Some(IstioVersion {
                major,
                minor,
                patch,
            })
        };
        assert_eq!(istio_version("1.31.2"), version(1, 31, 2));
        assert_eq!(istio_version("1.32-alpha.0"), version(1, 32, 0));
        assert_eq!(istio_version("master"), None);
    }
}
