//! The routes of inbound HTTP chains: everything goes to the workload.
//!
//! Istio: pilot/pkg/networking/core/httproute.go buildSidecarInboundHTTPRouteConfig, 1.32.

use prost_types::Duration;
use proto_envoy::envoy::config::route::v3 as route;

/// The routes of a port: to a cluster, with the name that traces give the operation.
pub(super) fn config(
    cluster: &str,
    host: &str,
    port: u16,
    retries: Option<route::RetryPolicy>,
) -> route::RouteConfiguration {
    let forever = Some(Duration::default());
    let action = route::RouteAction {
        cluster_specifier: Some(route::route_action::ClusterSpecifier::Cluster(
            cluster.to_owned(),
        )),
        timeout: forever,
        max_stream_duration: Some(route::route_action::MaxStreamDuration {
            max_stream_duration: forever,
            grpc_timeout_header_max: forever,
            ..Default::default()
        }),
        retry_policy: retries,
        ..Default::default()
    };
    let everything = route::Route {
        name: "default".to_owned(),
        r#match: Some(route::RouteMatch {
            path_specifier: Some(route::route_match::PathSpecifier::Prefix("/".to_owned())),
            ..Default::default()
        }),
        decorator: Some(route::Decorator {
            operation: operation(host, port),
            ..Default::default()
        }),
        action: Some(route::route::Action::Route(action)),
        ..Default::default()
    };
    route::RouteConfiguration {
        name: cluster.to_owned(),
        virtual_hosts: vec![route::VirtualHost {
            name: format!("inbound|http|{port}"),
            domains: vec!["*".to_owned()],
            routes: vec![everything],
            ..Default::default()
        }],
        validate_clusters: Some(false),
        ..Default::default()
    }
}

fn operation(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}/*")
    } else {
        format!("{host}:{port}/*")
    }
}

#[cfg(test)]
mod tests {
    use super::operation;
    use testkit::cases;

    #[test]
    fn operations_are_those_of_the_recording() {
        for case in cases("networking-telemetry", "telemetry.TraceOperation") {
            let port = u16::try_from(case["in"]["port"].as_u64().unwrap()).unwrap();
            let found = operation(case["in"]["host"].as_str().unwrap(), port);
            assert_eq!(Some(found.as_str()), case["out"].as_str(), "{case}");
        }
    }
}
