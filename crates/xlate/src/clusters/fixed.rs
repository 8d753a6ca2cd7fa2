//! Clusters that every proxy of a role has, whatever services there are.
//!
//! Istio: pilot/pkg/networking/core/cluster_builder.go, 1.32.

use std::sync::Arc;

use incr::{Cx, Query};
use model::settings::Settings;
use prost_types::Duration;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{DiscoveryType, LbPolicy};
use proto_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use proto_envoy::envoy::config::core::v3::{
    BindConfig, ExtraSourceAddress, Http1ProtocolOptions, HttpProtocolOptions as CommonHttp,
    SocketAddress, TransportSocket, transport_socket::ConfigType,
};
use proto_envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use proto_envoy::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
};
use proto_envoy::envoy::extensions::clusters::dynamic_forward_proxy::v3::ClusterConfig;
use proto_envoy::envoy::extensions::clusters::dynamic_forward_proxy::v3::cluster_config::ClusterImplementationSpecifier;
use proto_envoy::envoy::extensions::common::dynamic_forward_proxy::v3::DnsCacheConfig;
use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode;
use store::{Reads, Snapshot};

use super::agent_dns::AgentDns;
use super::client::ClusterClient;
use super::draft::{Draft, as_client, header_case};
use super::outbound::{NO_REGISTRY, lookup_family};
use super::{encode, hbone, metadata_exchange, sds, tls, traffic_policy};
use crate::judged;
use crate::load_assignment::groups;
use mesh::cluster_names;
use mesh::view::Families;
use policy::envoy_filter::{Context, Patches};
use xds::{Resource, any};

/// How long connections of nobody's service may be idle.
const IDLE: Duration = Duration {
    seconds: 300,
    nanos: 0,
};
/// The address that tells the workload's own redirection rules apart from connections of others.
const SOURCE_V4: &str = "127.0.0.6";
const SOURCE_V6: &str = "::6";
/// The socket of a server of the user's.
const CREDENTIAL_SOCKET: &str = "./var/run/secrets/credential-uds/socket";
/// How many hosts the proxy of any host keeps.
const MAX_HOSTS: u32 = 1024;

/// The clusters of one kind of proxy that do not depend on services.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FixedClusters {
    pub(super) client: Arc<ClusterClient>,
    /// Whether hosts that no service has are resolved as requests come.
    pub(super) any_dynamic_dns: bool,
    /// The DNS server of the agent, where it is asked for them.
    pub(super) agent_dns: Option<AgentDns>,
    /// Patches that may concern them.
    pub(super) patches: Patches<Cluster>,
}

impl Query<Snapshot> for FixedClusters {
    type Value = Arc<[Arc<Resource>]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let (settings, client) = (cx.settings(), &*self.client);
        let outbound = client.context();
        let mut made = vec![(outbound, black_hole(settings))];
        if client.is_sidecar() {
            made.push((outbound, passthrough(settings, client)));
            let inbound = inbound_passthrough(settings, client);
            made.push((Context::SidecarInbound, inbound));
        }
        if self.any_dynamic_dns {
            let cache = allow_any_dns_cache(settings, client.families, self.agent_dns);
            made.push((outbound, allow_any_dynamic_dns(settings, client, cache)));
        }
        let mut encoded: Vec<Arc<Resource>> = made
            .into_iter()
            .filter_map(|(context, cluster)| encode(&self.patches, context, cluster, &[]))
            .collect();
        // The proxy's own ways to its credentials and into tunnels are not patched.
        if client.credential_socket {
            let cluster = external_sds(settings);
            encoded.extend(judged::cluster(&cluster, Vec::new()));
        }
        if client.tunnels {
            let cluster = hbone::connect_originate(settings);
            encoded.extend(judged::cluster(&cluster, Vec::new()));
        }
        encoded.into()
    }
}

/// Takes what no route takes, and drops it.
fn black_hole(settings: &Settings) -> Cluster {
    let mut draft = Draft::new(cluster_names::BLACK_HOLE.to_owned(), DiscoveryType::Static);
    draft.cluster.common_lb_config = None;
    draft.cluster.connect_timeout = settings.mesh.connect_timeout.map(|d| d.0);
    draft.finish()
}

fn draft_passthrough<'a>(settings: &Settings, client: &ClusterClient) -> Draft<'a> {
    let mut draft = Draft::new(
        cluster_names::PASSTHROUGH.to_owned(),
        DiscoveryType::OriginalDst,
    );
    draft.cluster.common_lb_config = None;
    draft.cluster.lb_policy = LbPolicy::ClusterProvided as i32;
    let mesh = &settings.mesh;
    let default = mesh.default_traffic_policy.as_ref();
    // The options below are set by themselves: what a pool says of HTTP does not apply.
    let pool = default.and_then(|d| d.connection_pool.as_ref());
    traffic_policy::apply_connection_pool(&mut draft, mesh, pool, None);
    draft.http = None;
    let options = draft.http();
    options.common_http_protocol_options = Some(CommonHttp {
        idle_timeout: Some(IDLE),
        ..CommonHttp::default()
    });
    options.upstream_protocol_options = Some(as_client(if client.keep_header_case {
        header_case()
    } else {
        Http1ProtocolOptions::default()
    }));
    draft
}

/// Goes where the client meant to go.
fn passthrough(settings: &Settings, client: &ClusterClient) -> Cluster {
    let mut draft = draft_passthrough(settings, client);
    metadata_exchange(&mut draft.cluster, client.metadata_exchange);
    draft.finish()
}

