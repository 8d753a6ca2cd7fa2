//! A route configuration of 1,000 routes, judged.

use divan::{Bencher, black_box};
use prost::Message;
use proto_envoy::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::route_action::ClusterSpecifier;
use proto_envoy::envoy::config::route::v3::route_match::PathSpecifier;
use proto_envoy::envoy::config::route::v3::{
    Decorator, RetryPolicy, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
};

const ROUTES: usize = 1_000;

fn main() {
    divan::main();
}

fn route(at: usize) -> Route {
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(format!(
            "outbound|80||s{at}.shop.svc.cluster.local"
        ))),
        timeout: Some(prost_types::Duration {
            seconds: 5,
            nanos: 0,
        }),
        retry_policy: Some(RetryPolicy {
            retry_on: "connect-failure,refused-stream,unavailable,cancelled".to_owned(),
            ..RetryPolicy::default()
        }),
        ..RouteAction::default()
    };
    Route {
        name: format!("r{at}"),
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix(format!("/path/{at}"))),
            ..RouteMatch::default()
        }),
        decorator: Some(Decorator {
            operation: format!("s{at}.shop.svc.cluster.local:80/*"),
            ..Decorator::default()
        }),
        request_headers_to_add: vec![HeaderValueOption {
            header: Some(HeaderValue {
                key: "x-from".to_owned(),
                value: "edge".to_owned(),
                ..HeaderValue::default()
            }),
            ..HeaderValueOption::default()
        }],
        action: Some(Action::Route(action)),
        ..Route::default()
    }
}

#[divan::bench]
fn a_thousand_routes(bencher: Bencher<'_, '_>) {
    let config = RouteConfiguration {
        name: "80".to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: "all".to_owned(),
            domains: vec!["*".to_owned()],
            routes: (0..ROUTES).map(route).collect(),
            ..VirtualHost::default()
        }],
        ..RouteConfiguration::default()
    };
    let bytes = config.encode_to_vec();
    bencher.bench(|| {
        let judged = pilothouse_judge::judge(
            "envoy.config.route.v3.RouteConfiguration",
            black_box(&bytes),
        );
        assert_eq!(judged, Ok(()));
    });
}
