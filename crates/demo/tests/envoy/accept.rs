//! Envoy takes what is generated for the recorded scenarios: skipped where there are no recordings. A sample, unless
//! `PILOTHOUSE_EVERY_SCENARIO` is set.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use demo::http::get;
use envoy::process::Process;
use hcm::http_connection_manager::RouteSpecifier;
use hcm::{HttpConnectionManager, HttpFilter, http_filter};
use model::node::Node;
use prost::{Message, Name};
use prost_types::Any;
use proto_envoy::envoy::config::bootstrap::v3::Bootstrap;
use proto_envoy::envoy::config::bootstrap::v3::bootstrap::{DynamicResources, StaticResources};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::core::v3 as core;
use proto_envoy::envoy::config::core::v3::address::Address as Form;
use proto_envoy::envoy::config::core::v3::api_config_source::ApiType;
use proto_envoy::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto_envoy::envoy::config::core::v3::socket_address::{PortSpecifier, Protocol};
use proto_envoy::envoy::config::core::v3::{
    Address, ApiConfigSource, ApiVersion, GrpcService, SocketAddress,
};
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{Filter, FilterChain, Listener};
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use proto_envoy::envoy::extensions::filters::http::router::v3::Router;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use serde_json::json;
use testkit::Scenario;
use xds::TypeUrl;

use crate::rig::{Rig, until};

/// Groups of scenarios that are generated completely.
const GROUPS: &[&str] = &[
    "base",
    "se",
    "vs",
    "dr",
    "gw",
    "sidecar",
    "mesh",
    "node",
    "proxy",
    "pa",
    "istio-net",
    "istio-bookinfo",
    "istio-testdata",
    "istio-bench",
];
/// Of a sample, every so-manieth scenario.
const STEP: usize = 8;
/// Clusters of proxies' own bootstraps, which certificates and configuration come from.
const OF_BOOTSTRAP: &[&str] = &["xds-grpc", "sds-grpc", "sds-files-grpc", "sds-external"];

/// Distinct resources, by what they are but for their names.
#[derive(Default)]
struct Distinct {
    clusters: BTreeMap<Vec<u8>, (String, Cluster)>,
    listeners: BTreeMap<Vec<u8>, (String, Listener)>,
    routes: BTreeMap<Vec<u8>, (String, RouteConfiguration)>,
}

impl Distinct {
    fn add(&mut self, of: &str, ty: TypeUrl, body: &[u8]) {
        match ty {
            TypeUrl::Cluster => {
                let mut cluster = Cluster::decode(body).unwrap();
                let from = format!("{of} {}", cluster.name);
                cluster.name.clear();
                cluster.alt_stat_name.clear();
                if let Some(assignment) = &mut cluster.load_assignment {
                    assignment.cluster_name.clear();
                }
                self.clusters
                    .insert(cluster.encode_to_vec(), (from, cluster));
            }
            TypeUrl::Listener => {
                let mut listener = Listener::decode(body).unwrap();
                let from = format!("{of} {}", listener.name);
                listener.name.clear();
                listener.address = None;
                listener.additional_addresses.clear();
                self.listeners
                    .insert(listener.encode_to_vec(), (from, listener));
            }
            TypeUrl::Route => {
                let mut routes = RouteConfiguration::decode(body).unwrap();
                let from = format!("{of} {}", routes.name);
                routes.name.clear();
                self.routes.insert(routes.encode_to_vec(), (from, routes));
            }
            _ => {}
        }
    }
}

/// A proxy of a scenario with the extensions that this Envoy has.
fn with_extensions(node: &Node, extensions: &[String]) -> Arc<Node> {
    let names = extensions.iter().map(|e| Arc::from(e.as_str()));
    Arc::new(Node {
        extensions: Some(Arc::new(names.collect())),
        ..node.clone()
    })
}

fn address(index: usize, udp: bool) -> Address {
    let (host, port) = (index / 50_000, 10_000 + index % 50_000);
    Address {
        address: Some(Form::SocketAddress(SocketAddress {
            address: format!("127.200.0.{}", host + 1),
            protocol: if udp { Protocol::Udp } else { Protocol::Tcp } as i32,
            port_specifier: Some(PortSpecifier::PortValue(u32::try_from(port).unwrap())),
            ..SocketAddress::default()
        })),
    }
}

/// A listener that has these routes.
fn serving(mut routes: RouteConfiguration, name: &str) -> Listener {
    // The clusters go by other names here.
    routes.validate_clusters = Some(false);
    routes.name = name.to_owned();
    let manager = HttpConnectionManager {
        stat_prefix: name.to_owned(),
        route_specifier: Some(RouteSpecifier::RouteConfig(routes)),
        http_filters: vec![HttpFilter {
            name: "envoy.filters.http.router".to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(
                any(&Router::default()),
            )),
            ..HttpFilter::default()
        }],
        ..HttpConnectionManager::default()
    };
    Listener {
        name: name.to_owned(),
        filter_chains: vec![FilterChain {
            filters: vec![Filter {
                name: "http".to_owned(),
                config_type: Some(ConfigType::TypedConfig(any(&manager))),
            }],
            ..FilterChain::default()
        }],
        ..Listener::default()
    }
}

pub(crate) fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: format!("type.googleapis.com/{}", M::full_name()),
        value: message.encode_to_vec(),
    }
}

