//! What a message becomes that lacks a value: a route answers 503, an HTTP filter refuses every request, and a filter chain
//! closes every connection.
//!
//! The smallest of these that holds the place is closed, and all around it stays. What only reports, as an access log does,
//! protects nothing and stays too.

use mesh::cluster_names::BLACK_HOLE;
use prost::Message;
use prost_types::Any;
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{Filter, FilterChain};
use proto_envoy::envoy::config::rbac::v3::Rbac as Rules;
use proto_envoy::envoy::config::route::v3::route::Action;
use proto_envoy::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteConfiguration, VirtualHost,
};
use proto_envoy::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use proto_envoy::envoy::extensions::filters::network::tcp_proxy::v3::{TcpProxy, tcp_proxy};
use xds::any;

/// The status of requests to closed routes.
const UNAVAILABLE: u32 = 503;
/// The filter that ends a chain of HTTP filters; none can take its place.
const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";

/// What the types of filters that run modules end with.
const WASM: &str = ".wasm.v3.Wasm";

/// The closed form of a message; `None` where it has none, or cannot be read. The configuration of
/// a module has one where it is a resource of its own.
pub(super) fn of(message: &str, body: &[u8], is_extension: bool) -> Option<Vec<u8>> {
    match message {
        "envoy.config.route.v3.Route" => Some(route(Route::decode(body).ok()?).encode_to_vec()),
        "envoy.config.route.v3.VirtualHost" => {
            Some(host(VirtualHost::decode(body).ok()?).encode_to_vec())
        }
        "envoy.config.route.v3.RouteConfiguration" => {
            Some(routes(RouteConfiguration::decode(body).ok()?).encode_to_vec())
        }
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter" => {
            Some(http_filter(hcm::HttpFilter::decode(body).ok()?)?.encode_to_vec())
        }
        "envoy.config.listener.v3.FilterChain" => {
            Some(chain(FilterChain::decode(body).ok()?).encode_to_vec())
        }
        "envoy.config.core.v3.TypedExtensionConfig" if is_extension => {
            Some(extension(TypedExtensionConfig::decode(body).ok()?)?.encode_to_vec())
        }
        _ => None,
    }
}

/// Whether what holds a message is as good without a value in it.
pub(super) fn protects_nothing(message: &str) -> bool {
    matches!(
        message,
        "envoy.config.accesslog.v3.AccessLog"
            | "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    )
}

fn route(open: Route) -> Route {
    Route {
        name: open.name,
        r#match: open.r#match,
        action: Some(Action::DirectResponse(DirectResponseAction {
            status: UNAVAILABLE,
            ..DirectResponseAction::default()
        })),
        ..Route::default()
    }
}

fn host(open: VirtualHost) -> VirtualHost {
    VirtualHost {
        name: open.name,
        domains: open.domains,
        routes: open.routes.into_iter().map(route).collect(),
        require_tls: open.require_tls,
        ..VirtualHost::default()
    }
}

fn routes(open: RouteConfiguration) -> RouteConfiguration {
    RouteConfiguration {
        name: open.name,
        virtual_hosts: open.virtual_hosts.into_iter().map(host).collect(),
        validate_clusters: open.validate_clusters,
        max_direct_response_body_size_bytes: open.max_direct_response_body_size_bytes,
        ignore_port_in_host_matching: open.ignore_port_in_host_matching,
        ..RouteConfiguration::default()
    }
}

/// Rules without a policy let nobody in.
fn refuses_requests() -> Any {
    any(&HttpRbac {
        rules: Some(Rules::default()),
        ..HttpRbac::default()
    })
}

fn http_filter(open: hcm::HttpFilter) -> Option<hcm::HttpFilter> {
    use hcm::http_filter::ConfigType;
    if let Some(ConfigType::TypedConfig(config)) = &open.config_type
        && config.type_url.ends_with(ROUTER)
    {
        return None;
    }
    Some(hcm::HttpFilter {
        name: open.name,
        disabled: open.disabled,
        config_type: Some(ConfigType::TypedConfig(refuses_requests())),
        ..hcm::HttpFilter::default()
    })
}

/// Connections are for a cluster that has no endpoints.
fn chain(open: FilterChain) -> FilterChain {
    let nowhere = TcpProxy {
        stat_prefix: "closed".to_owned(),
        cluster_specifier: Some(tcp_proxy::ClusterSpecifier::Cluster(BLACK_HOLE.to_owned())),
        ..TcpProxy::default()
    };
    FilterChain {
        filters: vec![Filter {
            name: "envoy.filters.network.tcp_proxy".to_owned(),
            config_type: Some(ConfigType::TypedConfig(any(&nowhere))),
        }],
        ..open
    }
}

/// Filters that run modules may have one that refuses in place of their own; others ask for their own type alone.
fn extension(open: TypedExtensionConfig) -> Option<TypedExtensionConfig> {
    let config = open
        .typed_config
        .filter(|config| config.type_url.ends_with(WASM))?;
    let refuses = match config.type_url.contains(".filters.network.") {
        true => any(&NetworkRbac {
            rules: Some(Rules::default()),
            stat_prefix: "closed".to_owned(),
            ..NetworkRbac::default()
        }),
        false => refuses_requests(),
    };
    Some(TypedExtensionConfig {
        name: open.name,
        typed_config: Some(refuses),
    })
}
