//! Reading what a proxy says of itself in its first request.
//!
//! Istio: pilot/pkg/model/context.go ParseServiceNodeWithMetadata and pkg/model/proxy.go, 1.32.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use model::Labels;
use model::node::{IstioVersion, Node, Role};
use model::outside::{Outside, Texts};
use model::service::Locality;
use prost_types::value::Kind;
use proto_envoy::envoy::config::core::v3 as core;
use proto_envoy::envoy::config::core::v3::node::UserAgentVersionType;
use serde_json::{Map, Number, Value};

/// Values that metadata may have, at all depths. A proxy of Istio states some two hundred.
const VALUES: usize = 4096;

/// Maps and lists within each other that metadata may have. A proxy of Istio has six.
const DEPTH: usize = 16;

/// What is shown of an id.
const SHOWN: usize = 100;

/// Reads what a proxy says of itself.
///
/// Where the metadata states no namespace it is the first part of the DNS domain. Extensions count only for proxies
/// that state no Istio version: Istio's own proxy has what Istio sends.
///
/// # Errors
///
/// A sentence for the proxy's operator, when the id is not of the form `role~ip~name.namespace~dns-domain`, when neither
/// it nor the metadata holds an IP address, or when the metadata has more than 4,096 values or more than 16 levels.
pub fn from_envoy(node: &core::Node) -> Result<Node, String> {
    let node = &Outside::new(Stated(node.clone())).into_inner().0;
    let mut left = VALUES;
    let metadata = match &node.metadata {
        Some(fields) => object(fields, DEPTH, &mut left)?,
        None => Map::new(),
    };
    let id = &node.id[..node.id.floor_char_boundary(SHOWN)];
    let parts: Vec<&str> = node.id.split('~').collect();
    let [role, address, name, dns_domain] = parts[..] else {
        return Err(format!(
            "the node id {id:?} is not of the form role~ip~name.namespace~dns-domain"
        ));
    };
    let role = Role::parse(role).ok_or_else(|| {
        let shown = &role[..role.floor_char_boundary(SHOWN)];
        format!("the node id {id:?} names no role: {shown:?}")
    })?;
    let addresses = match addresses(&metadata) {
        Some(stated) => stated,
        None => vec![address.parse().map_err(|_| {
            format!("neither the node id {id:?} nor INSTANCE_IPS holds an IP address")
        })?],
    };
    let text = |key: &str| {
        metadata
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let namespace = match text("NAMESPACE") {
        "" => match dns_domain.split_once('.') {
            Some((namespace, _)) => namespace,
            None => "",
        },
        stated => stated,
    };
    let labels = match metadata.get("LABELS") {
        Some(Value::Object(labels)) => labels
            .iter()
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
            .collect(),
        _ => Labels::default(),
    };
    let version = istio_version(text("ISTIO_VERSION"));
    let istio = !text("ISTIO_VERSION").is_empty();
    let locality = node.locality.as_ref().map(|l| Locality {
        region: l.region.as_str().into(),
        zone: l.zone.as_str().into(),
        subzone: l.sub_zone.as_str().into(),
    });
    Ok(Node {
        id: node.id.as_str().into(),
        role,
        name: name.split('.').next().unwrap_or(name).into(),
        namespace: namespace.into(),
        dns_domain: dns_domain.into(),
        addresses: addresses.into(),
        labels,
        locality: locality.unwrap_or_default(),
        network: text("NETWORK").into(),
        cluster: text("CLUSTER_ID").into(),
        service_cluster: node.cluster.as_str().into(),
        version,
        extensions: if istio { None } else { extensions(node) },
        identity: None,
        envoy_version: envoy_version(node),
        metadata: Arc::new(metadata),
    })
}

/// What a proxy states, whose texts its operator chose.
struct Stated(core::Node);

impl Texts for Stated {
    fn edit(&mut self, new: &dyn Fn(&str) -> Option<String>) {
        let node = &mut self.0;
        node.id.edit(new);
        node.cluster.edit(new);
        if let Some(locality) = &mut node.locality {
            let core::Locality {
                region,
                zone,
                sub_zone,
            } = locality;
            for text in [region, zone, sub_zone] {
                text.edit(new);
            }
        }
        for extension in &mut node.extensions {
            extension.name.edit(new);
        }
        if let Some(fields) = &mut node.metadata {
            edit_fields(fields, DEPTH, new);
        }
    }
}

/// Edits what [`object`] reads: what lies deeper is refused there.
fn edit_fields(
    fields: &mut prost_types::Struct,
    depth: usize,
    new: &dyn Fn(&str) -> Option<String>,
) {
    if fields.fields.keys().any(|name| new(name).is_some()) {
        let named = std::mem::take(&mut fields.fields).into_iter();
        let cleaned = named.map(|(mut name, value)| {
            name.edit(new);
            (name, value)
        });
        fields.fields = cleaned.collect();
    }
    for value in fields.fields.values_mut() {
        edit_value(value, depth, new);
    }
}

fn edit_value(value: &mut prost_types::Value, depth: usize, new: &dyn Fn(&str) -> Option<String>) {
    let below = depth.checked_sub(1);
    match (&mut value.kind, below) {
        (Some(Kind::StringValue(text)), _) => text.edit(new),
        (Some(Kind::StructValue(fields)), Some(below)) => edit_fields(fields, below, new),
        (Some(Kind::ListValue(list)), Some(below)) => {
            let values = list.values.iter_mut();
            values.for_each(|value| edit_value(value, below, new));
        }
        _ => {}
    }
}

/// `INSTANCE_IPS`, a list with commas; `None` where it is empty or holds anything but IP addresses.
fn addresses(metadata: &Map<String, Value>) -> Option<Vec<IpAddr>> {
    let stated = metadata.get("INSTANCE_IPS")?.as_str()?;
    stated.split(',').map(|ip| ip.parse().ok()).collect()
}

/// `1.31.0`, with anything before (`release-`) and behind; a missing patch counts as the newest.
fn istio_version(text: &str) -> Option<IstioVersion> {
    let text = text.strip_prefix("release-").unwrap_or(text);
    // A part with anything behind its digits is the last one: the patch of `1.32-alpha.0` is not stated.
    let (major, rest) = leading_number(text)?;
    let (minor, rest) = leading_number(rest.strip_prefix('.')?)?;
    let patch = rest.strip_prefix('.').and_then(leading_number);
    if major == 0 {
        return None;
    }
    Some(IstioVersion {
        major,
        minor,
        patch: patch.map_or(u16::MAX, |(patch, _)| patch),
    })
}

/// The number a text starts with, and what follows it.
fn leading_number(text: &str) -> Option<(u16, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, rest))
}

