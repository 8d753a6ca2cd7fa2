//! HTTP connection managers, with their filters in Istio's order.
//!
//! Istio: pilot/pkg/networking/core/listener_builder.go buildHTTPConnectionManager, 1.32.

mod connection;

use prost_types::Duration;
use proto_envoy::envoy::config::accesslog::v3::AccessLog;
use proto_envoy::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, CidrRange, ConfigSource, Http1ProtocolOptions,
    Http2ProtocolOptions, Http3ProtocolOptions, HttpProtocolOptions, TypedExtensionConfig,
    config_source, http1_protocol_options,
};
use proto_envoy::envoy::config::listener::v3 as listener;
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::envoy::extensions::http::header_formatters::preserve_case::v3::PreserveCaseFormatterConfig;
use proto_envoy::envoy::extensions::request_id::uuid::v3::UuidRequestIdConfig;
use proto_istio::mesh::mesh_config::proxy_path_normalization::NormalizationType;
use proto_istio::mesh::network::network_endpoints::Ne;
use proto_istio::mesh::proxy_config::ConnectionSettings;
use proto_istio::mesh::{ForwardClientCertDetails, MeshConfig, MeshNetworks, Topology};

use hcm::http_connection_manager::{
    CodecType, ForwardClientCertDetails as EnvoyClientCert, InternalAddressConfig,
    PathWithEscapedSlashesAction, RouteSpecifier, SetCurrentClientCertDetails, UpgradeConfig,
};

use super::refusal;
use super::tracing::TracingConfig;
use crate::proxy_headers::ProxyHeaders;
use mesh::capabilities::{Capabilities, name};
use mesh::class::Class;
use policy::edge::keep_stated;
use policy::filters;
use policy::traffic_extension::Phases;
use xds::any;

/// What the connection managers of one side of a proxy are made of.
pub struct Input<'a> {
    /// Which side.
    pub class: Class,
    /// Mesh config.
    pub mesh: &'a MeshConfig,
    /// Networks, whose address ranges are internal.
    pub networks: &'a MeshNetworks,
    /// Headers added.
    pub headers: ProxyHeaders,
    /// Limits and time limits that the proxy's configuration states.
    pub connection: Option<ConnectionSettings>,
    /// What the proxy can load.
    pub capabilities: Capabilities,
    /// Whether HTTP/1.0 is accepted.
    pub http10: bool,
    /// Whether routes may bind sessions to endpoints.
    pub sessions: bool,
    /// When idle connections are closed, if the proxy states it.
    pub idle_timeout: Option<Duration>,
    /// Loggers.
    pub access_log: Vec<AccessLog>,
    /// Tracing.
    pub tracing: TracingConfig,
    /// Metrics filters.
    pub metrics: Vec<hcm::HttpFilter>,
    /// Filters that check who asks and whether they may, and those of users.
    pub security: Phases<hcm::HttpFilter>,
    /// Extensions of such filters that the proxy lacks; if there are any, every request is refused.
    pub missing: Vec<String>,
    /// What stands before a gateway.
    pub topology: Option<Topology>,
}

/// What the connection managers of one side of a proxy have in common.
#[derive(Clone, PartialEq, Debug)]
pub struct HttpParts {
    /// Which side.
    pub class: Class,
    /// Headers added.
    pub headers: ProxyHeaders,
    /// Extensions that protect and that the proxy lacks; if there are any, every request is refused.
    missing: Vec<String>,
    /// Everything but statistics prefix, routes and filters.
    common: hcm::HttpConnectionManager,
    /// The exchange of metadata, before everything else.
    first: Option<hcm::HttpFilter>,
    /// Filters that check who asks and whether they may, and those of users.
    security: Phases<hcm::HttpFilter>,
    /// Filters after the place of gRPC-Web, without those for one listener alone and without the router.
    then: Vec<hcm::HttpFilter>,
    /// Address ranges inside the mesh.
    internal_addresses: Option<InternalAddressConfig>,
}

