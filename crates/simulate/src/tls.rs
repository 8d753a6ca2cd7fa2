//! Whether a client and a filter chain can have a connection.

use proto_envoy::envoy::config::core::v3::TransportSocket;
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::transport_socket::ConfigType;
use proto_envoy::envoy::config::listener::v3::FilterChain;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext,
};

use crate::call::{Call, Tls};
use crate::resources::Resources;
use crate::walk::{Refusal, unpack};

/// Whether client and chain understand each other, and the proxy has what the chain needs.
pub(crate) fn check(
    resources: &Resources,
    chain: &FilterChain,
    call: &Call,
) -> Result<(), Refusal> {
    let Some(socket) = &chain.transport_socket else {
        return Ok(());
    };
    if call.tls == Tls::None {
        return Err(Refusal::WrongTls);
    }
    let Some(context) = context_of(socket) else {
        return Ok(());
    };
    let wants_certificate = context.require_client_certificate == Some(true);
    let common = context.common_tls_context.as_ref();
    let secrets = common.map(|c| c.tls_certificate_sds_secret_configs.as_slice());
    // The certificate of the workload itself goes by this name, or comes from files beside the proxy.
    let of_mesh = secrets
        .and_then(<[_]>::first)
        .is_some_and(|s| s.name == "default" || s.name.starts_with("file-cert:"));
    let fits = match call.tls {
        Tls::Mesh => of_mesh && wants_certificate,
        Tls::Simple | Tls::None => !wants_certificate,
    };
    if !fits {
        return Err(Refusal::WrongCertificate);
    }
    match common.is_none_or(|common| needed(common).all(|name| resources.has_secret(name))) {
        true => Ok(()),
        false => Err(Refusal::NoCertificate),
    }
}

/// The names of the secrets that a chain asks for.
pub(crate) fn asked(chain: &FilterChain) -> Vec<String> {
    let context = chain.transport_socket.as_ref().and_then(context_of);
    let common = context.as_ref().and_then(|c| c.common_tls_context.as_ref());
    let names = common.into_iter().flat_map(needed);
    names.map(str::to_owned).collect()
}

fn context_of(socket: &TransportSocket) -> Option<DownstreamTlsContext> {
    match &socket.config_type {
        Some(ConfigType::TypedConfig(any)) => unpack(any),
        None => None,
    }
}

/// The names of the secrets that a proxy gets from the control plane for connections. Its own certificate, and the roots of the mesh,
/// are taken to be there.
fn needed(common: &CommonTlsContext) -> impl Iterator<Item = &str> {
    let roots = match &common.validation_context_type {
        Some(ValidationContextType::ValidationContextSdsSecretConfig(roots)) => Some(roots),
        Some(ValidationContextType::CombinedValidationContext(combined)) => {
            combined.validation_context_sds_secret_config.as_ref()
        }
        _ => None,
    };
    let all = common
        .tls_certificate_sds_secret_configs
        .iter()
        .chain(roots);
    let asked = all.filter(|secret| {
        let source = secret.sds_config.as_ref();
        let source = source.and_then(|source| source.config_source_specifier.as_ref());
        let of_mesh = ["default", "ROOTCA"].contains(&secret.name.as_str());
        !of_mesh && matches!(source, Some(ConfigSourceSpecifier::Ads(_)))
    });
    asked.map(|secret| secret.name.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::{Message, Name};
    use prost_types::Any;
    use proto_envoy::envoy::config::core::v3::{AggregatedConfigSource, ConfigSource};
    use proto_envoy::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig;

    use super::*;

    fn asked(name: &str) -> SdsSecretConfig {
        let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource::default());
        SdsSecretConfig {
            name: name.to_owned(),
            sds_config: Some(ConfigSource {
                config_source_specifier: Some(ads),
                ..ConfigSource::default()
            }),
        }
    }

    /// A chain that shows a certificate of that name.
    fn chain(certificate: &str) -> FilterChain {
        let context = DownstreamTlsContext {
            common_tls_context: Some(CommonTlsContext {
                tls_certificate_sds_secret_configs: vec![asked(certificate)],
                ..CommonTlsContext::default()
            }),
            ..DownstreamTlsContext::default()
        };
        FilterChain {
            transport_socket: Some(TransportSocket {
                config_type: Some(ConfigType::TypedConfig(Any {
                    type_url: DownstreamTlsContext::type_url(),
                    value: context.encode_to_vec(),
                })),
                ..TransportSocket::default()
            }),
            ..FilterChain::default()
        }
    }

    #[test]
    fn nobody_connects_where_the_certificate_is_not_there() {
        let call = Call {
            tls: Tls::Simple,
            ..Call::default()
        };
        let of = |known: Option<&[&str]>, name: &str| {
            let mut resources = Resources::default();
            if let Some(known) = known {
                let known: BTreeSet<String> = known.iter().map(|n| (*n).to_owned()).collect();
                resources.set_secrets(known);
            }
            check(&resources, &chain(name), &call)
        };
        assert_eq!(of(Some(&["kubernetes://a"]), "kubernetes://a"), Ok(()));
        let gone = Err(Refusal::NoCertificate);
        assert_eq!(of(Some(&["kubernetes://b"]), "kubernetes://a"), gone);
        assert_eq!(of(Some(&[]), "default"), Ok(()));
        assert_eq!(of(None, "kubernetes://a"), Ok(()), "nobody knows");
    }
}
