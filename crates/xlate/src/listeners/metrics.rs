//! Istio's metrics filter, for HTTP and for TCP.
//!
//! A proxy without `istio.stats` gets none: the filter only observes.

use prost_types::Any;
use proto_istio::filters::stats::{MetricConfig, PluginConfig};
use proto_istio::mesh::MeshConfig;
use proto_istio::mesh::mesh_config::extension_provider::Provider;

use mesh::class::Class;
use policy::telemetry::metrics::{ProviderMetrics, merge};
use policy::telemetry::{Applied, provider};
use xds::any;

/// The configuration of each metrics filter of one side of a proxy.
///
/// Istio: pilot/pkg/model/telemetry.go generateStatsConfig, 1.32.
pub fn configs(applied: &Applied, mesh: &MeshConfig, class: Class) -> Vec<Any> {
    merge(applied, mesh, class)
        .into_iter()
        .filter(|metrics| {
            matches!(
                provider(mesh, &metrics.provider).and_then(|p| p.provider.as_ref()),
                Some(Provider::Prometheus(_))
            )
        })
        .map(|metrics| any(&config(metrics, class)))
        .collect()
}

fn config(metrics: ProviderMetrics, class: Class) -> PluginConfig {
    let overrides = metrics.overrides.into_iter().map(|change| {
        let (upserted, removed): (Vec<_>, Vec<_>) = change
            .tags
            .into_iter()
            .partition(|(_, value)| value.is_some());
        MetricConfig {
            name: prometheus_name(&change.metric).to_owned(),
            drop: change.disabled,
            dimensions: upserted
                .into_iter()
                .map(|(tag, value)| (tag, value.unwrap_or_default()))
                .collect(),
            tags_to_remove: removed.into_iter().map(|(tag, _)| tag).collect(),
            ..Default::default()
        }
    });
    PluginConfig {
        disable_host_header_fallback: class != Class::SidecarOutbound,
        tcp_reporting_duration: metrics.reporting_interval,
        metrics: overrides.collect(),
        ..Default::default()
    }
}

/// The name under which Prometheus knows a metric; custom metrics have their own.
fn prometheus_name(metric: &str) -> &str {
    match metric {
        "REQUEST_COUNT" => "requests_total",
        "REQUEST_DURATION" => "request_duration_milliseconds",
        "REQUEST_SIZE" => "request_bytes",
        "RESPONSE_SIZE" => "response_bytes",
        "TCP_OPENED_CONNECTIONS" => "tcp_connections_opened_total",
        "TCP_CLOSED_CONNECTIONS" => "tcp_connections_closed_total",
        "TCP_SENT_BYTES" => "tcp_sent_bytes_total",
        "TCP_RECEIVED_BYTES" => "tcp_received_bytes_total",
        "GRPC_REQUEST_MESSAGES" => "request_messages_total",
        "GRPC_RESPONSE_MESSAGES" => "response_messages_total",
        custom => custom,
    }
}
