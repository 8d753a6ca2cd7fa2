//! TCP proxies and the filters around them.
//!
//! Istio: pilot/pkg/networking/core/networkfilter.go, 1.32.

use model::protocol::Protocol;
use prost::{Message, Name};
use prost_types::Duration;
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::filters::network::mongo_proxy::v3::MongoProxy;
use proto_envoy::envoy::extensions::filters::network::redis_proxy::v3::{RedisProxy, redis_proxy};
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3 as tcp;
use proto_envoy::envoy::r#type::v3::{HashPolicy, hash_policy};

use super::parts::TcpParts;
use mesh::capabilities::name;
use mesh::cluster_names;
use policy::filters;
use xds::any;

/// How long a Redis command may take.
const REDIS_SECONDS: i64 = 5;

/// Where a TCP proxy sends connections.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Upstream {
    /// To one cluster.
    Cluster(String),
    /// To one of several, by weight.
    Weighted(Vec<(String, u32)>),
}

/// A TCP proxy.
#[derive(Clone, PartialEq, Debug)]
pub struct Proxy {
    /// Prefix of its statistics.
    pub stat_prefix: String,
    /// Where connections go.
    pub upstream: Upstream,
    /// What the port speaks; some protocols have a filter of their own.
    pub protocol: Protocol,
    /// What the destination asks for.
    pub policy: Policy,
}

/// Where a chain stands among those of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chain {
    /// It takes what no other takes: filters of users are not for it.
    Unmatched,
    /// It is for a port.
    Port(u16),
}

/// What a destination's traffic policy asks of the TCP proxy in front of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Policy {
    /// When idle connections are closed; the proxy's own setting counts where it is not stated.
    pub idle_timeout: Option<Duration>,
    /// When connections are closed at the latest.
    pub max_duration: Option<Duration>,
    /// Whether the endpoint is chosen by the client's address.
    pub hash_source_ip: bool,
    /// A tunnel through the destination: target host and port, and whether it is asked for with POST.
    pub tunnel: Option<(String, bool)>,
}

/// The filters of a chain that ends in a TCP proxy: those of users, metrics, the protocol's own filter, the proxy.
pub fn outbound(parts: &TcpParts, chain: Chain, proxy: Proxy) -> Vec<listener::Filter> {
    let mut filters = before(parts, chain);
    filters.extend(terminal(parts, proxy));
    filters
}

/// The filters of users and metrics.
pub fn before(parts: &TcpParts, chain: Chain) -> Vec<listener::Filter> {
    let mut filters = Vec::new();
    if let Chain::Port(port) = chain {
        filters.extend(parts.security.of_users(port));
    }
    filters.extend(parts.metrics.iter().cloned());
    filters
}

/// The filters of an inbound chain that ends in a TCP proxy: metadata exchange first, so that refusals are counted for
/// the right peer.
pub fn inbound(parts: &TcpParts, port: u16, proxy: Proxy) -> Vec<listener::Filter> {
    let mut filters: Vec<_> = parts.metadata_exchange().into_iter().collect();
    filters.extend(parts.security.of_port(port));
    filters.extend(parts.metrics.iter().cloned());
    filters.extend(terminal(parts, proxy));
    filters
}

/// A TCP proxy that is not logged and has no time limits, as chains have it that exist to refuse.
pub fn unlogged(cluster: &str) -> listener::Filter {
    filters::network(
        name::TCP_PROXY,
        any(&tcp::TcpProxy {
            stat_prefix: cluster.to_owned(),
            cluster_specifier: Some(tcp::tcp_proxy::ClusterSpecifier::Cluster(
                cluster.to_owned(),
            )),
            ..Default::default()
        }),
    )
}

