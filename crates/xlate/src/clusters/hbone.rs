//! Tunnels of ambient meshes (HBONE): what clusters need so that connections to some endpoints run through one.
//!
//! A connection through a tunnel goes to a listener inside the proxy, which sends it by the cluster `connect_originate` as an
//! HTTP/2 CONNECT over mutual TLS.
//!
//! Istio: pilot/pkg/networking/core/{cluster_tls,cluster_waypoint}.go and pilot/pkg/networking/util/internal_upstream.go, 1.32.

use model::settings::Settings;
use policy::authn::trust_domains;
use prost_types::{Duration, Struct};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{
    DiscoveryType, LbConfig, LbPolicy, OriginalDstLbConfig, TransportSocketMatch,
};
use proto_envoy::envoy::config::core::v3::transport_socket::ConfigType;
use proto_envoy::envoy::config::core::v3::{
    Http2ProtocolOptions, HttpProtocolOptions as CommonHttp, TransportSocket,
};
use proto_envoy::envoy::extensions::transport_sockets::internal_upstream::v3::InternalUpstreamTransport;
use proto_envoy::envoy::extensions::transport_sockets::internal_upstream::v3::internal_upstream_transport::MetadataValueSource;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SubjectAltNameMatcher, TlsParameters,
    UpstreamTlsContext,
};
use proto_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use proto_envoy::envoy::r#type::matcher::v3::StringMatcher;
use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use proto_envoy::envoy::r#type::metadata::v3::metadata_key::{PathSegment, path_segment};
use proto_envoy::envoy::r#type::metadata::v3::{MetadataKey, MetadataKind, metadata_kind};
use xds::any;

use super::draft::{Draft, explicit};
use super::metadata::text;
use super::{sds, tls};

/// The cluster that opens tunnels, and the listener that leads to it.
pub(crate) const CONNECT_ORIGINATE: &str = "connect_originate";
/// The metadata that says where a connection is meant to go.
const ORIGINAL_DST: &str = "envoy.filters.listener.original_dst";
/// Where other proxies end tunnels.
const PORT: u32 = 15008;
/// How long tunnels are kept while nothing runs through them.
const IDLE: Duration = Duration {
    seconds: 3600,
    nanos: 0,
};

/// For endpoints that are reached through a tunnel: `inner` is what is spoken inside of it.
pub(super) fn tunnelled(inner: TransportSocket) -> TransportSocketMatch {
    let host = || metadata_kind::Kind::Host(metadata_kind::Host {});
    let cluster = metadata_kind::Kind::Cluster(metadata_kind::Cluster {});
    let passed_on = [
        (host(), ORIGINAL_DST),
        (cluster, "istio"),
        (host(), "istio"),
    ];
    let passed_on = passed_on.map(|(kind, name)| MetadataValueSource {
        kind: Some(MetadataKind { kind: Some(kind) }),
        name: name.to_owned(),
    });
    let socket = InternalUpstreamTransport {
        passthrough_metadata: passed_on.into(),
        transport_socket: Some(inner),
    };
    TransportSocketMatch {
        name: "hbone".to_owned(),
        r#match: Some(Struct {
            fields: [("tunnel".to_owned(), text("http"))].into(),
        }),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.internal_upstream".to_owned(),
            config_type: Some(ConfigType::TypedConfig(any(&socket))),
        }),
    }
}

/// The cluster that opens tunnels to where connections are meant to go.
pub(super) fn connect_originate(settings: &Settings) -> Cluster {
    let mesh = &settings.mesh;
    let mut draft = Draft::new(CONNECT_ORIGINATE.to_owned(), DiscoveryType::OriginalDst);
    draft.cluster.common_lb_config = None;
    draft.cluster.lb_policy = LbPolicy::ClusterProvided as i32;
    super::traffic_policy::apply_connection_pool(&mut draft, mesh, None, None);
    draft.cluster.upstream_connection_options = None;
    draft.cluster.cleanup_interval = Some(Duration {
        seconds: 60,
        nanos: 0,
    });
    let waypoint = path_segment::Segment::Key("waypoint".to_owned());
    draft.cluster.lb_config = Some(LbConfig::OriginalDstLbConfig(OriginalDstLbConfig {
        upstream_port_override: Some(PORT),
        metadata_key: Some(MetadataKey {
            key: ORIGINAL_DST.to_owned(),
            path: vec![PathSegment {
                segment: Some(waypoint),
            }],
        }),
        ..OriginalDstLbConfig::default()
    }));
    draft.http = None;
    let options = draft.http();
    options.common_http_protocol_options = Some(CommonHttp {
        idle_timeout: Some(mesh.hbone_idle_timeout.map_or(IDLE, |d| d.0)),
        ..CommonHttp::default()
    });
    options.upstream_protocol_options = Some(explicit(ProtocolConfig::Http2ProtocolOptions(
        Http2ProtocolOptions {
            allow_connect: true,
            ..Http2ProtocolOptions::default()
        },
    )));
    let context = UpstreamTlsContext {
        common_tls_context: Some(common_tls(settings)),
        ..UpstreamTlsContext::default()
    };
    draft.cluster.transport_socket = Some(TransportSocket {
        name: "tls".to_owned(),
        config_type: Some(ConfigType::TypedConfig(any(&context))),
    });
    draft.finish()
}

/// Mutual TLS with whoever has an identity of the mesh.
///
/// Istio: buildCommonConnectTLSContext.
fn common_tls(settings: &Settings) -> CommonTlsContext {
    let peers = trust_domains(&settings.mesh).into_iter().map(|domain| {
        let prefix = MatchPattern::Prefix(format!("spiffe://{domain}/"));
        SubjectAltNameMatcher {
            san_type: SanType::Uri as i32,
            matcher: Some(StringMatcher {
                match_pattern: Some(prefix),
                ..StringMatcher::default()
            }),
            ..SubjectAltNameMatcher::default()
        }
    });
    let peers = CertificateValidationContext {
        match_typed_subject_alt_names: peers.collect(),
        ..CertificateValidationContext::default()
    };
    CommonTlsContext {
        tls_params: Some(TlsParameters {
            tls_minimum_protocol_version: TlsProtocol::TlSv13 as i32,
            tls_maximum_protocol_version: TlsProtocol::TlSv13 as i32,
            ..TlsParameters::default()
        }),
        tls_certificate_sds_secret_configs: vec![sds::workload(sds::OWN)],
        validation_context_type: Some(tls::combined(peers, sds::workload(sds::ROOT))),
        alpn_protocols: vec!["h2".to_owned()],
        ..CommonTlsContext::default()
    }
}
