//! TLS towards endpoints: as rules say, or mutual TLS found to be possible.
//!
//! Istio: pilot/pkg/networking/core/cluster_tls.go, 1.32.

use std::sync::Arc;

use model::closed::NO_CREDENTIAL;
use model::service::Registry;
use model::settings::MeshConfig;
use prost_types::Struct;
use proto_envoy::envoy::config::cluster::v3::cluster::TransportSocketMatch;
use proto_envoy::envoy::config::core::v3::data_source::Specifier;
use proto_envoy::envoy::config::core::v3::transport_socket::ConfigType;
use proto_envoy::envoy::config::core::v3::{
    DataSource, ProxyProtocolConfig, TransportSocket, UpstreamHttpProtocolOptions,
};
use proto_envoy::envoy::extensions::transport_sockets::proxy_protocol::v3::ProxyProtocolUpstreamTransport;
use proto_envoy::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, TlsParameters,
    UpstreamTlsContext,
};
use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode as Mode;

use super::agentless;
use super::client::ClusterClient;
use super::draft::Draft;
use super::hbone;
use super::metadata::text;
use super::sds;
use policy::authn::MutualTls;
use xds::any;

/// The name of the extension for TLS.
pub(super) const TLS: &str = "envoy.transport_sockets.tls";
const MUTUAL: &str = "tlsMode-istio";
const RAW: &str = "envoy.transport_sockets.raw_buffer";
const UPSTREAM_PROXY: &str = "envoy.transport_sockets.upstream_proxy_protocol";

/// TLS settings with what Istio adds to those of users.
pub(super) struct Tls<'a> {
    mode: Mode,
    certificate: &'a str,
    key: &'a str,
    ca: &'a str,
    crl: &'a str,
    credential: &'a str,
    sans: Vec<&'a str>,
    sni: &'a str,
    skip_verify: bool,
}

/// What the choice of TLS depends on besides the settings.
pub(super) struct Peer<'a> {
    /// Identities of the service, sorted.
    pub(super) identities: &'a [Arc<str>],
    /// The name that tells services apart where connections of several arrive.
    pub(super) sni: &'a str,
    pub(super) external: bool,
    pub(super) registry: Registry,
    /// What the servers accept; `None` where that is not known.
    pub(super) accepts: Option<MutualTls>,
    /// Whether the rule selects workloads, so that its credentials are meant for sidecars.
    pub(super) selected: bool,
}

impl<'a> Tls<'a> {
    /// The settings of a user as they are.
    pub(super) fn as_written(settings: &'a ClientTlsSettings) -> Self {
        Self {
            mode: Mode::try_from(settings.mode).unwrap_or_default(),
            certificate: &settings.client_certificate,
            key: &settings.private_key,
            ca: &settings.ca_certificates,
            crl: &settings.ca_crl,
            credential: &settings.credential_name,
            sans: settings
                .subject_alt_names
                .iter()
                .map(String::as_str)
                .collect(),
            sni: &settings.sni,
            skip_verify: settings.insecure_skip_verify == Some(true),
        }
    }

    fn mutual(client: &'a ClusterClient, sans: Vec<&'a str>, sni: &'a str, skip: bool) -> Self {
        let files = client.certificates.as_deref();
        let own = |file: fn(&super::client::Certificates) -> &str| files.map_or("", file);
        Self {
            mode: if files.is_some() {
                Mode::Mutual
            } else {
                Mode::IstioMutual
            },
            certificate: own(|f| &f.chain),
            key: own(|f| &f.key),
            ca: own(|f| &f.root),
            crl: "",
            credential: "",
            sans,
            sni,
            skip_verify: skip,
        }
    }

