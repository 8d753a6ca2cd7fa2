//! How the proxy chooses among endpoints.
//!
//! Istio: pilot/pkg/networking/core/cluster_traffic_policy.go applyLoadBalancer, 1.32.

use model::hash_table::{self, HashTable};
use model::protocol::Protocol;
use model::service::Service;
use model::settings::Settings;
use policy::filters;
use prost_types::Any;
use proto_envoy::envoy::config::cluster::v3::cluster::common_lb_config::{
    LocalityConfigSpecifier, LocalityWeightedLbConfig, ZoneAwareLbConfig,
};
use proto_envoy::envoy::config::cluster::v3::cluster::{
    DiscoveryType, LbConfig, LbPolicy, LeastRequestLbConfig, MaglevLbConfig, RingHashLbConfig,
    RoundRobinLbConfig, SlowStartConfig,
};
use proto_envoy::envoy::config::cluster::v3::{
    Cluster, LoadBalancingPolicy, load_balancing_policy,
};
use proto_envoy::envoy::config::core::v3::{RuntimeDouble, TypedExtensionConfig};
use proto_envoy::envoy::extensions::load_balancing_policies::override_host::v3::OverrideHost;
use proto_envoy::envoy::extensions::load_balancing_policies::override_host::v3::override_host::OverrideHostSource;
use proto_envoy::envoy::extensions::load_balancing_policies::round_robin::v3::RoundRobin;
use proto_envoy::envoy::r#type::metadata::v3::MetadataKey;
use proto_envoy::envoy::r#type::metadata::v3::metadata_key::{PathSegment, path_segment};
use proto_envoy::envoy::r#type::v3::Percent;
use proto_istio::networking::LoadBalancerSettings;
use proto_istio::networking::load_balancer_settings::consistent_hash_lb::HashAlgorithm;
use proto_istio::networking::load_balancer_settings::{
    ConsistentHashLb, LbPolicy as Wanted, SimpleLb,
};

use super::draft::Draft;
use crate::load_assignment::EndpointClient;
use crate::load_assignment::groups::{self, Group};
use crate::load_assignment::locality::LocalityLb;
use crate::load_assignment::select::always_sends_unhealthy;
use xds::any;

/// The simple algorithm that settings name.
pub(crate) fn simple(settings: Option<&LoadBalancerSettings>) -> SimpleLb {
    match settings.and_then(|s| s.lb_policy.as_ref()) {
        Some(Wanted::Simple(simple)) => SimpleLb::try_from(*simple).unwrap_or_default(),
        _ => SimpleLb::Unspecified,
    }
}

/// Chooses the algorithm, and lays locality over endpoints that the cluster carries. Where requests are hashed, the table has at most
/// `most_hashed` entries.
pub(super) fn apply(
    draft: &mut Draft<'_>,
    settings: &Settings,
    (service, protocol, most_hashed): (&Service, Protocol, u64),
    wanted: Option<&LoadBalancerSettings>,
    client: Option<&EndpointClient>,
) {
    // Dynamic forward proxies choose by themselves.
    if draft.cluster.lb_policy == LbPolicy::ClusterProvided as i32 {
        return;
    }
    // Endpoints that are not ready may be among them: no panic may use those.
    if settings.features.auto_send_unhealthy_endpoints || always_sends_unhealthy(settings, service)
    {
        draft
            .common_lb()
            .healthy_panic_threshold
            .get_or_insert_with(Percent::default);
    }
    if let Some(groups) = &mut draft.groups {
        let locality = LocalityLb::of(&settings.mesh, wanted, service);
        even_out(groups, wanted, locality.as_ref(), most_hashed);
    }
    apply_locality(draft, settings, service, wanted, client);

    if draft.is_original_dst() {
        draft.cluster.lb_policy = LbPolicy::ClusterProvided as i32;
        return;
    }
    if settings.features.redis_filter && protocol == Protocol::Redis {
        // So that a key always leads to the same shard.
        draft.cluster.lb_policy = LbPolicy::Maglev as i32;
        return;
    }
    match simple(wanted) {
        SimpleLb::Random => draft.cluster.lb_policy = LbPolicy::Random as i32,
        SimpleLb::RoundRobin => {
            draft.cluster.lb_policy = LbPolicy::RoundRobin as i32;
            if let Some(slow_start_config) = slow_start(wanted) {
                draft.cluster.lb_config = Some(LbConfig::RoundRobinLbConfig(RoundRobinLbConfig {
                    slow_start_config: Some(slow_start_config),
                }));
            }
        }
        SimpleLb::Passthrough => {
            draft.cluster.lb_policy = LbPolicy::ClusterProvided as i32;
            draft.find_by(DiscoveryType::OriginalDst);
            draft.groups = None;
        }
        SimpleLb::Unspecified | SimpleLb::LeastConn | SimpleLb::LeastRequest => {
            draft.cluster.lb_policy = LbPolicy::LeastRequest as i32;
            if let Some(slow_start_config) = slow_start(wanted) {
                let config = LeastRequestLbConfig {
                    slow_start_config: Some(slow_start_config),
                    ..LeastRequestLbConfig::default()
                };
                draft.cluster.lb_config = Some(LbConfig::LeastRequestLbConfig(config));
            }
        }
    }
    if let Some(Wanted::ConsistentHash(hash)) = wanted.and_then(|w| w.lb_policy.as_ref()) {
        apply_hash(&mut draft.cluster, hash, most_hashed);
    }
}

