//! The settings of a mesh about which nobody said anything.
// Istio: pkg/config/mesh/mesh.go DefaultMeshConfig, DefaultProxyConfig, 1.32.

use proto_istio::mesh::mesh_config::extension_provider::{
    EnvoyFileAccessLogProvider, PrometheusMetricsProvider, Provider, StackdriverProvider,
};
use proto_istio::mesh::mesh_config::outbound_traffic_policy::Mode;
use proto_istio::mesh::mesh_config::{
    DefaultProviders, ExtensionProvider, InboundTrafficPolicy, IngressControllerMode,
    OutboundTrafficPolicy,
};
use proto_istio::mesh::proxy_config::ClusterName;
use proto_istio::mesh::{AuthenticationPolicy, MeshConfig, ProxyConfig};
use proto_istio::networking::LocalityLoadBalancerSetting;
use proto_istio::wkt::Duration;

/// Mesh config without a file.
pub fn default_mesh_config() -> MeshConfig {
    let provider = |name: &str, provider| ExtensionProvider {
        name: name.to_owned(),
        provider: Some(provider),
    };
    let everyone = || vec!["*".to_owned()];
    MeshConfig {
        enable_tracing: true,
        protocol_detection_timeout: Some(Duration::new(0, 0)),
        ingress_service: "istio-ingressgateway".to_owned(),
        ingress_controller_mode: IngressControllerMode::Strict.into(),
        ingress_class: "istio".to_owned(),
        trust_domain: "cluster.local".to_owned(),
        enable_auto_mtls: Some(true),
        outbound_traffic_policy: Some(OutboundTrafficPolicy {
            mode: Mode::AllowAny.into(),
            ..Default::default()
        }),
        // The default mode, pass through, is the zero of its enum.
        inbound_traffic_policy: Some(InboundTrafficPolicy::default()),
        locality_lb_setting: Some(LocalityLoadBalancerSetting {
            enabled: Some(true),
            ..Default::default()
        }),
        default_config: Some(default_proxy_config()),
        root_namespace: "istio-system".to_owned(),
        proxy_listen_port: 15001,
        proxy_inbound_listen_port: 15006,
        connect_timeout: Some(Duration::new(10, 0)),
        default_service_export_to: everyone(),
        default_virtual_service_export_to: everyone(),
        default_destination_rule_export_to: everyone(),
        dns_refresh_rate: Some(Duration::new(60, 0)),
        enable_prometheus_merge: Some(true),
        default_providers: Some(DefaultProviders::default()),
        extension_providers: vec![
            provider(
                "prometheus",
                Provider::Prometheus(PrometheusMetricsProvider::default()),
            ),
            provider(
                "stackdriver",
                Provider::Stackdriver(StackdriverProvider::default()),
            ),
            provider(
                "envoy",
                Provider::EnvoyFileAccessLog(EnvoyFileAccessLogProvider {
                    path: "/dev/stdout".to_owned(),
                    ..Default::default()
                }),
            ),
        ],
        ..Default::default()
    }
}

/// Proxy config of a proxy about which nobody said anything.
pub fn default_proxy_config() -> ProxyConfig {
    ProxyConfig {
        config_path: "./etc/istio/proxy".to_owned(),
        cluster_name: Some(ClusterName::ServiceCluster("istio-proxy".to_owned())),
        drain_duration: Some(Duration::new(45, 0)),
        termination_drain_duration: Some(Duration::new(5, 0)),
        proxy_admin_port: 15000,
        control_plane_auth_policy: AuthenticationPolicy::MutualTls.into(),
        discovery_address: "istiod.istio-system.svc:15012".to_owned(),
        binary_path: "/usr/local/bin/envoy".to_owned(),
        stat_name_length: 189,
        status_port: 15020,
        ..Default::default()
    }
}