/// Goes to the port of the workload that the client dialled.
fn inbound_passthrough(settings: &Settings, client: &ClusterClient) -> Cluster {
    let mut draft = draft_passthrough(settings, client);
    cluster_names::INBOUND_PASSTHROUGH.clone_into(&mut draft.cluster.name);
    let Families { v4, v6 } = client.families;
    let first = if v4 { SOURCE_V4 } else { SOURCE_V6 };
    let further = (v4 && v6).then_some(SOURCE_V6);
    draft.cluster.upstream_bind_config = Some(bind(first, further));
    draft.finish()
}

fn bind(first: &str, further: Option<&str>) -> BindConfig {
    let any_port = |address: &str| SocketAddress {
        address: address.to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(0)),
        ..SocketAddress::default()
    };
    BindConfig {
        source_address: Some(any_port(first)),
        extra_source_addresses: further
            .into_iter()
            .map(|address| ExtraSourceAddress {
                address: Some(any_port(address)),
                ..ExtraSourceAddress::default()
            })
            .collect(),
        ..BindConfig::default()
    }
}

/// The source address of connections to the workload's own ports.
///
/// Istio: pilot/pkg/networking/core/listener_address.go getPassthroughBindIPs, 1.32.
pub(super) fn inbound_bind(settings: &Settings, families: Families) -> BindConfig {
    let dual = settings.features.dual_stack;
    match (families.v4, families.v6) {
        (true, true) => bind(SOURCE_V4, dual.then_some(SOURCE_V6)),
        (true, false) => bind(SOURCE_V4, None),
        _ => bind(SOURCE_V6, None),
    }
}

/// Resolves whatever host a request names.
fn allow_any_dynamic_dns(
    settings: &Settings,
    client: &ClusterClient,
    cache: DnsCacheConfig,
) -> Cluster {
    let mesh = &settings.mesh;
    let tls = mesh
        .outbound_traffic_policy
        .as_ref()
        .and_then(|p| p.tls.as_ref())
        .filter(|t| t.mode != TlSmode::Disable as i32);
    let config = ClusterConfig {
        allow_insecure_cluster_options: tls.is_none(),
        cluster_implementation_specifier: Some(ClusterImplementationSpecifier::DnsCacheConfig(
            cache,
        )),
        ..ClusterConfig::default()
    };
    let mut draft = Draft::dynamic(cluster_names::ALLOW_ANY_DYNAMIC_DNS.to_owned(), config);
    traffic_policy::apply_connection_pool(&mut draft, mesh, None, None);
    let passthrough = draft_passthrough(settings, client).http;
    match tls {
        None => draft.http = passthrough,
        Some(settings) => {
            originate(&mut draft, client, mesh, settings);
            // What TLS needs goes over the options of connections to anywhere.
            if draft.http.is_none() {
                draft.http = passthrough;
            }
        }
    }
    metadata_exchange(&mut draft.cluster, client.metadata_exchange);
    draft.finish()
}

fn originate(
    draft: &mut Draft<'_>,
    client: &ClusterClient,
    mesh: &model::settings::MeshConfig,
    settings: &ClientTlsSettings,
) {
    let peer = tls::Peer {
        identities: &[],
        sni: "",
        external: false,
        registry: NO_REGISTRY,
        accepts: None,
        selected: false,
    };
    let context = tls::context(draft, client, mesh, &tls::Tls::as_written(settings), &peer);
    if let Some(context) = context {
        draft.cluster.transport_socket = Some(TransportSocket {
            name: tls::TLS.to_owned(),
            config_type: Some(ConfigType::TypedConfig(any(&context))),
        });
    }
}

/// The DNS cache of [`allow_any_dynamic_dns`], which the filters before it share.
///
/// Istio: pilot/pkg/networking/core/networkfilter.go buildAllowAnyDynamicDNSDNSCacheConfig, 1.32.
pub(crate) fn allow_any_dns_cache(
    settings: &Settings,
    families: Families,
    agent: Option<AgentDns>,
) -> DnsCacheConfig {
    DnsCacheConfig {
        name: cluster_names::ALLOW_ANY_DNS_CACHE.to_owned(),
        max_hosts: Some(MAX_HOSTS),
        dns_lookup_family: lookup_family(settings, families) as i32,
        typed_dns_resolver_config: agent.map(AgentDns::resolver),
        ..DnsCacheConfig::default()
    }
}

/// The server of the user's that has credentials.
fn external_sds(settings: &Settings) -> Cluster {
    let mut draft = Draft::new(sds::EXTERNAL.to_owned(), DiscoveryType::Static);
    draft.cluster.common_lb_config = None;
    draft.cluster.connect_timeout = settings.mesh.connect_timeout.map(|d| d.0);
    draft.speak_http2();
    draft.cluster.load_assignment =
        Some(assignment(sds::EXTERNAL, groups::pipe(CREDENTIAL_SOCKET)));
    draft.finish()
}

/// An assignment of one address.
pub(super) fn assignment(
    cluster: &str,
    address: proto_envoy::envoy::config::core::v3::Address,
) -> ClusterLoadAssignment {
    let endpoint = Endpoint {
        address: Some(address),
        ..Endpoint::default()
    };
    ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: vec![LbEndpoint {
                host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
                ..LbEndpoint::default()
            }],
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}