/// What one connection manager does differently.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Prefix of its statistics, without the delimiter.
    pub stat_prefix: String,
    /// Whether that prefix is a user's, which is taken as it is.
    pub stat_prefix_stated: bool,
    /// Whether HTTP/3 is spoken, and nothing else.
    pub http3: bool,
    /// Its routes.
    pub routes: Routes,
    /// Whether endpoint pickers choose where some of its requests go.
    pub picks: bool,
    /// Whether gRPC-Web is translated.
    pub grpc_web: bool,
    /// Whether the port speaks HTTP/2.
    pub http2: bool,
    /// Whether requests name whole URLs, as to a forward proxy.
    pub absolute_urls: bool,
    /// The port by which filters of users are chosen.
    pub port: u16,
    /// Whether the address of the connection is trusted as the client's.
    pub use_remote_address: bool,
    /// Filters that resolve names, for hosts that are found as requests come.
    pub forward_proxies: Vec<hcm::HttpFilter>,
    /// Filters that routes of an edge ask for.
    pub edge: Vec<hcm::HttpFilter>,
    /// A filter that they ask for before all that decide about requests.
    pub edge_first: Option<hcm::HttpFilter>,
    /// Extensions of those that the proxy lacks; if there are any, every request is refused.
    pub missing: Vec<String>,
    /// Whether routing adds no `x-envoy-` headers.
    pub hides_envoy_headers: bool,
    /// Whether what clients state of `x-forwarded-for` is kept.
    pub keeps_forwarded: bool,
}

/// Where routes come from.
#[derive(Clone, Debug)]
pub enum Routes {
    /// The route configuration of that name.
    Named(String),
    /// These.
    Inline(Box<RouteConfiguration>),
}

impl Default for Routes {
    fn default() -> Self {
        Routes::Named(String::new())
    }
}

impl HttpParts {
    /// Builds what is common.
    pub fn new(input: Input<'_>) -> Self {
        let (class, capabilities) = (input.class, input.capabilities);
        let headers = &input.headers;
        let mut common = hcm::HttpConnectionManager {
            server_name: headers.server_name.clone(),
            server_header_transformation: headers.server_transformation as i32,
            generate_request_id: headers.generate_request_id,
            append_x_forwarded_port: headers.forwarded_port,
            upgrade_configs: vec![UpgradeConfig {
                upgrade_type: "websocket".to_owned(),
                ..Default::default()
            }],
            stream_idle_timeout: Some(Duration::default()),
            proxy_100_continue: true,
            request_id_extension: Some(request_id(input.tracing.use_request_id)),
            http_protocol_options: http1_options(&input),
            common_http_protocol_options: input.idle_timeout.map(|idle| HttpProtocolOptions {
                idle_timeout: Some(idle),
                ..Default::default()
            }),
            ..Default::default()
        };
        if class == Class::SidecarInbound {
            common.forward_client_cert_details = headers.forward_client_cert as i32;
            common.set_current_client_cert_details = Some(headers.client_cert_details);
        }
        if class == Class::Gateway {
            of_gateway(&mut common, input.topology.as_ref());
        }
        normalize(&mut common, input.mesh);
        if let Some(stated) = &input.connection {
            connection::apply(&mut common, stated);
        }

        // Metadata exchange comes before whatever may refuse a request, so that refusals are counted for the right peer.
        let first = capabilities
            .metadata_exchange
            .then(|| filters::http_metadata_exchange(class, headers.metadata_in_mesh_only));
        let mut then = vec![filters::grpc_stats()];
        if capabilities.alpn && class != Class::SidecarInbound {
            then.push(filters::alpn_override());
        }
        then.extend([filters::fault(), filters::cors()]);
        then.extend(input.metrics.iter().cloned());
        if input.sessions && class != Class::SidecarInbound {
            then.push(filters::stateful_session());
        }

        common.access_log = input.access_log;
        common.tracing = input.tracing.tracing;
        Self {
            class,
            internal_addresses: internal_addresses(input.networks),
            headers: input.headers,
            missing: input.missing,
            common,
            first,
            security: input.security,
            then,
        }
    }

