//! Filters that are the same wherever they stand.
//!
//! Istio: pilot/pkg/xds/filters/filters.go, 1.32.

use std::collections::BTreeMap;

use prost::{Message, Name};
use prost_types::value::Kind;
use prost_types::{Any, Struct, Value};
use proto_envoy::envoy::config::core::v3::GrpcService;
use proto_envoy::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::extensions::filters::http::ext_proc::v3::metadata_options::MetadataNamespaces;
use proto_envoy::envoy::extensions::filters::http::ext_proc::v3::processing_mode::HeaderSendMode;
use proto_envoy::envoy::extensions::filters::http::ext_proc::v3::{
    ExternalProcessor, MetadataOptions, ProcessingMode,
};
use proto_envoy::envoy::extensions::filters::http::{
    cors::v3::Cors,
    fault::v3::HttpFault,
    grpc_stats::v3::{FilterConfig as GrpcStats, filter_config::PerMethodStatSpecifier},
    grpc_web::v3::GrpcWeb,
    router::v3::Router,
    stateful_session::v3::StatefulSession,
};
use proto_envoy::envoy::extensions::filters::listener::{
    http_inspector::v3::HttpInspector, original_dst::v3::OriginalDst,
    original_src::v3::OriginalSrc, proxy_protocol::v3::ProxyProtocol,
    tls_inspector::v3::TlsInspector,
};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::udpa::r#type::v1::TypedStruct;
use proto_istio::filters::alpn;

use mesh::capabilities::name;
use mesh::class::Class;
use xds::any;

/// The transport protocol of connections that the TLS inspector found to be TLS.
pub const TLS_TRANSPORT: &str = "tls";
/// The transport protocol of all others.
pub const RAW_BUFFER_TRANSPORT: &str = "raw_buffer";

/// The mark that the original source filter puts on connections, which iptables rules of the injector leave alone.
const ORIGINAL_SOURCE_MARK: u32 = 1337;
/// Bytes that the TLS inspector reads at first; Envoy's own default is 64 KiB.
const TLS_INSPECTOR_READ_BYTES: u32 = 512;

/// A network filter around its configuration.
pub fn network(name: &str, config: Any) -> listener::Filter {
    listener::Filter {
        name: name.to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(config)),
    }
}

/// An HTTP filter around its configuration.
pub fn http(name: &str, config: Any) -> hcm::HttpFilter {
    hcm::HttpFilter {
        name: name.to_owned(),
        config_type: Some(hcm::http_filter::ConfigType::TypedConfig(config)),
        ..Default::default()
    }
}

fn of_listener<M: Message + Name>(name: &str, config: &M) -> listener::ListenerFilter {
    listener::ListenerFilter {
        name: name.to_owned(),
        filter_disabled: None,
        config_type: Some(listener::listener_filter::ConfigType::TypedConfig(any(
            config,
        ))),
    }
}

/// Reads the client's address from the header of the PROXY protocol.
pub fn proxy_protocol() -> listener::ListenerFilter {
    of_listener(name::PROXY_PROTOCOL, &ProxyProtocol::default())
}

/// Finds out where the client wanted to go.
pub fn original_dst() -> listener::ListenerFilter {
    of_listener(name::ORIGINAL_DST, &OriginalDst {})
}

/// Keeps the client's address towards the workload.
pub fn original_src() -> listener::ListenerFilter {
    of_listener(
        name::ORIGINAL_SRC,
        &OriginalSrc {
            mark: ORIGINAL_SOURCE_MARK,
            ..Default::default()
        },
    )
}

/// Finds out whether the client speaks TLS, and to whom.
pub fn tls_inspector() -> listener::ListenerFilter {
    of_listener(
        name::TLS_INSPECTOR,
        &TlsInspector {
            initial_read_buffer_size: Some(TLS_INSPECTOR_READ_BYTES),
            ..Default::default()
        },
    )
}

/// Finds out whether the client speaks HTTP.
pub fn http_inspector() -> listener::ListenerFilter {
    of_listener(name::HTTP_INSPECTOR, &HttpInspector::default())
}

/// The namespace of a request's metadata in which an endpoint picker and load balancing speak to each other.
pub const PICKER_METADATA: &str = "envoy.lb";
/// How long a connection to an endpoint picker may take.
const PICKER_TIMEOUT: i64 = 10;
/// How long it may take to answer.
const PICKER_MESSAGE_TIMEOUT: i64 = 1000;

/// Endpoint pickers, configured by routes; where a route says nothing, it does nothing.
pub fn endpoint_picker() -> hcm::HttpFilter {
    let namespaces = || {
        Some(MetadataNamespaces {
            untyped: vec![PICKER_METADATA.to_owned()],
            ..MetadataNamespaces::default()
        })
    };
    let seconds = |seconds| prost_types::Duration { seconds, nanos: 0 };
    let config = ExternalProcessor {
        grpc_service: Some(GrpcService {
            // Routes name the picker's.
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: "dummy".to_owned(),
                ..EnvoyGrpc::default()
            })),
            timeout: Some(seconds(PICKER_TIMEOUT)),
            ..GrpcService::default()
        }),
        failure_mode_allow: true,
        processing_mode: Some(ProcessingMode {
            request_header_mode: HeaderSendMode::Skip as i32,
            response_header_mode: HeaderSendMode::Skip as i32,
            ..ProcessingMode::default()
        }),
        message_timeout: Some(seconds(PICKER_MESSAGE_TIMEOUT)),
        metadata_options: Some(MetadataOptions {
            forwarding_namespaces: namespaces(),
            receiving_namespaces: namespaces(),
            ..MetadataOptions::default()
        }),
        ..ExternalProcessor::default()
    };
    http(name::EXT_PROC, any(&config))
}

