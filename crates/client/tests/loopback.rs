//! The client against this workspace's own server, over loopback.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ads::Status;
use ads::server::{self, Join, Options, Server, Session, Subscriber, Subscription};
use futures::FutureExt;
use futures::future::BoxFuture;
use pilothouse_client::{FetchOptions, LoadOptions, NodeOptions, fetch, run_load};
use prost::{Message, Name};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::{AggregatedConfigSource, ConfigSource};
use proto_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{HttpConnectionManager, Rds};
use ads::latest::Sender;
use tokio_util::sync::CancellationToken;
use xds::{Published, Resource, ResourceSet, TypeUrl};

struct World(Sender<Arc<Published>>);

struct Seat;

impl Session for Seat {
    fn on_event(&mut self, _: &ads::Event) {}
}

impl Subscriber for World {
    fn subscribe(&self, _: Join) -> BoxFuture<'static, Result<Subscription, Status>> {
        let published = self.0.subscribe();
        async {
            Ok(Subscription {
                published,
                session: Box::new(Seat) as Box<dyn Session>,
            })
        }
        .boxed()
    }
}

fn one(name: &str, message: &impl Message) -> Arc<Resource> {
    Arc::new(Resource::encode(name, message))
}

/// Two EDS clusters and a static one, a listener whose route is named, and that route at this revision.
fn revision(n: u64) -> Arc<Published> {
    let eds = ClusterDiscoveryType::Type(DiscoveryType::Eds as i32);
    let cluster = |name: &str, kind| Cluster {
        name: name.into(),
        cluster_discovery_type: kind,
        ..Default::default()
    };
    let assignment = |name: &str| ClusterLoadAssignment {
        cluster_name: name.into(),
        ..Default::default()
    };
    let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource {});
    let manager = HttpConnectionManager {
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            route_config_name: "http.80".into(),
            config_source: Some(ConfigSource {
                config_source_specifier: Some(ads),
                ..Default::default()
            }),
        })),
        ..Default::default()
    };
    let any = prost_types::Any {
        type_url: HttpConnectionManager::type_url(),
        value: manager.encode_to_vec(),
    };
    let filter = Filter {
        name: "hcm".into(),
        config_type: Some(ConfigType::TypedConfig(any)),
    };
    let listener = Listener {
        name: "0.0.0.0_80".into(),
        filter_chains: vec![FilterChain {
            filters: vec![filter],
            ..Default::default()
        }],
        ..Default::default()
    };
    let route = RouteConfiguration {
        name: "http.80".into(),
        most_specific_header_mutations_wins: n.is_multiple_of(2),
        ..Default::default()
    };
    let mut published = Published::new(n);
    let clusters = [("a", Some(eds.clone())), ("b", Some(eds)), ("fixed", None)];
    published.set(
        TypeUrl::Cluster,
        ResourceSet::new(clusters.map(|(name, kind)| one(name, &cluster(name, kind)))),
    );
    published.set(
        TypeUrl::Endpoint,
        ResourceSet::new(["a", "b"].map(|name| one(name, &assignment(name)))),
    );
    published.set(
        TypeUrl::Listener,
        ResourceSet::new([one("0.0.0.0_80", &listener)]),
    );
    published.set(TypeUrl::Route, ResourceSet::new([one("http.80", &route)]));
    Arc::new(published)
}

fn start() -> (Arc<World>, SocketAddr, CancellationToken) {
    let world = Arc::new(World(Sender::new(revision(1))));
    let listener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let world_of_server = Arc::clone(&world) as Arc<dyn Subscriber>;
    let server = Arc::new(Server::new(world_of_server, Options::default()).unwrap());
    tokio::spawn(server::serve(
        futures::stream::iter([server::Door::Plaintext(listener)]),
        server,
        stop.clone(),
    ));
    (world, address, stop)
}

#[tokio::test]
async fn fetch_follows_what_clusters_and_listeners_name() {
    let (_world, address, _stop) = start();
    for sotw in [false, true] {
        let options = FetchOptions {
            address: address.to_string(),
            sotw,
            ..FetchOptions::default()
        };
        let got = fetch(&options, &TypeUrl::ALL[..4]).await.unwrap();
        let names = |ty| {
            got[&ty]
                .iter()
                .map(|f: &pilothouse_client::Fetched| f.name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(TypeUrl::Cluster), ["a", "b", "fixed"]);
        assert_eq!(names(TypeUrl::Endpoint), ["a", "b"]);
        assert_eq!(names(TypeUrl::Listener), ["0.0.0.0_80"]);
        assert_eq!(names(TypeUrl::Route), ["http.80"]);
        let route: RouteConfiguration = got[&TypeUrl::Route][0].decode().unwrap();
        assert_eq!(route.name, "http.80");
        assert_eq!(
            fetch(&options, &[TypeUrl::Route]).await.unwrap()[&TypeUrl::Route].len(),
            1
        );
    }
}

#[tokio::test]
async fn a_change_is_followed_to_every_proxy() {
    let (world, address, _stop) = start();
    let flag = std::env::temp_dir().join(format!(
        "pilothouse-load-{}-{}",
        std::process::id(),
        address.port()
    ));
    let seen = flag.clone();
    tokio::spawn(async move {
        for n in 2.. {
            while std::fs::remove_file(&seen).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            world.0.send(revision(n));
        }
    });
    for sotw in [false, true] {
        let options = LoadOptions {
            address: address.to_string(),
            proxies: 20,
            sotw,
            types: TypeUrl::ALL[..4].to_vec(),
            token: None,
            secure: Default::default(),
            rate: None,
            changes: vec![("route".into(), format!("touch {}", flag.display()))],
            repeat: 2,
            watch: None,
            settle: 100,
            timeout: 20.0,
            json: true,
            scenario: None,
            program: None,
            command: None,
            apply: None,
            results: None,
            svg: None,
            node: NodeOptions::default(),
        };
        let mut out = Vec::new();
        let report = run_load(options, &mut out).await.unwrap();
        assert_eq!((report.changes.len(), report.retries), (2, 0));
        for change in &report.changes {
            assert_eq!(
                (change.proxies, change.responses),
                (20, 20),
                "the route and nothing else"
            );
            assert!(change.latencies.first_ms <= change.latencies.p50_ms);
            assert!(change.latencies.p50_ms <= change.latencies.last_ms);
        }
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["proxies"], 20);
        report.write_table(&mut Vec::new()).unwrap();
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let options = FetchOptions {
        address: "127.0.0.1:1".into(),
        ..FetchOptions::default()
    };
    let error = fetch(&options, &[TypeUrl::Cluster]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to 127.0.0.1:1");
}
