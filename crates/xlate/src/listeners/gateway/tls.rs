//! TLS that ends at a gateway.
//!
//! Istio: pilot/pkg/networking/core/listener.go BuildListenerTLSContext and pilot/pkg/security/model/authentication.go,
//! 1.32.

use incr::Cx;
use mesh::capabilities::{Capabilities, CertificateSource};
use mesh::gateways::{GatewayServer, is_http, is_passthrough};
use model::cipher;
use policy::provider_cluster::{ProviderCluster, lookup};
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3 as tls;
use proto_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};
use proto_istio::mesh::MeshConfig;
use proto_istio::mesh::mesh_config::TlsConfig;
use proto_istio::mesh::mesh_config::extension_provider::Provider;
use proto_istio::mesh::mesh_config::tls_config::TlsProtocol as MeshProtocol;
use proto_istio::networking::ServerTlsSettings;
use proto_istio::networking::server_tls_settings::{TlSmode as TlsMode, TlsProtocol};
use store::{Reads, Snapshot};
use tls::certificate_validation_context::TrustChainVerification;
use tls::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};

use crate::clusters::{agentless, sds};
use crate::listeners::tls::{Files, OwnFiles, certificate};

const HTTP: &[&str] = &["h2", "http/1.1"];
const HTTP3: &[&str] = &["h3"];
/// Of mutual TLS of the mesh around TCP.
const MESH_TCP: &[&str] = &["istio-peer-exchange", "h2", "http/1.1"];

/// What TLS contexts of a gateway depend on besides the server.
pub(in crate::listeners) struct Contexts {
    defaults: Option<TlsConfig>,
    /// The provider of credentials in the mesh config, if it has one, with its cluster where there is one.
    provider: Option<Option<ProviderCluster>>,
    /// The proxy's own certificates.
    own: OwnFiles,
    exchanges_metadata: bool,
    /// Where its certificate comes from, unless it is in files.
    certificate: CertificateSource,
}

impl Contexts {
    pub(in crate::listeners) fn of(
        cx: &Cx<'_, Snapshot>,
        own: &OwnFiles,
        capabilities: Capabilities,
    ) -> Self {
        let mesh: &MeshConfig = &cx.settings().mesh;
        let provider = mesh
            .extension_providers
            .iter()
            .find_map(|p| match &p.provider {
                Some(Provider::Sds(sds)) => Some(lookup(cx, &sds.service, sds.port)),
                _ => None,
            });
        Self {
            defaults: mesh.tls_defaults.clone(),
            provider,
            own: own.clone(),
            exchanges_metadata: capabilities.metadata_exchange,
            certificate: capabilities.certificates,
        }
    }

    /// The context of a server; `None` where TLS does not end here.
    pub(super) fn of_server(
        &self,
        server: &GatewayServer,
        quic: bool,
    ) -> Option<tls::DownstreamTlsContext> {
        let spec = &server.server;
        let stated = spec.tls.as_ref().filter(|_| !is_passthrough(spec))?;
        let mesh_tcp = stated.mode() == TlsMode::IstioMutual && !is_http(spec);
        Some(self.of_settings(stated, mesh_tcp, quic))
    }

    /// The context of what a user states; `mesh_tcp` where it is mutual TLS of the mesh around TCP.
    pub(in crate::listeners) fn of_settings(
        &self,
        stated: &ServerTlsSettings,
        mesh_tcp: bool,
        quic: bool,
    ) -> tls::DownstreamTlsContext {
        let mode = stated.mode();
        let alpn = match (quic, mesh_tcp && self.exchanges_metadata) {
            (true, _) => HTTP3,
            (false, true) => MESH_TCP,
            (false, false) => HTTP,
        };
        let mut common = tls::CommonTlsContext {
            alpn_protocols: alpn.iter().map(|p| (*p).to_owned()).collect(),
            ..Default::default()
        };
        // Envoy cannot ask clients for certificates over QUIC.
        let required = !quic && matches!(mode, TlsMode::Mutual | TlsMode::IstioMutual);
        let validates = required || mode == TlsMode::OptionalMutual;
        if mode == TlsMode::IstioMutual {
            self.files(&mut common, stated, &self.own.files, &[], validates);
        } else if !stated.credential_names.is_empty() || !stated.credential_name.is_empty() {
            self.credentials(&mut common, stated);
        } else {
            let files = Files {
                certificate: stated.server_certificate.clone(),
                key: stated.private_key.clone(),
                root: stated.ca_certificates.clone(),
            };
            let several: Vec<String> = stated
                .tls_certificates
                .iter()
                .map(|c| certificate(&c.server_certificate, &c.private_key).unwrap_or_default())
                .collect();
            self.files(&mut common, stated, &files, &several, validates);
        }
        if matches!(
            mode,
            TlsMode::Simple | TlsMode::Mutual | TlsMode::OptionalMutual
        ) {
            common.tls_params = self.parameters(stated);
        }
        agentless::adapt(&mut common, self.certificate);
        tls::DownstreamTlsContext {
            common_tls_context: Some(common),
            require_client_certificate: Some(required),
            ..Default::default()
        }
    }

