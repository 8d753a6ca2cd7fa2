//! TLS contexts of inbound filter chains, and where proxies get their certificates.
//!
//! Istio: pilot/pkg/security/authn/utils/utils.go BuildInboundTLS and pilot/pkg/security/model/authentication.go
//! ApplyToCommonTLSContext, 1.32.

use mesh::capabilities::{Capabilities, CertificateSource, name};
use mesh::proxy::Traits;
use policy::authn::trust_domains;
use proto_envoy::envoy::config::core::v3::{TransportSocket, transport_socket};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3 as tls;
use proto_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};
use proto_istio::mesh::MeshConfig;
use proto_istio::mesh::mesh_config::tls_config::TlsProtocol;
use xds::any;

use crate::clusters::{agentless, sds};

/// Cipher suites of mutual TLS where the mesh states none.
const CIPHER_SUITES: [&str; 6] = [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-GCM-SHA256",
];

/// Certificate, key and root in files; empty where there is none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Files {
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) root: String,
}

impl Files {
    /// The name of the secret that is the certificate with its key.
    pub(super) fn certificate(&self) -> Option<String> {
        certificate(&self.certificate, &self.key)
    }

    /// The name of the secret that is the root.
    pub(super) fn root(&self) -> Option<String> {
        (!self.root.is_empty()).then(|| format!("file-root:{}", self.root))
    }
}

/// The name of the secret that is a certificate with its key.
pub(super) fn certificate(certificate: &str, key: &str) -> Option<String> {
    (!certificate.is_empty() && !key.is_empty()).then(|| format!("file-cert:{certificate}~{key}"))
}

/// Certificates that a proxy has itself, by its own word.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OwnFiles {
    pub(super) files: Files,
    /// Whether a server of the user's beside the proxy has credentials.
    pub(super) credential_socket: bool,
    /// Whether it has files.
    pub(super) file_socket: bool,
}

impl OwnFiles {
    /// Those of a proxy.
    pub(crate) fn of(proxy: &Traits<'_>) -> Self {
        let own = |key: &str| proxy.text(key).unwrap_or_default().into_owned();
        let says_true = |key: &str| proxy.text(key).as_deref() == Some("true");
        Self {
            files: Files {
                certificate: own("TLS_SERVER_CERT_CHAIN"),
                key: own("TLS_SERVER_KEY"),
                root: own("TLS_SERVER_ROOT_CERT"),
            },
            credential_socket: says_true("credential"),
            file_socket: says_true("file-credential"),
        }
    }
}

/// What inbound mutual TLS of a proxy is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct MutualTls {
    certificate: tls::SdsSecretConfig,
    root: tls::SdsSecretConfig,
    /// Where they come from, unless they are files.
    from: CertificateSource,
    peers: Vec<StringMatcher>,
    cipher_suites: Vec<String>,
    minimum: i32,
    offers_metadata_exchange: bool,
}

impl MutualTls {
    /// That of a proxy with such certificates.
    pub(crate) fn of(own: &OwnFiles, mesh: &MeshConfig, capabilities: Capabilities) -> Self {
        let files = own.file_socket;
        let stated = mesh.mesh_m_tls.clone().unwrap_or_default();
        let minimum = match stated.min_protocol_version() {
            TlsProtocol::Tlsv13 => tls::tls_parameters::TlsProtocol::TlSv13,
            TlsProtocol::Tlsv12 | TlsProtocol::TlsAuto => tls::tls_parameters::TlsProtocol::TlSv12,
        };
        Self {
            certificate: file_or_workload(own.files.certificate(), sds::OWN, files),
            root: file_or_workload(own.files.root(), sds::ROOT, files),
            from: capabilities.certificates,
            peers: trust_domains(mesh)
                .into_iter()
                .map(|domain| StringMatcher {
                    match_pattern: Some(string_matcher::MatchPattern::Prefix(format!(
                        "spiffe://{domain}/"
                    ))),
                    ..Default::default()
                })
                .collect(),
            cipher_suites: if stated.cipher_suites.is_empty() {
                CIPHER_SUITES.map(str::to_owned).into()
            } else {
                stated.cipher_suites
            },
            minimum: minimum as i32,
            offers_metadata_exchange: capabilities.metadata_exchange_alpn,
        }
    }

    /// The transport socket of a chain. A proxy without metadata exchange must not agree to it.
    #[expect(
        deprecated,
        reason = "proxies of all supported versions read `match_subject_alt_names`"
    )]
    pub fn socket(&self, http: bool) -> TransportSocket {
        let alpn: &[&str] = if !http && self.offers_metadata_exchange {
            &["istio-peer-exchange", "h2", "http/1.1"]
        } else {
            &["h2", "http/1.1"]
        };
        let validation = tls::common_tls_context::CombinedCertificateValidationContext {
            default_validation_context: Some(tls::CertificateValidationContext {
                match_subject_alt_names: self.peers.clone(),
                ..Default::default()
            }),
            validation_context_sds_secret_config: Some(self.root.clone()),
            ..Default::default()
        };
        let mut common = tls::CommonTlsContext {
            alpn_protocols: alpn.iter().map(|p| (*p).to_owned()).collect(),
            tls_params: Some(tls::TlsParameters {
                tls_minimum_protocol_version: self.minimum,
                tls_maximum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv13 as i32,
                cipher_suites: self.cipher_suites.clone(),
                ..Default::default()
            }),
            tls_certificate_sds_secret_configs: vec![self.certificate.clone()],
            validation_context_type: Some(
                tls::common_tls_context::ValidationContextType::CombinedValidationContext(
                    validation,
                ),
            ),
            ..Default::default()
        };
        agentless::adapt(&mut common, self.from);
        socket(&tls::DownstreamTlsContext {
            require_client_certificate: Some(true),
            common_tls_context: Some(common),
            ..Default::default()
        })
    }
}

/// A transport socket that terminates TLS.
pub fn socket(context: &tls::DownstreamTlsContext) -> TransportSocket {
    TransportSocket {
        name: name::TLS.to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(context))),
    }
}

/// The secret of a file, or of the workload where there is none.
fn file_or_workload(file: Option<String>, workload: &str, files: bool) -> tls::SdsSecretConfig {
    match file {
        Some(file) => sds::file(file, files),
        None => sds::workload(workload),
    }
}