    /// A connection manager.
    pub fn connection_manager(&self, options: Options) -> hcm::HttpConnectionManager {
        let mut manager = self.common.clone();
        manager.stat_prefix = if options.stat_prefix_stated {
            options.stat_prefix
        } else {
            format!("{};", options.stat_prefix)
        };
        if options.http3 {
            manager.codec_type = CodecType::Http3 as i32;
            manager.http3_protocol_options = Some(Http3ProtocolOptions::default());
        }
        manager.route_specifier = Some(match options.routes {
            _ if !self.missing.is_empty() => {
                RouteSpecifier::RouteConfig(refusal::routes(&self.missing))
            }
            _ if !options.missing.is_empty() => {
                RouteSpecifier::RouteConfig(refusal::routes(&options.missing))
            }
            Routes::Named(name) => RouteSpecifier::Rds(rds(name)),
            Routes::Inline(config) => RouteSpecifier::RouteConfig(*config),
        });
        manager.use_remote_address = Some(options.use_remote_address);
        if options.use_remote_address {
            manager
                .internal_address_config
                .clone_from(&self.internal_addresses);
        }
        if options.http2 {
            manager
                .http2_protocol_options
                .get_or_insert_with(Http2ProtocolOptions::default);
        }
        if options.absolute_urls {
            manager
                .http_protocol_options
                .get_or_insert_with(Http1ProtocolOptions::default)
                .allow_absolute_url = Some(true);
        }
        let mut after_security = Vec::new();
        after_security.extend(options.picks.then(filters::endpoint_picker));
        after_security.extend(options.grpc_web.then(filters::grpc_web));
        // Where `/admin` asks for a password, `//admin` must not lead around it: nginx takes them for one path.
        manager.merge_slashes |= !options.edge.is_empty();
        if options.keeps_forwarded {
            manager.early_header_mutation_extensions.push(keep_stated());
        }
        // Nor must a host with a dot at its end lead to the rules of every host.
        manager.strip_trailing_host_dot |= !options.edge.is_empty();
        let mut last = options.edge;
        last.extend(options.forward_proxies);
        let hides = options.hides_envoy_headers;
        let first = options.edge_first;
        manager.http_filters = self.filters(options.port, first, after_security, last, hides);
        manager
    }

    /// The network filter of a connection manager.
    pub fn filter(&self, options: Options) -> listener::Filter {
        filters::network(
            name::HTTP_CONNECTION_MANAGER,
            any(&self.connection_manager(options)),
        )
    }

    fn filters(
        &self,
        port: u16,
        first: Option<hcm::HttpFilter>,
        after_security: Vec<hcm::HttpFilter>,
        last: Vec<hcm::HttpFilter>,
        hides_envoy_headers: bool,
    ) -> Vec<hcm::HttpFilter> {
        let router = filters::router(self.headers.suppress_debug_headers || hides_envoy_headers);
        self.first
            .iter()
            .cloned()
            .chain(first)
            .chain(self.security.of_port(port))
            .chain(after_security)
            .chain(self.then.iter().cloned())
            .chain(last)
            .chain([router])
            .collect()
    }
}