    /// The settings in force; the second value says whether mutual TLS was found to be possible rather than asked for.
    ///
    /// Istio: buildUpstreamTLSSettings.
    pub(super) fn effective(
        settings: Option<&'a ClientTlsSettings>,
        client: &'a ClusterClient,
        mesh: &MeshConfig,
        peer: &Peer<'a>,
    ) -> (Option<Self>, bool) {
        let identities = || peer.identities.iter().map(|i| &**i).collect();
        let Some(settings) = settings else {
            let auto = mesh.enable_auto_mtls != Some(false)
                && (client.certificate.is_any() || client.certificates.is_some())
                && !peer.external
                && matches!(
                    peer.accepts,
                    Some(MutualTls::Permissive | MutualTls::Strict)
                );
            let found = auto.then(|| Self::mutual(client, identities(), peer.sni, false));
            return (found, true);
        };
        let written = Self::as_written(settings);
        match written.mode {
            Mode::Disable | Mode::Simple => return (Some(written), false),
            Mode::Mutual | Mode::IstioMutual => {}
        }
        if client.certificates.is_some() {
            // What lies outside of the mesh need not trust the proxy's own certificates.
            if peer.external {
                return (Some(written), false);
            }
            let Self { sans, sni, .. } = written;
            return (
                Some(Self::mutual(client, sans, sni, written.skip_verify)),
                false,
            );
        }
        if written.mode == Mode::Mutual {
            return (Some(written), false);
        }
        let sni = if written.sni.is_empty() {
            peer.sni
        } else {
            written.sni
        };
        let sans = if written.sans.is_empty() {
            identities()
        } else {
            written.sans
        };
        (
            Some(Self::mutual(client, sans, sni, written.skip_verify)),
            false,
        )
    }
}

/// Gives the cluster its transport sockets.
///
/// Istio: applyUpstreamTLSSettings.
pub(super) fn apply(
    draft: &mut Draft<'_>,
    client: &ClusterClient,
    mesh: &MeshConfig,
    settings: Option<&ClientTlsSettings>,
    peer: &Peer<'_>,
) {
    let (tls, found) = Tls::effective(settings, client, mesh, peer);
    let stated = tls.is_some();
    let sockets = tls.and_then(|tls| {
        let mut context = context(draft, client, mesh, &tls, peer)?;
        if let Some(common) = &mut context.common_tls_context {
            agentless::adapt(common, client.certificate);
        }
        let socket = TransportSocket {
            name: TLS.to_owned(),
            config_type: Some(ConfigType::TypedConfig(any(&context))),
        };
        Some((socket, tls.mode == Mode::IstioMutual))
    });
    let is_original_dst = draft.is_original_dst();
    let cluster = &mut draft.cluster;
    let tunnelled = |inner| client.tunnels.then(|| hbone::tunnelled(inner));
    match sockets {
        // Endpoint by endpoint: those without a sidecar get plain text.
        Some((socket, true)) if found && !is_original_dst => {
            let own = [mutual_tls(socket), plain_text()];
            let sockets = tunnelled(raw_buffer()).into_iter().chain(own);
            cluster.transport_socket_matches = sockets.collect();
        }
        Some((socket, mutual)) if client.tunnels && !is_original_dst => {
            let (inner, name) = match mutual {
                true => (raw_buffer(), MUTUAL),
                false => (socket.clone(), "user"),
            };
            let own = TransportSocketMatch {
                name: name.to_owned(),
                r#match: None,
                transport_socket: Some(socket),
            };
            cluster.transport_socket_matches = tunnelled(inner).into_iter().chain([own]).collect();
        }
        Some((socket, _)) => cluster.transport_socket = Some(socket),
        None if client.tunnels && !(stated && is_original_dst) => {
            let sockets = tunnelled(raw_buffer()).into_iter().chain([plain_text()]);
            cluster.transport_socket_matches = sockets.collect();
        }
        None => {}
    }
}

/// For endpoints whose sidecars take mutual TLS.
fn mutual_tls(socket: TransportSocket) -> TransportSocketMatch {
    TransportSocketMatch {
        name: MUTUAL.to_owned(),
        r#match: Some(Struct {
            fields: [("tlsMode".to_owned(), text("istio"))].into(),
        }),
        transport_socket: Some(socket),
    }
}

/// For all other endpoints.
fn plain_text() -> TransportSocketMatch {
    TransportSocketMatch {
        name: "tlsMode-disabled".to_owned(),
        r#match: Some(Struct::default()),
        transport_socket: Some(raw_buffer()),
    }
}

fn raw_buffer() -> TransportSocket {
    TransportSocket {
        name: RAW.to_owned(),
        config_type: Some(ConfigType::TypedConfig(any(&RawBuffer::default()))),
    }
}