/// Everything at once, as a proxy would have it in its own file.
fn bootstrap(distinct: Distinct) -> (Bootstrap, BTreeMap<String, String>) {
    let mut came_from = BTreeMap::new();
    let mut named = |kind: &str, index: usize, from: String| {
        let name = format!("{kind}-{index}");
        came_from.insert(name.clone(), from);
        name
    };
    let mut clusters: Vec<Cluster> = OF_BOOTSTRAP
        .iter()
        .map(|name| Cluster {
            name: (*name).to_owned(),
            connect_timeout: Some(prost_types::Duration {
                seconds: 1,
                nanos: 0,
            }),
            ..Cluster::default()
        })
        .collect();
    for (index, (from, mut cluster)) in distinct.clusters.into_values().enumerate() {
        cluster.name = named("cluster", index, from);
        if let Some(assignment) = &mut cluster.load_assignment {
            assignment.cluster_name.clone_from(&cluster.name);
        }
        clusters.push(cluster);
    }
    let mut listeners = Vec::new();
    for (index, (from, mut listener)) in distinct.listeners.into_values().enumerate() {
        listener.name = named("listener", index, from);
        listeners.push(listener);
    }
    for (index, (from, routes)) in distinct.routes.into_values().enumerate() {
        let name = named("routes", index, from);
        listeners.push(serving(routes, &name));
    }
    for (index, listener) in listeners.iter_mut().enumerate() {
        // Unix sockets and addresses of the example are of no concern.
        listener.address = Some(address(index, is_udp(listener)));
    }
    let grpc = GrpcService {
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: "xds-grpc".to_owned(),
            ..EnvoyGrpc::default()
        })),
        ..GrpcService::default()
    };
    let bootstrap = Bootstrap {
        node: Some(core::Node {
            id: "accept".to_owned(),
            cluster: "accept".to_owned(),
            ..core::Node::default()
        }),
        dynamic_resources: Some(DynamicResources {
            ads_config: Some(ApiConfigSource {
                api_type: ApiType::Grpc as i32,
                transport_api_version: ApiVersion::V3 as i32,
                grpc_services: vec![grpc],
                ..ApiConfigSource::default()
            }),
            ..DynamicResources::default()
        }),
        static_resources: Some(StaticResources {
            clusters,
            listeners,
            ..StaticResources::default()
        }),
        ..Bootstrap::default()
    };
    (bootstrap, came_from)
}

fn is_udp(listener: &Listener) -> bool {
    listener.udp_listener_config.is_some()
}

/// The extensions that this Envoy says it has.
pub(crate) async fn extensions(rig: &Rig) -> Vec<String> {
    let admin: SocketAddr = rig.address("127.0.0.1:15000");
    let config = json!({
        "admin": { "address": { "socket_address": {
            "address": admin.ip().to_string(),
            "port_value": admin.port(),
        } } },
    });
    let file = rig.beside("empty.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let args = ["-c", &file.display().to_string(), "--disable-hot-restart"].map(str::to_owned);
    let process = Process::start("empty", rig.envoy(), &args, &rig.beside("empty.log")).unwrap();
    let answers = async || {
        get(admin, "/server_info")
            .await
            .is_ok_and(|r| r.status == 200)
    };
    until("an empty Envoy answers", answers).await;
    let info = get(admin, "/server_info").await.unwrap().json().unwrap();
    envoy::process::stop(vec![process]).await;
    let listed = info["node"]["extensions"].as_array().cloned();
    let names = listed.unwrap_or_default();
    let names = names.iter().filter_map(|e| e["name"].as_str());
    names.map(str::to_owned).collect()
}

pub(crate) async fn what_is_generated_for_recorded_scenarios_is_taken(rig: Rig) {
    let every = std::env::var_os("PILOTHOUSE_EVERY_SCENARIO").is_some();
    let names = Scenario::names();
    if names.is_empty() {
        return;
    }
    let of_group = |name: &&String| GROUPS.iter().any(|g| name.starts_with(g));
    let chosen = names.iter().filter(of_group);
    let chosen: Vec<&String> = chosen.step_by(if every { 1 } else { STEP }).collect();
    assert!(!chosen.is_empty(), "no scenario is of the groups");
    let extensions = extensions(&rig).await;
    assert!(extensions.len() > 100, "{extensions:?}");
    let mut distinct = Distinct::default();
    for name in chosen {
        let Some(scenario) = Scenario::recorded(name) else {
            return;
        };
        for (proxy, node) in &scenario.nodes {
            let view = scenario.world.view(&with_extensions(node, &extensions));
            for ty in [TypeUrl::Cluster, TypeUrl::Listener, TypeUrl::Route] {
                for resource in scenario.world.set(&view, ty).iter() {
                    distinct.add(&format!("{name}/{proxy}"), ty, &resource.body);
                }
            }
        }
    }
    let counts = [
        distinct.clusters.len(),
        distinct.listeners.len(),
        distinct.routes.len(),
    ];
    eprintln!("distinct clusters, listeners, route configurations: {counts:?}");
    let (bootstrap, came_from) = bootstrap(distinct);
    let file = rig.beside("all.pb");
    std::fs::write(&file, bootstrap.encode_to_vec()).unwrap();
    let output = Command::new(rig.envoy())
        .args(["--mode", "validate", "--log-level", "error", "-c"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let mentioned = came_from.iter().filter(|(name, _)| {
            text.match_indices(name.as_str())
                .any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()))
        });
        panic!(
            "{text}
which are {:?}",
            mentioned.collect::<Vec<_>>()
        );
    }
}