    /// Certificates in files, or the workload's own where there are none.
    #[expect(
        deprecated,
        reason = "proxies of all supported versions read `match_subject_alt_names`"
    )]
    fn files(
        &self,
        common: &mut tls::CommonTlsContext,
        stated: &ServerTlsSettings,
        files: &Files,
        several: &[String],
        validates: bool,
    ) {
        common.tls_certificate_sds_secret_configs = match several {
            [] => vec![self.file(files.certificate().as_deref(), sds::OWN)],
            several => several
                .iter()
                .map(|name| self.file(Some(name).filter(|n| !n.is_empty()).map(|n| &**n), sds::OWN))
                .collect(),
        };
        if !validates {
            return;
        }
        let validation = tls::CertificateValidationContext {
            match_subject_alt_names: exact(&stated.subject_alt_names),
            verify_certificate_spki: stated.verify_certificate_spki.clone(),
            verify_certificate_hash: stated.verify_certificate_hash.clone(),
            crl: (!stated.ca_crl.is_empty()).then(|| DataSource {
                specifier: Some(data_source::Specifier::Filename(stated.ca_crl.clone())),
                ..Default::default()
            }),
            trust_chain_verification: verification(stated),
            ..Default::default()
        };
        common.validation_context_type = Some(ValidationContextType::CombinedValidationContext(
            CombinedCertificateValidationContext {
                default_validation_context: Some(validation),
                validation_context_sds_secret_config: Some(
                    self.file(files.root().as_deref(), sds::ROOT),
                ),
                ..Default::default()
            },
        ));
    }

    fn file(&self, file: Option<&str>, workload: &str) -> tls::SdsSecretConfig {
        match file {
            Some(file) => sds::file(file.to_owned(), self.own.file_socket),
            None => sds::workload(workload),
        }
    }

    /// Certificates by name.
    #[expect(
        deprecated,
        reason = "proxies of all supported versions read `match_subject_alt_names`"
    )]
    fn credentials(&self, common: &mut tls::CommonTlsContext, stated: &ServerTlsSettings) {
        let names: Vec<&str> = match stated.credential_names.as_slice() {
            [] => vec![&stated.credential_name],
            several => several.iter().map(String::as_str).collect(),
        };
        let credential = |name: &str| match &self.provider {
            Some(provider) if sds::is_external(name) && !self.own.credential_socket => {
                let provider = provider.as_ref()?;
                sds::of_provider(name, &provider.cluster, &provider.host)
            }
            _ => sds::credential(name, self.own.credential_socket),
        };
        common.tls_certificate_sds_secret_configs =
            names.iter().filter_map(|name| credential(name)).collect();
        // With several certificates, clients are judged by the roots that belong to the first.
        let root = match stated.ca_cert_credential_name.as_str() {
            "" => format!("{}-cacert", names[0]),
            root => root.to_owned(),
        };
        let mut validation = tls::CertificateValidationContext {
            match_subject_alt_names: exact(&stated.subject_alt_names),
            ..Default::default()
        };
        if matches!(stated.mode(), TlsMode::Mutual | TlsMode::OptionalMutual) {
            validation
                .verify_certificate_spki
                .clone_from(&stated.verify_certificate_spki);
            validation
                .verify_certificate_hash
                .clone_from(&stated.verify_certificate_hash);
            validation.trust_chain_verification = verification(stated);
            common.validation_context_type =
                Some(ValidationContextType::CombinedValidationContext(
                    CombinedCertificateValidationContext {
                        default_validation_context: Some(validation),
                        validation_context_sds_secret_config: credential(&root),
                        ..Default::default()
                    },
                ));
        } else if !stated.subject_alt_names.is_empty() {
            common.validation_context_type =
                Some(ValidationContextType::ValidationContext(validation));
        }
    }

    /// Versions and cipher suites, the server's over those of the mesh, and the mesh's curves. `None` where neither
    /// states any.
    fn parameters(&self, stated: &ServerTlsSettings) -> Option<tls::TlsParameters> {
        let mut parameters = tls::TlsParameters::default();
        if let Some(mesh) = &self.defaults {
            parameters.ecdh_curves.clone_from(&mesh.ecdh_curves);
            parameters.cipher_suites.clone_from(&mesh.cipher_suites);
            parameters.tls_minimum_protocol_version = match mesh.min_protocol_version() {
                MeshProtocol::TlsAuto => 0,
                MeshProtocol::Tlsv12 => TlsProtocol::Tlsv12 as i32,
                MeshProtocol::Tlsv13 => TlsProtocol::Tlsv13 as i32,
            };
        }
        // The numbers of versions are Envoy's.
        let version = |stated: i32| TlsProtocol::try_from(stated).map_or(0, |v| v as i32);
        if version(stated.min_protocol_version) != 0 {
            parameters.tls_minimum_protocol_version = stated.min_protocol_version;
        }
        if version(stated.max_protocol_version) != 0 {
            parameters.tls_maximum_protocol_version = stated.max_protocol_version;
        }
        if !stated.ecdh_curves.is_empty() {
            parameters.ecdh_curves.clone_from(&stated.ecdh_curves);
        }
        let suites = cipher::known(stated.cipher_suites.iter().map(String::as_str));
        if !suites.is_empty() {
            parameters.cipher_suites = suites;
        }
        (parameters != tls::TlsParameters::default()).then_some(parameters)
    }
}

fn exact(names: &[String]) -> Vec<StringMatcher> {
    names
        .iter()
        .map(|name| StringMatcher {
            match_pattern: Some(string_matcher::MatchPattern::Exact(name.clone())),
            ..Default::default()
        })
        .collect()
}

fn verification(stated: &ServerTlsSettings) -> i32 {
    match stated.insecure_skip_verify {
        Some(true) => TrustChainVerification::AcceptUntrusted as i32,
        _ => TrustChainVerification::VerifyTrustChain as i32,
    }
}