/// The protocol's own filter and the TCP proxy, which end a chain.
pub fn terminal(parts: &TcpParts, proxy: Proxy) -> Vec<listener::Filter> {
    if parts.refuses {
        return vec![unlogged(cluster_names::BLACK_HOLE)];
    }
    let mut filters = Vec::with_capacity(2);
    if proxy.protocol == Protocol::Mongo && parts.capabilities.mongo {
        let config = MongoProxy {
            stat_prefix: proxy.stat_prefix.clone(),
            ..Default::default()
        };
        filters.push(filters::network(name::MONGO_PROXY, any(&config)));
    }
    if proxy.protocol == Protocol::Mysql && parts.capabilities.mysql {
        let config = MySqlProxy {
            stat_prefix: proxy.stat_prefix.clone(),
        };
        filters.push(filters::network(name::MYSQL_PROXY, any(&config)));
    }
    if proxy.protocol == Protocol::Redis && parts.capabilities.redis {
        filters.push(filters::network(name::REDIS_PROXY, any(&redis(proxy))));
        return filters;
    }
    filters.push(filters::network(
        name::TCP_PROXY,
        any(&config(parts, proxy)),
    ));
    filters
}

/// The configuration of Envoy's MySQL filter, which is in no package of Envoy's messages.
#[derive(Clone, PartialEq, Message)]
struct MySqlProxy {
    #[prost(string, tag = "1")]
    stat_prefix: String,
}

impl Name for MySqlProxy {
    const NAME: &'static str = "MySQLProxy";
    const PACKAGE: &'static str = "envoy.extensions.filters.network.mysql_proxy.v3";

    fn type_url() -> String {
        format!("type.googleapis.com/{}.{}", Self::PACKAGE, Self::NAME)
    }
}

/// Ends a chain itself, and sends every command to the endpoint of its key; to one cluster, the first of several.
fn redis(proxy: Proxy) -> RedisProxy {
    use redis_proxy::{ConnPoolSettings, PrefixRoutes, prefix_routes::Route};
    let cluster = match proxy.upstream {
        Upstream::Cluster(name) => name,
        Upstream::Weighted(clusters) => {
            let first = clusters.into_iter().next();
            first.map(|(name, _)| name).unwrap_or_default()
        }
    };
    RedisProxy {
        latency_in_micros: true,
        stat_prefix: proxy.stat_prefix,
        settings: Some(ConnPoolSettings {
            op_timeout: Some(Duration {
                seconds: REDIS_SECONDS,
                nanos: 0,
            }),
            ..Default::default()
        }),
        prefix_routes: Some(PrefixRoutes {
            catch_all_route: Some(Route {
                cluster,
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn config(parts: &TcpParts, proxy: Proxy) -> tcp::TcpProxy {
    use tcp::tcp_proxy::{ClusterSpecifier, TunnelingConfig, WeightedCluster, weighted_cluster};
    let specifier = match proxy.upstream {
        Upstream::Cluster(name) => ClusterSpecifier::Cluster(name),
        Upstream::Weighted(clusters) => ClusterSpecifier::WeightedClusters(WeightedCluster {
            clusters: clusters
                .into_iter()
                .map(|(name, weight)| weighted_cluster::ClusterWeight {
                    name,
                    weight,
                    ..Default::default()
                })
                .collect(),
        }),
    };
    let by_source = HashPolicy {
        policy_specifier: Some(hash_policy::PolicySpecifier::SourceIp(
            hash_policy::SourceIp {},
        )),
    };
    tcp::TcpProxy {
        stat_prefix: proxy.stat_prefix,
        cluster_specifier: Some(specifier),
        idle_timeout: proxy.policy.idle_timeout.or(parts.idle_timeout),
        max_downstream_connection_duration: proxy.policy.max_duration,
        hash_policy: proxy
            .policy
            .hash_source_ip
            .then_some(by_source)
            .into_iter()
            .collect(),
        tunneling_config: proxy
            .policy
            .tunnel
            .map(|(hostname, use_post)| TunnelingConfig {
                hostname,
                use_post,
                ..Default::default()
            }),
        access_log: parts.access_log.clone(),
        ..Default::default()
    }
}