/// What a gateway does with the addresses and certificates of its clients.
///
/// Istio: pilot/pkg/networking/core/gateway.go buildGatewayConnectionManager, 1.32.
fn of_gateway(manager: &mut hcm::HttpConnectionManager, topology: Option<&Topology>) {
    let stated = topology.map_or(ForwardClientCertDetails::Undefined, |t| {
        t.forward_client_cert_details()
    });
    let details = match stated {
        ForwardClientCertDetails::Undefined | ForwardClientCertDetails::SanitizeSet => {
            EnvoyClientCert::SanitizeSet
        }
        ForwardClientCertDetails::Sanitize => EnvoyClientCert::Sanitize,
        ForwardClientCertDetails::ForwardOnly => EnvoyClientCert::ForwardOnly,
        ForwardClientCertDetails::AppendForward => EnvoyClientCert::AppendForward,
        ForwardClientCertDetails::AlwaysForwardOnly => EnvoyClientCert::AlwaysForwardOnly,
    };
    manager.xff_num_trusted_hops = topology.map_or(0, |t| t.num_trusted_proxies);
    manager.forward_client_cert_details = details as i32;
    if matches!(
        details,
        EnvoyClientCert::AppendForward | EnvoyClientCert::SanitizeSet
    ) {
        manager.set_current_client_cert_details = Some(SetCurrentClientCertDetails {
            subject: Some(true),
            cert: true,
            dns: true,
            uri: true,
            ..Default::default()
        });
    }
    manager
        .http_protocol_options
        .get_or_insert_with(Http1ProtocolOptions::default);
}

fn http1_options(input: &Input<'_>) -> Option<Http1ProtocolOptions> {
    if !input.http10 && !input.headers.preserve_case {
        return None;
    }
    let formatter = || {
        use http1_protocol_options::{HeaderKeyFormat, header_key_format::HeaderFormat};
        HeaderKeyFormat {
            header_format: Some(HeaderFormat::StatefulFormatter(TypedExtensionConfig {
                name: "preserve_case".to_owned(),
                typed_config: Some(any(&PreserveCaseFormatterConfig::default())),
            })),
        }
    };
    Some(Http1ProtocolOptions {
        accept_http_10: input.http10,
        header_key_format: input.headers.preserve_case.then(formatter),
        ..Default::default()
    })
}

fn normalize(manager: &mut hcm::HttpConnectionManager, mesh: &MeshConfig) {
    let stated = mesh
        .path_normalization
        .as_ref()
        .map_or(NormalizationType::Default, |p| p.normalization());
    let (normalize, merge, unescape) = match stated {
        NormalizationType::None => (false, false, false),
        NormalizationType::Default | NormalizationType::Base => (true, false, false),
        NormalizationType::MergeSlashes => (true, true, false),
        NormalizationType::DecodeAndMergeSlashes => (true, true, true),
    };
    manager.normalize_path = Some(normalize);
    manager.merge_slashes = merge;
    manager.path_with_escaped_slashes_action = if unescape {
        PathWithEscapedSlashesAction::UnescapeAndForward as i32
    } else {
        PathWithEscapedSlashesAction::KeepUnchanged as i32
    };
}

fn request_id(use_for_sampling: bool) -> hcm::RequestIdExtension {
    hcm::RequestIdExtension {
        typed_config: Some(any(&UuidRequestIdConfig {
            use_request_id_for_trace_sampling: Some(use_for_sampling),
            ..Default::default()
        })),
    }
}

fn rds(name: String) -> hcm::Rds {
    hcm::Rds {
        config_source: Some(ConfigSource {
            config_source_specifier: Some(config_source::ConfigSourceSpecifier::Ads(
                AggregatedConfigSource {},
            )),
            initial_fetch_timeout: Some(Duration::default()),
            resource_api_version: ApiVersion::V3 as i32,
            ..Default::default()
        }),
        route_config_name: name,
    }
}

/// The address ranges of the mesh's networks, sorted.
fn internal_addresses(networks: &MeshNetworks) -> Option<InternalAddressConfig> {
    let mut ranges: Vec<ipnet::IpNet> = networks
        .networks
        .values()
        .flat_map(|network| &network.endpoints)
        .filter_map(|endpoints| match &endpoints.ne {
            Some(Ne::FromCidr(range)) => mesh::address::prefix(range),
            _ => None,
        })
        .collect();
    ranges.sort_by_key(|range| (range.addr(), range.prefix_len()));
    (!ranges.is_empty()).then(|| InternalAddressConfig {
        cidr_ranges: ranges
            .iter()
            .map(|range| CidrRange {
                address_prefix: range.addr().to_string(),
                prefix_len: Some(u32::from(range.prefix_len())),
            })
            .collect(),
        ..Default::default()
    })
}
