//! Where the proxy gets certificates from.
//!
//! Istio: pkg/model/authentication.go and pilot/pkg/security/model/authentication.go, 1.32.

use prost_types::Duration;
use proto_envoy::envoy::config::core::v3::api_config_source::ApiType;
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use proto_envoy::envoy::config::core::v3::{
    AggregatedConfigSource, ApiConfigSource, ApiVersion, ConfigSource, GrpcService,
};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig;

use model::credential::resource_name;

/// The certificate of the workload itself.
pub(crate) const OWN: &str = "default";
/// The roots that the mesh trusts.
pub(crate) const ROOT: &str = "ROOTCA";

/// The agent beside the proxy.
const AGENT: &str = "sds-grpc";
/// A server of the user's that serves files.
const FILES: &str = "sds-files-grpc";
/// A server of the user's that serves credentials.
pub(crate) const EXTERNAL: &str = "sds-external";
/// The prefix of credentials that the external server has.
const EXTERNAL_PREFIX: &str = "sds://";

fn over_grpc(name: String, cluster: &str, wait: bool) -> SdsSecretConfig {
    over_grpc_to(name, cluster, "", wait)
}

fn over_grpc_to(name: String, cluster: &str, authority: &str, wait: bool) -> SdsSecretConfig {
    let grpc = EnvoyGrpc {
        cluster_name: cluster.to_owned(),
        authority: authority.to_owned(),
        ..EnvoyGrpc::default()
    };
    SdsSecretConfig {
        name,
        sds_config: Some(ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::ApiConfigSource(
                ApiConfigSource {
                    api_type: ApiType::Grpc as i32,
                    transport_api_version: ApiVersion::V3 as i32,
                    set_node_on_first_message_only: true,
                    grpc_services: vec![GrpcService {
                        target_specifier: Some(TargetSpecifier::EnvoyGrpc(grpc)),
                        ..GrpcService::default()
                    }],
                    ..ApiConfigSource::default()
                },
            )),
            resource_api_version: ApiVersion::V3 as i32,
            initial_fetch_timeout: wait.then(Duration::default),
            ..ConfigSource::default()
        }),
    }
}

/// [`OWN`] or [`ROOT`], waited for without limit: without them nothing works.
pub(crate) fn workload(name: &str) -> SdsSecretConfig {
    over_grpc(name.to_owned(), AGENT, true)
}

/// [`OWN`] or [`ROOT`] for a proxy without an agent: it asks here, waits without limit if it may, and connects to nobody
/// until there is an answer.
pub(super) fn without_agent(name: &str, waits: bool) -> SdsSecretConfig {
    over_ads(name.to_owned(), waits)
}

fn over_ads(name: String, wait: bool) -> SdsSecretConfig {
    SdsSecretConfig {
        name,
        sds_config: Some(ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::Ads(
                AggregatedConfigSource::default(),
            )),
            resource_api_version: ApiVersion::V3 as i32,
            initial_fetch_timeout: wait.then(Duration::default),
            ..ConfigSource::default()
        }),
    }
}

/// A certificate in files that the agent, or the user's server, reads.
pub(crate) fn file(name: String, own_server: bool) -> SdsSecretConfig {
    over_grpc(name, if own_server { FILES } else { AGENT }, false)
}

/// A credential of a server in the mesh, if its name says so.
pub(crate) fn of_provider(name: &str, cluster: &str, authority: &str) -> Option<SdsSecretConfig> {
    let name = name.strip_prefix(EXTERNAL_PREFIX)?;
    Some(over_grpc_to(name.to_owned(), cluster, authority, false))
}

/// Whether a credential is of a server outside.
pub(crate) fn is_external(name: &str) -> bool {
    name.starts_with(EXTERNAL_PREFIX)
}

/// A credential by the name that rules give it.
///
/// Istio: ConstructSdsSecretConfigForCredential.
pub(crate) fn credential(name: &str, socket: bool) -> Option<SdsSecretConfig> {
    match name {
        "" => return None,
        "builtin://" => return Some(workload(OWN)),
        "builtin://-cacert" => return Some(workload(ROOT)),
        _ => {}
    }
    if name.starts_with(EXTERNAL_PREFIX) && socket {
        return Some(over_grpc(name.to_owned(), EXTERNAL, false));
    }
    let name = name.strip_prefix(EXTERNAL_PREFIX).unwrap_or(name);
    Some(over_ads(resource_name(name), false))
}
