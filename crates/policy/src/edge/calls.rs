//! Requests that become calls of Dubbo, by the filter of Higress's Envoy.
//!
//! Higress: pkg/ingress/config/ingress_config.go constructHttp2RpcMethods, 2.1.

use std::collections::BTreeMap;

use model::edge::{Argument, ArgumentSource, Dubbo, HttpMethod, Method, Passed};
use prost_types::Any;
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::config::route::v3::route_action::UpgradeConfig;
use proto_envoy::envoy::config::route::v3::route_action::upgrade_config::ConnectConfig;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_istio::higress::dubbo::HttpDubboTranscoder;
use proto_istio::higress::dubbo::http_dubbo_transcoder::dubbo_method_mapping::parameter_mapping::ExtractKeySpec;
use proto_istio::higress::dubbo::http_dubbo_transcoder::dubbo_method_mapping::passthrough_setting::{
    HeadersSetting, PassthroughHeaders,
};
use proto_istio::higress::dubbo::http_dubbo_transcoder::dubbo_method_mapping::{
    MatchHttpMethodSpec, ParameterMapping, PassthroughSetting, PathMatcher,
};
use proto_istio::higress::dubbo::http_dubbo_transcoder::{
    DubboMethodMapping, DubboServiceMapping, RequestValidateOptions, UrlUnescapeSpec,
};
use proto_istio::higress::dubbo_tcp::DubboTcpConnectionPoolProto;
use xds::any;

use super::can::TRANSCODER;
use crate::filters;

/// The filter, which does nothing but for routes that configure it.
pub(super) fn transcoder() -> hcm::HttpFilter {
    filters::http(TRANSCODER, any(&HttpDubboTranscoder::default()))
}

/// Adds what a route says whose requests become calls.
pub(super) fn add(service: &Dubbo, configs: &mut BTreeMap<String, Any>) {
    let mapping = DubboServiceMapping {
        name: service.service.to_string(),
        version: service.version.to_string(),
        group: service.group.to_string(),
        method_mapping: service.methods.iter().map(method).collect(),
    };
    let config = HttpDubboTranscoder {
        request_validation_options: Some(RequestValidateOptions {
            reject_unknown_query_parameters: true,
            reject_unknown_method: true,
        }),
        url_unescape_spec: UrlUnescapeSpec::AllCharactersExceptReserved as i32,
        services_mapping: vec![mapping],
    };
    configs.insert(TRANSCODER.to_owned(), any(&config));
}

fn method(stated: &Method) -> DubboMethodMapping {
    let setting = match &stated.headers {
        Passed::All => HeadersSetting::PassthroughAllHeaders(true),
        Passed::Some(names) if names.is_empty() => HeadersSetting::PassthroughAllHeaders(false),
        Passed::Some(names) => HeadersSetting::PassthroughHeaders(PassthroughHeaders {
            keys: names.iter().map(ToString::to_string).collect(),
        }),
    };
    let http = match stated.http {
        HttpMethod::Get => MatchHttpMethodSpec::AllGet,
        HttpMethod::Post => MatchHttpMethodSpec::AllPost,
        HttpMethod::Put => MatchHttpMethodSpec::AllPut,
        HttpMethod::Delete => MatchHttpMethodSpec::AllDelete,
        HttpMethod::Patch => MatchHttpMethodSpec::AllPatch,
    };
    DubboMethodMapping {
        name: stated.name.to_string(),
        path_matcher: Some(PathMatcher {
            match_pattern: stated.path.to_string(),
            match_http_method_spec: http as i32,
        }),
        parameter_mapping: stated.arguments.iter().map(argument).collect(),
        passthrough_setting: Some(PassthroughSetting {
            headers_setting: Some(setting),
        }),
    }
}

fn argument(stated: &Argument) -> ParameterMapping {
    let from = match stated.from {
        ArgumentSource::Query => ExtractKeySpec::AllQueryParameter,
        ArgumentSource::Header => ExtractKeySpec::AllHeader,
        ArgumentSource::Path => ExtractKeySpec::AllPath,
        ArgumentSource::Body => ExtractKeySpec::AllBody,
    };
    ParameterMapping {
        extract_key_spec: from as i32,
        extract_key: stated.key.to_string(),
        mapping_type: stated.java_type.to_string(),
    }
}

/// What a route says that takes calls as connections: the filter makes them of requests.
pub fn upgrade() -> UpgradeConfig {
    UpgradeConfig {
        upgrade_type: "CONNECT".to_owned(),
        connect_config: Some(ConnectConfig {
            allow_post: true,
            ..ConnectConfig::default()
        }),
        ..UpgradeConfig::default()
    }
}

/// What a cluster says whose endpoints speak Dubbo.
pub fn dubbo_upstream() -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: "envoy.upstreams.http.dubbo_tcp".to_owned(),
        typed_config: Some(any(&DubboTcpConnectionPoolProto::default())),
    }
}
