//! Authorizers outside of the proxy, as the mesh config names them.
//!
//! Istio: pilot/pkg/security/authz/builder/extauthz.go, 1.32.

use model::settings::MeshConfig;
use prost_types::Duration;
use proto_envoy::envoy::config::core::v3::{
    ApiVersion, GrpcService, HeaderValue, HttpUri, http_uri,
};
use proto_envoy::envoy::extensions::filters::http::ext_authz::v3 as http;
use proto_envoy::envoy::extensions::filters::network::ext_authz::v3 as tcp;
use proto_envoy::envoy::r#type::matcher::v3::{ListStringMatcher, MetadataMatcher, StringMatcher};
use proto_envoy::envoy::r#type::v3::{HttpStatus, StatusCode};
use proto_istio::mesh::mesh_config::extension_provider::{
    EnvoyExternalAuthorizationGrpcProvider as OverGrpc,
    EnvoyExternalAuthorizationHttpProvider as OverHttp, EnvoyExternalAuthorizationRequestBody,
    Provider as Stated,
};

use super::matcher;
use crate::provider_cluster::ProviderCluster;
use crate::provider_cluster::envoy_grpc;

/// What names of policies start with whose rules an authorizer is asked about.
pub(super) const POLICY_PREFIX: &str = "istio-ext-authz";
/// What the RBAC filter before the authorizer leaves its findings under.
pub(super) const SHADOW_PREFIX: &str = "istio_ext_authz_";
const EFFECTIVE_POLICY: &str = "shadow_effective_policy_id";
const DEFAULT_TIMEOUT_SECONDS: i64 = 600;
/// The longest name that a provider may have.
const LONGEST_NAME: usize = 63;

/// Finds the cluster of a service and port.
pub(super) type Lookup<'a> = &'a dyn Fn(&str, u32) -> Option<ProviderCluster>;

/// The filters that ask an authorizer.
#[derive(Debug)]
pub(super) struct Authorizer {
    pub(super) http: http::ExtAuthz,
    /// None where it understands requests only.
    pub(super) tcp: Option<tcp::ExtAuthz>,
}

/// The authorizer of that name. The error says why there is none that can be asked.
pub(super) fn authorizer(
    mesh: &MeshConfig,
    lookup: Lookup<'_>,
    name: &str,
) -> Result<Authorizer, String> {
    let is_authorizer = |p: &Option<Stated>| {
        matches!(
            p,
            Some(Stated::EnvoyExtAuthzHttp(_) | Stated::EnvoyExtAuthzGrpc(_))
        )
    };
    let mut found = mesh
        .extension_providers
        .iter()
        .filter(|p| p.name == name && is_authorizer(&p.provider));
    let provider = found
        .next()
        .ok_or_else(|| format!("the mesh config has no authorizer {name:?}"))?;
    if found.next().is_some() {
        return Err(format!("the mesh config has several providers {name:?}"));
    }
    check_name(name)?;
    match &provider.provider {
        Some(Stated::EnvoyExtAuthzHttp(p)) => over_http(p, lookup, name),
        Some(Stated::EnvoyExtAuthzGrpc(p)) => over_grpc(p, lookup, name),
        _ => Err(format!("{name:?} is no authorizer")),
    }
}

/// Names stand in keys of metadata and in names of policies.
fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let outer = name.starts_with('-') || name.ends_with('-');
    if name.is_empty() || name.len() > LONGEST_NAME || outer || !name.bytes().all(fits) {
        return Err(format!("{name:?} is no name for a provider"));
    }
    Ok(())
}

fn cluster(service: &str, port: u32, lookup: Lookup<'_>) -> Result<ProviderCluster, String> {
    if !(1..=65535).contains(&port) {
        return Err(format!("{port} is no port"));
    }
    lookup(service, port).ok_or_else(|| format!("there is no service {service}"))
}

fn status(stated: &str) -> Result<Option<HttpStatus>, String> {
    if stated.is_empty() {
        return Ok(None);
    }
    let code = stated.parse::<i32>().ok();
    match code.and_then(|c| StatusCode::try_from(c).ok()) {
        Some(code) => Ok(Some(HttpStatus { code: code as i32 })),
        None => Err(format!("{stated} is no status")),
    }
}

