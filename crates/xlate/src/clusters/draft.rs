//! A cluster while it is made: what has to stay typed until the end.

use prost_types::{Any, Duration};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{
    ClusterDiscoveryType, CommonLbConfig, CustomClusterType, DiscoveryType, LbPolicy,
};
use proto_envoy::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, TypedExtensionConfig,
    http1_protocol_options::HeaderKeyFormat,
    http1_protocol_options::header_key_format::HeaderFormat,
};
use proto_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use proto_envoy::envoy::extensions::clusters::dynamic_forward_proxy::v3::ClusterConfig;
use proto_envoy::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use proto_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    ExplicitHttpConfig, UpstreamProtocolOptions, UseDownstreamHttpConfig,
    explicit_http_config::ProtocolConfig,
};

use crate::load_assignment::groups::{self, Group};
use mesh::cluster_names;
use xds::any;

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// A cluster with the parts that are encoded last.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) cluster: Cluster,
    /// Encoded into the cluster at the end.
    pub(super) http: Option<HttpProtocolOptions>,
    /// The configuration of a dynamic forward proxy, for clusters that are one.
    pub(super) dynamic: Option<ClusterConfig>,
    /// The endpoints of clusters that carry their own.
    pub(super) groups: Option<Vec<Group<'a>>>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(name: String, discovery: DiscoveryType) -> Self {
        Self {
            cluster: Cluster {
                alt_stat_name: cluster_names::stats(&name),
                name,
                cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery as i32)),
                common_lb_config: Some(CommonLbConfig::default()),
                ..Cluster::default()
            },
            ..Self::default()
        }
    }

    pub(super) fn dynamic(name: String, config: ClusterConfig) -> Self {
        Self {
            cluster: Cluster {
                alt_stat_name: cluster_names::stats(&name),
                name,
                lb_policy: LbPolicy::ClusterProvided as i32,
                ..Cluster::default()
            },
            dynamic: Some(config),
            ..Self::default()
        }
    }

    /// Has endpoints found in another way.
    pub(super) fn find_by(&mut self, discovery: DiscoveryType) {
        self.cluster.cluster_discovery_type = Some(ClusterDiscoveryType::Type(discovery as i32));
    }

    pub(super) fn discovery(&self) -> Option<DiscoveryType> {
        match self.cluster.cluster_discovery_type {
            Some(ClusterDiscoveryType::Type(ty)) => DiscoveryType::try_from(ty).ok(),
            _ => None,
        }
    }

    pub(super) fn is_original_dst(&self) -> bool {
        self.discovery() == Some(DiscoveryType::OriginalDst)
    }

    pub(super) fn http(&mut self) -> &mut HttpProtocolOptions {
        self.http.get_or_insert_with(HttpProtocolOptions::default)
    }

    pub(super) fn common_lb(&mut self) -> &mut CommonLbConfig {
        self.cluster
            .common_lb_config
            .get_or_insert_with(CommonLbConfig::default)
    }

    /// HTTP/2 towards the endpoints, unless a protocol was already chosen.
    pub(super) fn speak_http2(&mut self) {
        self.http()
            .upstream_protocol_options
            .get_or_insert_with(|| {
                explicit(ProtocolConfig::Http2ProtocolOptions(
                    Http2ProtocolOptions::default(),
                ))
            });
    }

    /// HTTP/2 towards the endpoints, whatever was chosen.
    pub(super) fn speak_only_http2(&mut self) {
        self.http().upstream_protocol_options = None;
        self.speak_http2();
    }

    /// Closes connections that no request uses, unless it is said already when.
    pub(super) fn close_idle(&mut self, after: Duration) {
        let common = &mut self.http().common_http_protocol_options;
        let common = common.get_or_insert_default();
        common.idle_timeout.get_or_insert(after);
    }

    /// The protocol that the client speaks, with the options for HTTP/1 that were already chosen.
    pub(super) fn speak_as_client(&mut self) {
        let options = self.http();
        let http1 = match options.upstream_protocol_options.take() {
            Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
                protocol_config: Some(ProtocolConfig::HttpProtocolOptions(http1)),
            })) => http1,
            _ => Http1ProtocolOptions::default(),
        };
        options.upstream_protocol_options = Some(as_client(http1));
    }

    /// HTTP/1 that keeps the case of header names.
    pub(super) fn keep_header_case(&mut self) {
        self.http().upstream_protocol_options =
            Some(explicit(ProtocolConfig::HttpProtocolOptions(header_case())));
    }

    /// The options for HTTP/2, if that is what the cluster is made for.
    pub(super) fn http2(&mut self) -> Option<&mut Http2ProtocolOptions> {
        match self.http.as_mut()?.upstream_protocol_options.as_mut()? {
            UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
                protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(http2)),
            }) => Some(http2),
            _ => None,
        }
    }

    pub(super) fn is_http2(&mut self) -> bool {
        self.http2().is_some()
    }

    /// Puts the parts together.
    pub(super) fn finish(mut self) -> Cluster {
        let cluster = &mut self.cluster;
        let by_request = self.http.as_ref().is_none_or(|options| {
            let names = options.upstream_http_protocol_options.as_ref();
            names.is_some_and(|names| names.auto_sni && names.auto_san_validation)
        });
        if let Some(mut options) = self.http {
            // Envoy requires a choice.
            options.upstream_protocol_options.get_or_insert_with(|| {
                explicit(ProtocolConfig::HttpProtocolOptions(
                    Http1ProtocolOptions::default(),
                ))
            });
            cluster
                .typed_extension_protocol_options
                .insert(HTTP_OPTIONS.to_owned(), any(&options));
        }
        if let Some(mut config) = self.dynamic {
            // Where HTTP options are stated, Envoy wants names to be taken from requests and verified, whether there is TLS
            // or not.
            config.allow_insecure_cluster_options |= !by_request;
            cluster.cluster_discovery_type =
                Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
                    name: "envoy.clusters.dynamic_forward_proxy".to_owned(),
                    typed_config: Some(any(&config)),
                }));
        }
        if let Some(groups) = self.groups {
            cluster.load_assignment = Some(ClusterLoadAssignment {
                cluster_name: cluster.name.clone(),
                endpoints: groups::encode(&groups),
                ..ClusterLoadAssignment::default()
            });
        }
        self.cluster
    }
}

pub(super) fn explicit(protocol: ProtocolConfig) -> UpstreamProtocolOptions {
    UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
        protocol_config: Some(protocol),
    })
}

pub(super) fn as_client(http1: Http1ProtocolOptions) -> UpstreamProtocolOptions {
    UpstreamProtocolOptions::UseDownstreamProtocolConfig(UseDownstreamHttpConfig {
        http_protocol_options: Some(http1),
        http2_protocol_options: Some(Http2ProtocolOptions::default()),
        ..UseDownstreamHttpConfig::default()
    })
}

/// Keeps the case of header names as they came.
pub(super) fn header_case() -> Http1ProtocolOptions {
    let formatter = TypedExtensionConfig {
        name: "preserve_case".to_owned(),
        typed_config: Some(Any {
            type_url: "type.googleapis.com/envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig".to_owned(),
            value: Vec::new(),
        }),
    };
    Http1ProtocolOptions {
        header_key_format: Some(HeaderKeyFormat {
            header_format: Some(HeaderFormat::StatefulFormatter(formatter)),
        }),
        ..Http1ProtocolOptions::default()
    }
}
