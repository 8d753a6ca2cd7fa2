//! Proxies of a kind for which nothing is generated are told so.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use ads::server::{Join, Subscriber};
use ads::{Code, Protocol, Status};
use clap::Parser;
use pilothouse_server::config::ServeOptions;
use pilothouse_server::derive::{Derive, OriginLimits};
use pilothouse_server::metrics::Metrics;
use pilothouse_server::registration::{Home, Registration};
use pilothouse_server::secure::Trust;
use pilothouse_server::streams::Proxies;
use pilothouse_server::warm::Warm;
use proto_envoy::envoy::config::core::v3::Node;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

#[tokio::test]
async fn waypoints_and_ztunnels_are_refused_by_name_and_others_are_not() {
    let settings = Arc::new(testkit::settings(""));
    let limits = OriginLimits::default();
    let (derive, _thread) = Derive::start(settings.clone(), limits, |_| {}).unwrap();
    let metrics = Arc::new(Metrics::new().unwrap());
    let serve = Serve::parse_from(["serve", "--state-dir", "off"]);
    let (warm, _) = Warm::open(&serve.options, &settings, &metrics);
    let registration = Registration::start(
        &serve.options,
        Home::MEMORY,
        store::Store::new(settings).snapshot(),
        &metrics,
        &TaskTracker::new(),
        &CancellationToken::new(),
    );
    let proxies = Proxies {
        derive,
        metrics,
        registration,
        connections: Arc::default(),
        warm: Arc::new(warm),
        unsupported: Arc::default(),
        unserved: Arc::default(),
        trust: Trust::default(),
        test_identities: false,
        own: None,
        peers: Default::default(),
    };
    let join = |role: &str| {
        proxies.subscribe(Join {
            node: Box::new(Node {
                id: format!("{role}~10.0.0.1~a.shop~shop.svc.cluster.local"),
                ..Default::default()
            }),
            peer: ([127, 0, 0, 1], 4000).into(),
            proven: Default::default(),
            protocol: Protocol::Delta,
            returns: false,
        })
    };
    for role in ["waypoint", "ztunnel"] {
        let Err(Status { code, message }) = join(role).await else {
            panic!("a {role} was admitted");
        };
        assert_eq!(code, Code::Unimplemented);
        assert!(
            message.starts_with(&format!("{role} proxies are not supported yet")),
            "{message}"
        );
    }
    for role in ["sidecar", "router"] {
        let refused = join(role).await.err();
        assert!(refused.is_none(), "{role}: {refused:?}");
    }
}