fn over_http(p: &OverHttp, lookup: Lookup<'_>, name: &str) -> Result<Authorizer, String> {
    let found = cluster(&p.service, p.port, lookup)?;
    if !p.path_prefix.is_empty() && !p.path_prefix.starts_with('/') {
        return Err(format!(
            "path prefix {} does not start with /",
            p.path_prefix
        ));
    }
    let headers = [
        &p.include_request_headers_in_check,
        &p.include_headers_in_check,
        &p.headers_to_downstream_on_deny,
        &p.headers_to_downstream_on_allow,
        &p.headers_to_upstream_on_allow,
    ];
    if headers.iter().any(|list| list.iter().any(|h| h == "*")) {
        return Err("\"*\" alone is no pattern for headers".to_owned());
    }
    if p.include_additional_headers_in_check.contains_key("") {
        return Err("a header without a name".to_owned());
    }
    let [asked, asked_formerly, on_deny, on_allow, upstream] = headers.map(|list| patterns(list));
    let additional: Vec<HeaderValue> = p
        .include_additional_headers_in_check
        .iter()
        .map(|(key, value)| HeaderValue {
            key: key.clone(),
            value: value.clone(),
            ..Default::default()
        })
        .collect();
    let answers = upstream.is_some() || on_deny.is_some() || on_allow.is_some();
    let service = http::HttpService {
        path_prefix: p.path_prefix.clone(),
        server_uri: Some(HttpUri {
            uri: format!("http://{}", found.host),
            timeout: Some(timeout(p.timeout)),
            http_upstream_type: Some(http_uri::HttpUpstreamType::Cluster(found.cluster)),
        }),
        authorization_request: (!additional.is_empty()).then(|| http::AuthorizationRequest {
            headers_to_add: additional,
            ..Default::default()
        }),
        authorization_response: answers.then(|| http::AuthorizationResponse {
            allowed_upstream_headers: upstream,
            allowed_client_headers: on_deny,
            allowed_client_headers_on_success: on_allow,
            ..Default::default()
        }),
        ..Default::default()
    };
    Ok(Authorizer {
        http: http::ExtAuthz {
            status_on_error: status(&p.status_on_error)?,
            failure_mode_allow: p.fail_open,
            transport_api_version: ApiVersion::V3 as i32,
            services: Some(http::ext_authz::Services::HttpService(service)),
            filter_enabled_metadata: Some(enabled(super::HTTP_RBAC, name)),
            with_request_body: body(p.include_request_body_in_check.as_ref()),
            allowed_headers: asked.or(asked_formerly),
            ..Default::default()
        },
        tcp: None,
    })
}

fn over_grpc(p: &OverGrpc, lookup: Lookup<'_>, name: &str) -> Result<Authorizer, String> {
    let found = cluster(&p.service, p.port, lookup)?;
    let service = GrpcService {
        timeout: Some(timeout(p.timeout)),
        ..envoy_grpc(&found)
    };
    Ok(Authorizer {
        http: http::ExtAuthz {
            status_on_error: status(&p.status_on_error)?,
            failure_mode_allow: p.fail_open,
            transport_api_version: ApiVersion::V3 as i32,
            services: Some(http::ext_authz::Services::GrpcService(service.clone())),
            filter_enabled_metadata: Some(enabled(super::HTTP_RBAC, name)),
            with_request_body: body(p.include_request_body_in_check.as_ref()),
            ..Default::default()
        },
        tcp: Some(tcp::ExtAuthz {
            stat_prefix: super::TCP_STAT_PREFIX.to_owned(),
            failure_mode_allow: p.fail_open,
            transport_api_version: ApiVersion::V3 as i32,
            grpc_service: Some(service),
            filter_enabled_metadata: Some(enabled(super::NETWORK_RBAC, name)),
            ..Default::default()
        }),
    })
}

/// Only what a rule of this provider's policies takes, as the RBAC filter before has found out.
fn enabled(rbac: &str, name: &str) -> MetadataMatcher {
    let key = format!("{SHADOW_PREFIX}{EFFECTIVE_POLICY}");
    let policy = matcher::prefix(format!("{POLICY_PREFIX}-{name}"));
    matcher::metadata(rbac, [key.as_str()], matcher::string_value(policy))
}

fn timeout(stated: Option<proto_istio::wkt::Duration>) -> Duration {
    stated.map_or(
        Duration {
            seconds: DEFAULT_TIMEOUT_SECONDS,
            nanos: 0,
        },
        |d| d.0,
    )
}

fn body(stated: Option<&EnvoyExternalAuthorizationRequestBody>) -> Option<http::BufferSettings> {
    stated.map(|b| http::BufferSettings {
        max_request_bytes: b.max_request_bytes,
        allow_partial_message: b.allow_partial_message,
        pack_as_bytes: b.pack_as_bytes,
    })
}

fn patterns(stated: &[String]) -> Option<ListStringMatcher> {
    let pattern = |header: &String| StringMatcher {
        ignore_case: true,
        ..match (header.strip_prefix('*'), header.strip_suffix('*')) {
            (Some(end), _) => matcher::suffix(end),
            (None, Some(start)) => matcher::prefix(start),
            (None, None) => matcher::exact(header.as_str()),
        }
    };
    (!stated.is_empty()).then(|| ListStringMatcher {
        patterns: stated.iter().map(pattern).collect(),
    })
}
