//! Connection pools, circuit breakers and outlier detection.
//!
//! Istio: pilot/pkg/networking/core/cluster_traffic_policy.go, 1.32.

use std::time::Duration;

use model::service::{Port, Service};
use model::settings::{MeshConfig, Settings};
use model::work;
use proto_envoy::envoy::config::cluster::v3 as envoy;
use proto_envoy::envoy::config::cluster::v3::circuit_breakers::{
    Thresholds, thresholds::RetryBudget,
};
use proto_envoy::envoy::config::cluster::v3::{CircuitBreakers, UpstreamConnectionOptions};
use proto_envoy::envoy::config::common::matcher::v3::match_predicate::{MatchSet, Rule};
use proto_envoy::envoy::config::common::matcher::v3::{HttpHeadersMatch, MatchPredicate};
use proto_envoy::envoy::config::core::v3::{
    HttpProtocolOptions as CommonHttp, KeepaliveSettings, TcpKeepalive,
};
use proto_envoy::envoy::config::route::v3::HeaderMatcher;
use proto_envoy::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use proto_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::OutlierDetection as HttpOutlierDetection;
use proto_envoy::envoy::r#type::matcher::v3::StringMatcher;
use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto_envoy::envoy::r#type::v3::Percent;
use proto_istio::mesh::mesh_config::H2UpgradePolicy as MeshUpgrade;
use proto_istio::networking::connection_pool_settings::http_settings::H2UpgradePolicy;
use proto_istio::networking::connection_pool_settings::tcp_settings::TcpKeepalive as Keepalive;
use proto_istio::networking::traffic_policy::RetryBudget as Budget;
use proto_istio::networking::{ConnectionPoolSettings, OutlierDetection};

use super::draft::Draft;
use crate::load_assignment::select::always_sends_unhealthy;
use mesh::destination_rule::Policy;

/// Fills what a policy leaves open from the default of the mesh.
///
/// Istio: applyDefaultTrafficPolicy.
pub(super) fn with_mesh_default<'a>(
    mesh: &'a MeshConfig,
    policy: Option<Policy<'a>>,
) -> Option<Policy<'a>> {
    let Some(default) = &mesh.default_traffic_policy else {
        return policy;
    };
    let mut filled = policy.unwrap_or_default();
    filled.connection_pool = filled.connection_pool.or(default.connection_pool.as_ref());
    filled.outlier_detection = filled
        .outlier_detection
        .or(default.outlier_detection.as_ref());
    Some(filled)
}

/// HTTP/2 where the policy or the mesh wants connections upgraded.
///
/// Istio: shouldH2Upgrade.
pub(super) fn apply_upgrade(
    draft: &mut Draft<'_>,
    mesh: &MeshConfig,
    port: &Port,
    pool: Option<&ConnectionPoolSettings>,
) {
    let http = pool.and_then(|p| p.http.as_ref());
    let wanted = match http {
        Some(http) if http.use_client_protocol => return,
        Some(http) => H2UpgradePolicy::try_from(http.h2_upgrade_policy).unwrap_or_default(),
        None => H2UpgradePolicy::Default,
    };
    let upgrade = match wanted {
        H2UpgradePolicy::Upgrade => true,
        H2UpgradePolicy::DoNotUpgrade => false,
        H2UpgradePolicy::Default => {
            port.protocol.is_http() && mesh.h2_upgrade_policy == MeshUpgrade::Upgrade as i32
        }
    };
    if upgrade {
        draft.speak_http2();
    }
}

/// Limits and timeouts. Istio's limits are as high as they can be where nobody sets them.
///
/// Istio: applyConnectionPool.
pub(super) fn apply_connection_pool(
    draft: &mut Draft<'_>,
    mesh: &MeshConfig,
    pool: Option<&ConnectionPoolSettings>,
    budget: Option<&Budget>,
) {
    let tcp = pool.and_then(|p| p.tcp.as_ref());
    let http = pool.and_then(|p| p.http.as_ref());
    let limit = |value: Option<i32>| {
        let set = value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0);
        Some(set.unwrap_or(u32::MAX))
    };
    let thresholds = Thresholds {
        max_connections: limit(tcp.map(|t| t.max_connections)),
        max_pending_requests: limit(http.map(|h| h.http1_max_pending_requests)),
        max_requests: limit(http.map(|h| h.http2_max_requests)),
        max_retries: limit(http.map(|h| h.max_retries)),
        retry_budget: budget.map(retry_budget),
        ..Thresholds::default()
    };
    draft.cluster.circuit_breakers = Some(CircuitBreakers {
        thresholds: vec![thresholds],
        ..CircuitBreakers::default()
    });
    draft.cluster.connect_timeout = tcp
        .and_then(|t| t.connect_timeout)
        .or(mesh.connect_timeout)
        .map(|d| d.0);
    let keepalive = tcp.and_then(|t| t.tcp_keepalive.as_ref());
    for keepalive in [mesh.tcp_keepalive.as_ref(), keepalive]
        .into_iter()
        .flatten()
    {
        apply_keepalive(draft, keepalive);
    }
    apply_http_pool(draft, pool);
}