/// Sends each request to the endpoint that a picker has put into the request's metadata, and to any where it has put none
/// there. Where it went to is told to the picker.
///
/// Istio: pilot/pkg/networking/core/cluster_builder.go applyOverrideHostPolicy, 1.32.
pub(super) fn follow_picker(draft: &mut Draft<'_>) {
    const PICKED: &str = "x-gateway-destination-endpoint";
    const SERVED: &str = "x-gateway-destination-endpoint-served";
    let key = |name: &str| MetadataKey {
        key: filters::PICKER_METADATA.to_owned(),
        path: vec![PathSegment {
            segment: Some(path_segment::Segment::Key(name.to_owned())),
        }],
    };
    let policies = |name: &str, config: Any| LoadBalancingPolicy {
        policies: vec![load_balancing_policy::Policy {
            typed_extension_config: Some(TypedExtensionConfig {
                name: format!("envoy.load_balancing_policies.{name}"),
                typed_config: Some(config),
            }),
        }],
    };
    let override_host = OverrideHost {
        override_host_sources: vec![OverrideHostSource {
            metadata: Some(key(PICKED)),
            ..OverrideHostSource::default()
        }],
        selected_host_key: Some(key(SERVED)),
        fallback_policy: Some(policies("round_robin", any(&RoundRobin::default()))),
    };
    // Envoy refuses weights of localities beside a policy.
    draft.common_lb().locality_config_specifier = None;
    let cluster = &mut draft.cluster;
    cluster.lb_policy = LbPolicy::ClusterProvided as i32;
    cluster.load_balancing_policy = Some(policies("override_host", any(&override_host)));
}

fn apply_locality(
    draft: &mut Draft<'_>,
    settings: &Settings,
    service: &Service,
    wanted: Option<&LoadBalancerSettings>,
    client: Option<&EndpointClient>,
) {
    let weighted =
        LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig::default());
    if settings.features.locality_weighted_lb {
        draft.common_lb().locality_config_specifier = Some(weighted);
    }
    let Some(locality) = LocalityLb::of(&settings.mesh, wanted, service) else {
        return;
    };
    let outlier = draft.cluster.outlier_detection.is_some();
    let common = draft.common_lb();
    match &locality {
        LocalityLb::Locality { setting, forced } => {
            let failover = (*forced || outlier)
                && (!setting.failover.is_empty() || !setting.failover_priority.is_empty());
            // Weights of localities change what an algorithm like least request does: only where asked for.
            if failover || !setting.distribute.is_empty() {
                common.locality_config_specifier = Some(weighted);
            }
        }
        LocalityLb::ZoneAware(setting) => {
            let off = setting.enabled == Some(false);
            common.locality_config_specifier = Some(LocalityConfigSpecifier::ZoneAwareLbConfig(
                ZoneAwareLbConfig {
                    routing_enabled: off.then(Percent::default),
                    min_cluster_size: setting.min_cluster_size,
                    ..ZoneAwareLbConfig::default()
                },
            ));
        }
    }
    if let (Some(groups), Some(client)) = (draft.groups.take(), client) {
        draft.groups = Some(locality.apply(groups, client, outlier));
    }
}

