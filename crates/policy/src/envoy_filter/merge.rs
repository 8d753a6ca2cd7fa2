//! Laying one message over another: single fields are set, messages merged, entries of maps replaced.
//!
//! Istio: pkg/proto/merge/merge.go, pilot/pkg/networking/util/util.go MergeAnyWithAny, 1.32.

use prost::{Message, Name};
use prost_reflect::{DynamicMessage, ReflectMessage, Value};
use prost_types::Any;

use descriptors::pool;

/// What happens to lists that both have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lists {
    /// The patch's elements follow those that are there.
    Append,
    /// The patch's list takes the place of the one that is there.
    Replace,
}

/// Why two configurations cannot be merged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoMerge {
    /// They are of two types.
    #[error("the patch is a {patch}, and what it should be merged into is a {target}")]
    Types {
        /// Of the patch.
        patch: String,
        /// Of what is there.
        target: String,
    },
    /// One of them cannot be read.
    #[error("a configuration of type {0} cannot be read")]
    Unreadable(String),
    /// Others know it by its name.
    #[error("routes and endpoints know it by its name")]
    Renamed,
    /// There is nothing to merge into: the filter asks for its configuration by name.
    #[error("its configuration does not stand in the listener")]
    Elsewhere,
}

/// Lays `patch` over `target`.
pub(super) fn merge<M>(target: &mut M, patch: &M, lists: Lists)
where
    M: Message + Name + Default,
{
    let descriptor = pool()
        .get_message_by_name(&M::full_name())
        .expect("the pool holds every message that has a Rust type");
    let dynamic = |message: &M| {
        let bytes = message.encode_to_vec();
        DynamicMessage::decode(descriptor.clone(), bytes.as_slice())
    };
    // What we encode we can decode: an error cannot happen, and would leave the target as it is.
    if let (Ok(mut merged), Ok(patch)) = (dynamic(target), dynamic(patch)) {
        merge_message(&mut merged, &patch, lists);
        if let Ok(message) = M::decode(merged.encode_to_vec().as_slice()) {
            *target = message;
        }
    }
}

/// Lays a filter over another: its configuration, if both have one, and its name, if it has one.
pub(super) fn merge_filter(
    (name, config): (&mut String, Option<&mut Any>),
    (new_name, patch): (&str, Option<&Any>),
) -> Result<(), NoMerge> {
    let config = config.ok_or(NoMerge::Elsewhere)?;
    let merged = patch.map_or(Ok(()), |patch| merge_any(config, patch));
    if !new_name.is_empty() {
        new_name.clone_into(name);
    }
    merged
}

/// Lays one configuration over another of the same type.
pub(super) fn merge_any(target: &mut Any, patch: &Any) -> Result<(), NoMerge> {
    if type_name(target) != type_name(patch) {
        return Err(NoMerge::Types {
            patch: type_name(patch).to_owned(),
            target: type_name(target).to_owned(),
        });
    }
    let read = |any: &Any| {
        let unreadable = || NoMerge::Unreadable(type_name(any).to_owned());
        let descriptor = pool()
            .get_message_by_name(type_name(any))
            .ok_or_else(unreadable)?;
        DynamicMessage::decode(descriptor, any.value.as_slice()).map_err(|_| unreadable())
    };
    let mut merged = read(target)?;
    merge_message(&mut merged, &read(patch)?, Lists::Append);
    target.value = merged.encode_to_vec();
    Ok(())
}

fn type_name(any: &Any) -> &str {
    let url = any.type_url.as_str();
    url.rsplit_once('/').map_or(url, |(_, name)| name)
}

fn merge_message(target: &mut DynamicMessage, patch: &DynamicMessage, lists: Lists) {
    for (field, value) in patch.fields() {
        match value {
            Value::List(items) => match target.get_field_mut(&field) {
                Value::List(there) if lists == Lists::Append => there.extend_from_slice(items),
                there => *there = value.clone(),
            },
            Value::Map(entries) => match target.get_field_mut(&field) {
                Value::Map(there) => {
                    there.extend(entries.iter().map(|(k, v)| (k.clone(), v.clone())));
                }
                there => *there = value.clone(),
            },
            Value::Message(inner) => match target.get_field_mut(&field) {
                Value::Message(there) if !is_one_value(there, inner) => {
                    merge_message(there, inner, lists);
                }
                there => *there = value.clone(),
            },
            _ => target.set_field(&field, value.clone()),
        }
    }
}

/// Whether a message is one value, of which a part over a part of another would mean neither.
fn is_one_value(there: &DynamicMessage, patch: &DynamicMessage) -> bool {
    match patch.descriptor().full_name() {
        "google.protobuf.Duration" => true,
        "google.protobuf.Any" => {
            there.get_field_by_name("type_url") != patch.get_field_by_name("type_url")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Duration;
    use proto_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, LbConfig};
    use proto_envoy::envoy::config::cluster::v3::cluster::{
        CustomClusterType, LeastRequestLbConfig, RingHashLbConfig,
    };
    use proto_envoy::envoy::config::cluster::v3::{CircuitBreakers, Cluster, circuit_breakers};
    use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
    use xds::any;

    fn merged(mut target: Cluster, patch: Cluster, lists: Lists) -> Cluster {
        merge(&mut target, &patch, lists);
        target
    }

    fn breakers(connections: u32) -> Option<CircuitBreakers> {
        Some(CircuitBreakers {
            thresholds: vec![circuit_breakers::Thresholds {
                max_connections: Some(connections),
                ..Default::default()
            }],
            ..Default::default()
        })
    }

    #[test]
    fn a_duration_is_one_value() {
        let timeout = |seconds, nanos| Cluster {
            connect_timeout: Some(Duration { seconds, nanos }),
            ..Default::default()
        };
        let result = merged(timeout(10, 500), timeout(1, 0), Lists::Append);
        assert_eq!(result, timeout(1, 0));
    }

    #[test]
    fn lists_are_appended_to_or_replaced() {
        let with = |connections| Cluster {
            circuit_breakers: breakers(connections),
            ..Default::default()
        };
        let count = |lists| {
            let result = merged(with(1), with(2), lists);
            result.circuit_breakers.unwrap().thresholds.len()
        };
        assert_eq!((count(Lists::Append), count(Lists::Replace)), (2, 1));
    }

    #[test]
    fn another_choice_takes_the_place_of_the_one_there() {
        let custom = CustomClusterType {
            name: "x".to_owned(),
            typed_config: None,
        };
        let target = Cluster {
            cluster_discovery_type: Some(ClusterDiscoveryType::Type(3)),
            lb_config: Some(LbConfig::RingHashLbConfig(RingHashLbConfig::default())),
            ..Default::default()
        };
        let patch = Cluster {
            cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(custom)),
            lb_config: Some(LbConfig::LeastRequestLbConfig(
                LeastRequestLbConfig::default(),
            )),
            ..Default::default()
        };
        assert_eq!(merged(target, patch.clone(), Lists::Append), patch);
    }

    #[test]
    fn configurations_of_two_types_are_not_merged() {
        let mut target = any(&TcpProxy::default());
        let before = target.clone();
        let refused = merge_any(&mut target, &any(&Cluster::default()));
        assert!(matches!(refused, Err(NoMerge::Types { .. })));
        assert_eq!(target, before);
    }
}