/// The context that settings ask for; `None` where they ask for plain text. What asks for TLS always has a context: where its
/// certificate cannot be had, one with which no connection comes about.
///
/// Istio: buildUpstreamClusterTLSContext. There plain text is sent where the certificate cannot be had.
pub(super) fn context(
    draft: &mut Draft<'_>,
    client: &ClusterClient,
    mesh: &MeshConfig,
    tls: &Tls<'_>,
    peer: &Peer<'_>,
) -> Option<UpstreamTlsContext> {
    // A sidecar gets no credentials from a rule that is for everybody: it may not read them, and would wait for them.
    let credential = match tls.credential {
        secret if secret.starts_with("configmap://") => secret,
        NO_CREDENTIAL => return Some(closed()),
        // The roots that a BackendTLSPolicy names cannot be had: those of the system are not meant.
        "invalid://" if client.is_sidecar() => return Some(closed()),
        _ if client.is_sidecar() && !peer.selected => "",
        secret => secret,
    };
    let pair = !credential.is_empty() || (!tls.certificate.is_empty() && !tls.key.is_empty());
    match tls.mode {
        Mode::Disable => None,
        Mode::IstioMutual => Some(istio_mutual(draft, client, tls)),
        Mode::Mutual if !pair => Some(closed()),
        Mode::Simple | Mode::Mutual => Some(originated(draft, client, mesh, tls, credential, peer)),
    }
}

/// A context with which no connection comes about: no certificate has this hash.
fn closed() -> UpstreamTlsContext {
    let nobody = CertificateValidationContext {
        verify_certificate_hash: vec!["0".repeat(64)],
        ..CertificateValidationContext::default()
    };
    UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(tls_params()),
            validation_context_type: Some(ValidationContextType::ValidationContext(nobody)),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    }
}

fn istio_mutual(
    draft: &mut Draft<'_>,
    client: &ClusterClient,
    tls: &Tls<'_>,
) -> UpstreamTlsContext {
    let mut alpn = vec!["istio".to_owned()];
    if client.peer_alpn {
        alpn.insert(0, "istio-peer-exchange".to_owned());
    }
    if draft.is_http2() {
        alpn.push("h2".to_owned());
    }
    let mut sni = tls.sni.to_owned();
    if draft.dynamic.is_some() {
        apply_auto_sni(draft, tls);
    } else if sni.is_empty() {
        sni.clone_from(&draft.cluster.name);
    }
    UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(tls_params()),
            tls_certificate_sds_secret_configs: vec![sds::workload(sds::OWN)],
            validation_context_type: Some(combined(names_of(&tls.sans), sds::workload(sds::ROOT))),
            alpn_protocols: alpn,
            ..CommonTlsContext::default()
        }),
        sni,
        ..UpstreamTlsContext::default()
    }
}

/// Istio: constructUpstreamTLS.
fn originated(
    draft: &mut Draft<'_>,
    client: &ClusterClient,
    mesh: &MeshConfig,
    tls: &Tls<'_>,
    credential: &str,
    peer: &Peer<'_>,
) -> UpstreamTlsContext {
    let mutual = tls.mode == Mode::Mutual;
    let files = credential.is_empty();
    apply_auto_sni(draft, tls);
    let sans = if peer.registry == Registry::External && tls.sans.is_empty() {
        peer.identities.iter().map(|i| &**i).collect()
    } else {
        tls.sans.clone()
    };
    let mut common = CommonTlsContext {
        tls_params: Some(tls_params()),
        ..CommonTlsContext::default()
    };
    if files {
        let from_file = |name: String| sds::file(name, client.file_credential_socket);
        if mutual {
            let name = format!("file-cert:{}~{}", tls.certificate, tls.key);
            common.tls_certificate_sds_secret_configs = vec![from_file(name)];
        }
        common.validation_context_type = Some(if tls.skip_verify {
            ValidationContextType::ValidationContext(CertificateValidationContext::default())
        } else {
            let ca = if tls.ca.is_empty() { "system" } else { tls.ca };
            let mut names = names_of(&sans);
            if !tls.crl.is_empty() {
                names.crl = Some(DataSource {
                    specifier: Some(Specifier::Filename(tls.crl.to_owned())),
                    ..DataSource::default()
                });
            }
            combined(names, from_file(format!("file-root:{ca}")))
        });
    } else {
        let socket = client.credential_socket;
        if mutual {
            common.tls_certificate_sds_secret_configs =
                sds::credential(credential, socket).into_iter().collect();
        }
        if !tls.skip_verify {
            let root = sds::credential(&format!("{credential}-cacert"), socket);
            common.validation_context_type = root.map(|root| combined(names_of(&sans), root));
        }
    }
    if let (Some(params), Some(defaults)) = (&mut common.tls_params, &mesh.tls_defaults) {
        params.ecdh_curves.clone_from(&defaults.ecdh_curves);
        params.cipher_suites.clone_from(&defaults.cipher_suites);
    }
    if draft.is_http2() {
        common.alpn_protocols = vec!["h2".to_owned()];
    }
    UpstreamTlsContext {
        common_tls_context: Some(common),
        sni: tls.sni.to_owned(),
        ..UpstreamTlsContext::default()
    }
}