fn extensions(node: &core::Node) -> Option<Arc<BTreeSet<Arc<str>>>> {
    if node.extensions.is_empty() {
        return None;
    }
    let enabled = node.extensions.iter().filter(|e| !e.disabled);
    let names = enabled.map(|e| Arc::from(e.name.as_str())).collect();
    Some(Arc::new(names))
}

fn envoy_version(node: &core::Node) -> Option<(u32, u32, u32)> {
    match node.user_agent_version_type.as_ref()? {
        UserAgentVersionType::UserAgentBuildVersion(build) => {
            let version = build.version.as_ref()?;
            Some((version.major_number, version.minor_number, version.patch))
        }
        UserAgentVersionType::UserAgentVersion(text) => {
            let mut parts = text.split(['.', '-']).map(|part| part.parse().ok());
            Some((parts.next()??, parts.next()??, parts.next()??))
        }
    }
}

/// The fields as JSON. `depth`: levels that may be below; `left`: values that there may still be.
fn object(
    fields: &prost_types::Struct,
    depth: usize,
    left: &mut usize,
) -> Result<Map<String, Value>, String> {
    let pairs = fields.fields.iter();
    pairs
        .map(|(k, v)| Ok((k.clone(), json(v, depth, left)?)))
        .collect()
}

fn json(value: &prost_types::Value, depth: usize, left: &mut usize) -> Result<Value, String> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| format!("the metadata of the node has more than {VALUES} values"))?;
    let below = || {
        let below = depth.checked_sub(1);
        below.ok_or_else(|| format!("the metadata of the node has more than {DEPTH} levels"))
    };
    Ok(match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(*value),
        Some(Kind::NumberValue(value)) => number(*value),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::StructValue(fields)) => Value::Object(object(fields, below()?, left)?),
        Some(Kind::ListValue(list)) => {
            let depth = below()?;
            let items = list.values.iter().map(|item| json(item, depth, left));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
    })
}

/// Whole numbers as such: metadata holds ports and the like.
fn number(value: f64) -> Value {
    let whole = value as i64;
    if whole as f64 == value {
        return Value::Number(whole.into());
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
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
                .contains("an IP address")
        );
    }

    #[test]
    fn metadata_is_bounded_in_values_and_depth() {
        let of = |value: prost_types::Value| {
            let metadata = prost_types::Struct {
                fields: [("K".to_owned(), value)].into(),
            };
            let id = "sidecar~10.1.1.1~a.b~c";
            from_envoy(&core::Node {
                metadata: Some(metadata),
                ..node(id)
            })
        };
        let list = |values| prost_types::Value {
            kind: Some(Kind::ListValue(prost_types::ListValue { values })),
        };
        let many = |count| list(vec![prost_types::Value { kind: None }; count]);
        assert!(of(many(VALUES - 1)).is_ok());
        assert!(of(many(VALUES)).unwrap_err().contains("4096 values"));
        let deep = |levels| (0..levels).fold(list(vec![]), |inner, _| list(vec![inner]));
        assert!(of(deep(DEPTH - 1)).is_ok());
        assert!(of(deep(DEPTH)).unwrap_err().contains("16 levels"));
    }

    #[test]
    fn a_long_id_is_shown_in_part() {
        let error = from_envoy(&node(&"x".repeat(60_000))).unwrap_err();
        assert!(error.len() < 300, "{error}");
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
        assert_eq!(istio_version("1.32-alpha.0"), version(1, 32, u16::MAX));
        assert_eq!(istio_version("master"), None);
    }
}