/// CORS, configured by routes.
pub fn cors() -> hcm::HttpFilter {
    http(name::CORS, any(&Cors {}))
}

/// Faults, configured by routes.
pub fn fault() -> hcm::HttpFilter {
    http(name::FAULT, any(&HttpFault::default()))
}

/// gRPC-Web to gRPC.
pub fn grpc_web() -> hcm::HttpFilter {
    http(name::GRPC_WEB, any(&GrpcWeb {}))
}

/// Counts gRPC messages for the metrics.
pub fn grpc_stats() -> hcm::HttpFilter {
    http(
        name::GRPC_STATS,
        any(&GrpcStats {
            emit_filter_state: true,
            per_method_stat_specifier: Some(PerMethodStatSpecifier::StatsForAllMethods(false)),
            ..Default::default()
        }),
    )
}

/// Sessions bound to endpoints, configured by routes.
pub fn stateful_session() -> hcm::HttpFilter {
    http(name::STATEFUL_SESSION, any(&StatefulSession::default()))
}

/// Sends the request on.
pub fn router(suppress_debug_headers: bool) -> hcm::HttpFilter {
    http(
        name::ROUTER,
        any(&Router {
            suppress_envoy_headers: suppress_debug_headers,
            ..Default::default()
        }),
    )
}

/// States to mesh servers in the ALPN which HTTP version is spoken inside the mutual TLS.
pub fn alpn_override() -> hcm::HttpFilter {
    use alpn::filter_config::{AlpnOverride, Protocol};
    let offer = |protocol: Protocol, names: [&str; 3]| AlpnOverride {
        upstream_protocol: protocol as i32,
        alpn_override: names.map(str::to_owned).into(),
    };
    let config = alpn::FilterConfig {
        alpn_override: vec![
            offer(Protocol::Http10, ["istio-http/1.0", "istio", "http/1.0"]),
            offer(Protocol::Http11, ["istio-http/1.1", "istio", "http/1.1"]),
            offer(Protocol::Http2, ["istio-h2", "istio", "h2"]),
        ],
    };
    http(name::ALPN, any(&config))
}

/// Exchanges metadata of the peers in the headers of requests and responses. Towards services outside of the mesh the
/// headers are left out if `in_mesh_only`.
pub fn http_metadata_exchange(class: Class, in_mesh_only: bool) -> hcm::HttpFilter {
    let headers = || object([("istio_headers", object([]))]);
    let discovery = || list([headers(), object([("workload_discovery", object([]))])]);
    let fields = if class == Class::SidecarInbound {
        vec![
            ("downstream_discovery", discovery()),
            ("downstream_propagation", list([headers()])),
        ]
    } else {
        let propagation = if in_mesh_only {
            object([(
                "istio_headers",
                object([("skip_external_clusters", Kind::BoolValue(true))]),
            )])
        } else {
            headers()
        };
        vec![
            ("upstream_discovery", discovery()),
            ("upstream_propagation", list([propagation])),
        ]
    };
    http(
        name::METADATA_EXCHANGE,
        typed_struct(
            "type.googleapis.com/io.istio.http.peer_metadata.Config",
            fields,
        ),
    )
}

/// Exchanges metadata of the peers at the start of a connection, if both agree on it by ALPN.
pub fn tcp_metadata_exchange() -> listener::Filter {
    network(
        name::METADATA_EXCHANGE,
        typed_struct(
            "type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange",
            [
                (
                    "protocol",
                    Kind::StringValue("istio-peer-exchange".to_owned()),
                ),
                ("enable_discovery", Kind::BoolValue(true)),
            ],
        ),
    )
}

/// A configuration whose message Envoy finds by name at run time.
pub fn typed_struct(type_url: &str, fields: impl IntoIterator<Item = (&'static str, Kind)>) -> Any {
    any(&TypedStruct {
        type_url: type_url.to_owned(),
        value: Some(structure(fields)),
    })
}

fn structure(fields: impl IntoIterator<Item = (&'static str, Kind)>) -> Struct {
    Struct {
        fields: fields
            .into_iter()
            .map(|(key, kind)| (key.to_owned(), Value { kind: Some(kind) }))
            .collect::<BTreeMap<_, _>>(),
    }
}

fn object<const N: usize>(fields: [(&'static str, Kind); N]) -> Kind {
    Kind::StructValue(structure(fields))
}

fn list<const N: usize>(items: [Kind; N]) -> Kind {
    Kind::ListValue(prost_types::ListValue {
        values: items
            .into_iter()
            .map(|kind| Value { kind: Some(kind) })
            .collect(),
    })
}