/// Takes the SNI from the request and verifies that the certificate is for it, where settings name neither.
///
/// Istio: setAutoSniAndAutoSanValidation.
fn apply_auto_sni(draft: &mut Draft<'_>, tls: &Tls<'_>) {
    let sni = tls.sni.is_empty();
    let verify = !tls.skip_verify && (draft.dynamic.is_some() || sni && tls.sans.is_empty());
    if let Some(config) = &mut draft.dynamic {
        config.allow_insecure_cluster_options |= tls.skip_verify || !sni || !verify;
    }
    if sni || verify {
        let options = draft
            .http()
            .upstream_http_protocol_options
            .get_or_insert_with(UpstreamHttpProtocolOptions::default);
        options.auto_sni |= sni;
        options.auto_san_validation |= verify;
    }
}

fn tls_params() -> TlsParameters {
    TlsParameters {
        tls_minimum_protocol_version: TlsProtocol::TlSv12 as i32,
        tls_maximum_protocol_version: TlsProtocol::TlSv13 as i32,
        ..TlsParameters::default()
    }
}

/// Validation by names stated here, and roots from a secret.
pub(super) fn combined(
    names: CertificateValidationContext,
    root: SdsSecretConfig,
) -> ValidationContextType {
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(names),
        validation_context_sds_secret_config: Some(root),
        ..CombinedCertificateValidationContext::default()
    })
}

/// A context that accepts certificates of exactly these names; of any name where there are none.
#[expect(deprecated, reason = "what Istio's proxies of all versions understand")]
fn names_of(sans: &[&str]) -> CertificateValidationContext {
    use proto_envoy::envoy::r#type::matcher::v3::StringMatcher;
    use proto_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
    let exact = |san: &&str| StringMatcher {
        match_pattern: Some(MatchPattern::Exact((*san).to_owned())),
        ..StringMatcher::default()
    };
    CertificateValidationContext {
        match_subject_alt_names: sans.iter().map(exact).collect(),
        ..CertificateValidationContext::default()
    }
}

/// Sends a PROXY protocol header before anything else.
///
/// Istio: applyUpstreamProxyProtocol.
pub(super) fn apply_proxy_protocol(draft: &mut Draft<'_>, version: i32) {
    let wrap = |inner: TransportSocket| TransportSocket {
        name: UPSTREAM_PROXY.to_owned(),
        config_type: Some(ConfigType::TypedConfig(any(
            &ProxyProtocolUpstreamTransport {
                config: Some(ProxyProtocolConfig {
                    version,
                    ..ProxyProtocolConfig::default()
                }),
                transport_socket: Some(inner),
                ..ProxyProtocolUpstreamTransport::default()
            },
        ))),
    };
    let cluster = &mut draft.cluster;
    if cluster.transport_socket.is_none() && cluster.transport_socket_matches.is_empty() {
        cluster.transport_socket = Some(wrap(raw_buffer()));
        return;
    }
    cluster.transport_socket = cluster.transport_socket.take().map(wrap);
    for one in &mut cluster.transport_socket_matches {
        one.transport_socket = one.transport_socket.take().map(wrap);
    }
}