/// Istio: setWarmup; without the newer setting, setSlowStartConfig.
fn slow_start(wanted: Option<&LoadBalancerSettings>) -> Option<SlowStartConfig> {
    let wanted = wanted?;
    if let Some(warmup) = &wanted.warmup {
        return Some(SlowStartConfig {
            slow_start_window: warmup.duration.map(|d| d.0),
            aggression: Some(RuntimeDouble {
                default_value: warmup.aggression.unwrap_or(1.0),
                // Required by Envoy; no runtime key has this name.
                runtime_key: "(".to_owned(),
            }),
            min_weight_percent: Some(Percent {
                value: warmup.minimum_percent.unwrap_or(10.0),
            }),
        });
    }
    let window = wanted.warmup_duration_secs?;
    Some(SlowStartConfig {
        slow_start_window: Some(window.0),
        ..SlowStartConfig::default()
    })
}

/// A table has no more entries than `most`.
///
/// Istio: ApplyRingHashLoadBalancer.
pub(crate) fn apply_hash(cluster: &mut Cluster, hash: &ConsistentHashLb, most: u64) {
    let wanted = HashTable::of(hash);
    let table = wanted.at_most(most);
    let is_stated = match &hash.hash_algorithm {
        Some(HashAlgorithm::Maglev(maglev)) => maglev.table_size != 0,
        Some(HashAlgorithm::RingHash(ring)) => ring.minimum_ring_size != 0,
        None => true,
    };
    let (policy, config) = match table {
        HashTable::Maglev(size) => {
            let config = MaglevLbConfig {
                table_size: Some(size),
            };
            (LbPolicy::Maglev, LbConfig::MaglevLbConfig(config))
        }
        HashTable::Ring(size) => {
            let config = RingHashLbConfig {
                minimum_ring_size: Some(size),
                ..RingHashLbConfig::default()
            };
            (LbPolicy::RingHash, LbConfig::RingHashLbConfig(config))
        }
    };
    cluster.lb_policy = policy as i32;
    if is_stated || table != wanted {
        cluster.lb_config = Some(config);
    }
}

/// Makes weights of endpoints less uneven where a ring is built of them: Envoy makes it so large that the lightest endpoint has an
/// entry, whatever its minimum is. Of a table for Maglev it does not.
pub(crate) fn even_out(
    groups: &mut [Group<'_>],
    wanted: Option<&LoadBalancerSettings>,
    locality: Option<&LocalityLb<'_>>,
    most: u64,
) {
    let Some(Wanted::ConsistentHash(hash)) = wanted.and_then(|w| w.lb_policy.as_ref()) else {
        return;
    };
    if let HashTable::Maglev(_) = HashTable::of(hash) {
        return;
    }
    // What localities get, in percent, weighs endpoints once more.
    let times = match locality {
        Some(locality) if locality.distributes() => (most / 100).max(hash_table::RING),
        _ => most,
    };
    groups::even_out(groups, times);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_no_larger_than_others_at_the_proxy_can_bear() {
        let ring = |size: u64| {
            let hash = ConsistentHashLb {
                minimum_ring_size: size,
                ..ConsistentHashLb::default()
            };
            let mut cluster = Cluster::default();
            apply_hash(&mut cluster, &hash, hash_table::LARGEST);
            assert_eq!(cluster.lb_policy, LbPolicy::RingHash as i32);
            match cluster.lb_config {
                Some(LbConfig::RingHashLbConfig(config)) => config.minimum_ring_size,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ring(0), Some(1024));
        assert_eq!(ring(100_000), Some(100_000));
        assert_eq!(ring(8_388_608), Some(131_072));
    }
}
