//! Mutual TLS with the certificates that the library reads itself, through the provider that its bootstrap calls `default`.
//!
//! Istio: pilot/pkg/networking/grpcgen/grpcgen.go buildCommonTLSContext, 1.32.

use prost::{Message, Name};
use proto_envoy::envoy::config::core::v3::TransportSocket;
use proto_envoy::envoy::config::core::v3::transport_socket::ConfigType;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CertificateProviderInstance, CombinedCertificateValidationContext, ValidationContextType,
};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext,
    DownstreamTlsContext, UpstreamTlsContext,
};
use proto_envoy::envoy::r#type::matcher::v3::StringMatcher;
use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use crate::clusters::sds::{OWN, ROOT};
use mesh::capabilities::name::TLS;
use xds::any;

/// The provider in the bootstrap.
const PROVIDER: &str = "default";

/// Towards servers that have one of these identities; any of the mesh where there are none.
pub(super) fn upstream<'a>(identities: impl Iterator<Item = &'a str>) -> TransportSocket {
    socket(&UpstreamTlsContext {
        common_tls_context: Some(common(identities)),
        ..UpstreamTlsContext::default()
    })
}

/// From clients of the mesh.
pub(super) fn downstream() -> TransportSocket {
    socket(&DownstreamTlsContext {
        // gRPC servers refuse names of peers.
        common_tls_context: Some(common(std::iter::empty())),
        require_client_certificate: Some(true),
        ..DownstreamTlsContext::default()
    })
}

fn socket<M: Message + Name>(context: &M) -> TransportSocket {
    TransportSocket {
        // gRPC wants exactly this name.
        name: TLS.to_owned(),
        config_type: Some(ConfigType::TypedConfig(any(context))),
    }
}

/// In the fields of today, and in those that gRPC libraries of some years ago read.
#[expect(deprecated, reason = "older gRPC libraries read these fields alone")]
fn common<'a>(identities: impl Iterator<Item = &'a str>) -> CommonTlsContext {
    let now = |certificate: &str| CertificateProviderPluginInstance {
        instance_name: PROVIDER.to_owned(),
        certificate_name: certificate.to_owned(),
    };
    let before = |certificate: &str| CertificateProviderInstance {
        instance_name: PROVIDER.to_owned(),
        certificate_name: certificate.to_owned(),
    };
    let exact = |identity: &str| StringMatcher {
        match_pattern: Some(MatchPattern::Exact(identity.to_owned())),
        ..StringMatcher::default()
    };
    let validation = CombinedCertificateValidationContext {
        default_validation_context: Some(CertificateValidationContext {
            match_subject_alt_names: identities.map(exact).collect(),
            ca_certificate_provider_instance: Some(now(ROOT)),
            ..CertificateValidationContext::default()
        }),
        validation_context_certificate_provider_instance: Some(before(ROOT)),
        ..CombinedCertificateValidationContext::default()
    };
    CommonTlsContext {
        tls_certificate_provider_instance: Some(now(OWN)),
        tls_certificate_certificate_provider_instance: Some(before(OWN)),
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(validation)),
        ..CommonTlsContext::default()
    }
}
