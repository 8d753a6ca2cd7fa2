//! Route configurations of inbound listeners, which stand in the listener itself.
//!
//! Istio: pilot/pkg/networking/core/httproute.go buildSidecarInboundHTTPRouteConfig, 1.32.

use prost_types::Duration;
use proto_envoy::envoy::config::route::v3::route_action::{ClusterSpecifier, MaxStreamDuration};
use proto_envoy::envoy::config::route::v3::{RouteAction, RouteConfiguration, VirtualHost};
use proto_istio::networking::HttpRetry;

use super::domains::with_port;
use super::retry;
use super::service::default_route;

/// A port of the workload, as far as its route configuration depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    /// The cluster that requests go to: `inbound|8080||`.
    pub cluster: &'a str,
    /// The host of the service, for traces; empty where a Sidecar states the port.
    pub host: &'a str,
    /// The port of the service.
    pub port: u16,
    /// Whether it speaks gRPC, of which nothing is retried.
    pub grpc: bool,
    /// The one host that is let in; none for any.
    pub only_host: Option<&'a str>,
    /// The mesh's retries of inbound requests.
    pub retries: Option<&'a HttpRetry>,
}

/// The route configuration of an inbound port: everything goes to the workload.
pub fn inbound(inbound: Inbound<'_>) -> RouteConfiguration {
    const NO_LIMIT: Duration = Duration {
        seconds: 0,
        nanos: 0,
    };
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(inbound.cluster.to_owned())),
        timeout: Some(NO_LIMIT),
        max_stream_duration: Some(MaxStreamDuration {
            max_stream_duration: Some(NO_LIMIT),
            // Without it the header is not read, and gRPC ends like any other request.
            grpc_timeout_header_max: Some(NO_LIMIT),
            ..MaxStreamDuration::default()
        }),
        retry_policy: (!inbound.grpc)
            .then(|| retry::inbound(inbound.retries))
            .flatten(),
        ..RouteAction::default()
    };
    let operation = format!("{}/*", with_port(inbound.host, inbound.port));
    RouteConfiguration {
        name: inbound.cluster.to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: format!("inbound|http|{}", inbound.port),
            domains: vec![inbound.only_host.unwrap_or("*").to_owned()],
            routes: vec![default_route(action, operation)],
            ..VirtualHost::default()
        }],
        validate_clusters: Some(false),
        ..RouteConfiguration::default()
    }
}