fn retry_budget(budget: &Budget) -> RetryBudget {
    RetryBudget {
        budget_percent: Some(Percent {
            value: budget.percent.unwrap_or(20.0),
        }),
        budget_interval: budget.budget_interval.map(|d| d.0),
        min_retry_concurrency: Some(match budget.min_retry_concurrency {
            0 => 3,
            least => least,
        }),
    }
}

fn apply_keepalive(draft: &mut Draft<'_>, keepalive: &Keepalive) {
    let target = draft
        .cluster
        .upstream_connection_options
        .get_or_insert_with(UpstreamConnectionOptions::default)
        .tcp_keepalive
        .get_or_insert_with(TcpKeepalive::default);
    let seconds = |d: proto_istio::wkt::Duration| u32::try_from(d.0.seconds).ok();
    if keepalive.probes > 0 {
        target.keepalive_probes = Some(keepalive.probes);
    }
    if let Some(time) = keepalive.time {
        target.keepalive_time = seconds(time);
    }
    if let Some(interval) = keepalive.interval {
        target.keepalive_interval = seconds(interval);
    }
}

fn apply_http_pool(draft: &mut Draft<'_>, pool: Option<&ConnectionPoolSettings>) {
    let tcp = pool.and_then(|p| p.tcp.as_ref());
    let http = pool.and_then(|p| p.http.as_ref());
    let positive = |v: i32| u32::try_from(v).ok().filter(|v| *v > 0);
    let idle = http
        .and_then(|h| h.idle_timeout)
        .or_else(|| tcp.and_then(|t| t.idle_timeout));
    let duration = tcp.and_then(|t| t.max_connection_duration);
    let requests = http.and_then(|h| positive(h.max_requests_per_connection));
    let streams = http.and_then(|h| positive(h.max_concurrent_streams));
    let keepalive = http.and_then(|h| h.http2_keep_alive.as_ref());
    if idle.is_some()
        || duration.is_some()
        || requests.is_some()
        || streams.is_some()
        || keepalive.is_some()
    {
        let common = draft
            .http()
            .common_http_protocol_options
            .get_or_insert_with(CommonHttp::default);
        if let Some(idle) = idle {
            common.idle_timeout = Some(idle.0);
        }
        if let Some(requests) = requests {
            common.max_requests_per_connection = Some(requests);
        }
        if let Some(duration) = duration {
            common.max_connection_duration = Some(duration.0);
        }
        if let Some(http2) = draft.http2() {
            if let Some(streams) = streams {
                http2.max_concurrent_streams = Some(streams);
            }
            if let Some(keepalive) = keepalive {
                http2.connection_keepalive = Some(KeepaliveSettings {
                    interval: keepalive.interval.map(|d| d.0),
                    timeout: keepalive.timeout.map(|d| d.0),
                    ..KeepaliveSettings::default()
                });
            }
        }
    }
    if http.is_some_and(|h| h.use_client_protocol) {
        draft.speak_as_client();
    }
}

/// How often a cluster is looked at for outliers, of a service with so many clusters. What is not an interval stays: Envoy refuses it.
fn outlier_interval(stated: prost_types::Duration, clusters: usize) -> prost_types::Duration {
    let least = work::outlier_interval(clusters);
    match Duration::try_from(stated) {
        Ok(time) if !time.is_zero() && time < least => {
            prost_types::Duration::try_from(least).unwrap_or(stated)
        }
        _ => stated,
    }
}

/// When endpoints are ejected.
///
/// Istio: applyOutlierDetection.
pub(super) fn apply_outlier_detection(
    draft: &mut Draft<'_>,
    settings: &Settings,
    (service, clusters): (&Service, usize),
    outlier: &OutlierDetection,
) {
    // Detection by success rate is off; a limit of zero turns its detection off.
    let enforcing = |errors: u32| Some(if errors > 0 { 100 } else { 0 });
    let mut out = envoy::OutlierDetection {
        enforcing_success_rate: Some(0),
        interval: outlier
            .interval
            .map(|interval| outlier_interval(interval.0, clusters)),
        base_ejection_time: outlier.base_ejection_time.map(|d| d.0),
        ..envoy::OutlierDetection::default()
    };
    if let Some(errors) = outlier.consecutive_5xx_errors {
        out.consecutive_5xx = Some(errors);
        out.enforcing_consecutive_5xx = enforcing(errors);
    }
    if let Some(errors) = outlier.consecutive_gateway_errors {
        out.consecutive_gateway_failure = Some(errors);
        out.enforcing_consecutive_gateway_failure = enforcing(errors);
    }
    if outlier.max_ejection_percent > 0 {
        out.max_ejection_percent = u32::try_from(outlier.max_ejection_percent).ok();
    }
    if outlier.split_external_local_origin_errors {
        out.split_external_local_origin_errors = true;
        if let Some(failures) = outlier.consecutive_local_origin_failures.filter(|f| *f > 0) {
            out.consecutive_local_origin_failure = Some(failures);
            out.enforcing_consecutive_local_origin_failure = Some(100);
        }
        out.enforcing_local_origin_success_rate = Some(0);
    }
    draft.cluster.outlier_detection = Some(out);

    // The panic threshold is off unless asked for: few endpoints soon are less than half. It stays off where
    // endpoints that are not ready are sent, which a panic would use.
    if outlier.min_health_percent >= 0 {
        let percent = if always_sends_unhealthy(settings, service) {
            0
        } else {
            outlier.min_health_percent
        };
        draft.common_lb().healthy_panic_threshold = Some(Percent {
            value: f64::from(percent),
        });
    }
    if !outlier.outlier_detection_http_error_codes.is_empty() {
        let codes = &outlier.outlier_detection_http_error_codes;
        draft.http().outlier_detection = Some(HttpOutlierDetection {
            error_matcher: Some(status_matcher(codes)),
        });
    }
}

fn status_matcher(codes: &[u32]) -> MatchPredicate {
    let mut rules: Vec<MatchPredicate> = codes
        .iter()
        .map(|code| {
            let exact = StringMatcher {
                match_pattern: Some(MatchPattern::Exact(code.to_string())),
                ..StringMatcher::default()
            };
            let header = HeaderMatcher {
                name: ":status".to_owned(),
                header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(exact)),
                ..HeaderMatcher::default()
            };
            MatchPredicate {
                rule: Some(Rule::HttpResponseHeadersMatch(HttpHeadersMatch {
                    headers: vec![header],
                })),
            }
        })
        .collect();
    match rules.len() {
        1 => rules.remove(0),
        _ => MatchPredicate {
            rule: Some(Rule::OrMatch(MatchSet { rules })),
        },
    }
}

#[cfg(test)]
mod tests {
    use model::protocol::Protocol;
    use proto_envoy::envoy::config::cluster::v3::cluster::DiscoveryType;

    use super::*;
    use testkit::cases;

    use testkit::message;

    #[test]
    fn connections_are_upgraded_as_in_the_recordings() {
        for case in cases("core", "core.shouldH2Upgrade") {
            let input = &case["in"];
            let mesh: MeshConfig = message(&input["mesh"]).unwrap_or_default();
            let pool: Option<ConnectionPoolSettings> = message(&input["connectionPool"]);
            let protocol = input["port"]["Protocol"].as_str().unwrap_or_default();
            let port = Port {
                name: "port".into(),
                number: 80,
                protocol: Protocol::parse(protocol),
            };
            let mut draft = Draft::new("bar".to_owned(), DiscoveryType::Eds);
            apply_upgrade(&mut draft, &mesh, &port, pool.as_ref());
            assert_eq!(draft.is_http2(), case["out"], "{}", case["test"]);
        }
    }

    #[test]
    fn the_clusters_of_a_service_share_the_looks_for_outliers() {
        let millis = |n: u64| prost_types::Duration::try_from(Duration::from_millis(n)).unwrap();
        assert_eq!(outlier_interval(millis(1), 10), millis(1));
        assert_eq!(outlier_interval(millis(1), 7_000), millis(700));
        assert_eq!(outlier_interval(millis(2_000), 7_000), millis(2_000));
    }
}
