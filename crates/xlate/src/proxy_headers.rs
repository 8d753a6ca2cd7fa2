//! Headers that a proxy adds to what passes through it.
//!
//! Istio: pilot/pkg/networking/util/proxy_headers.go, 1.32.

use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager as hcm;
use proto_istio::mesh::ProxyConfig;
use proto_istio::mesh::proxy_config::proxy_headers::MetadataExchangeMode;

use mesh::class::Class;

/// What is added, for one side of a proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProxyHeaders {
    /// `server`; empty is Envoy's own `envoy`.
    pub server_name: String,
    /// Whether `server` overwrites what the workload says.
    pub server_transformation: hcm::ServerHeaderTransformation,
    /// What happens to `x-forwarded-client-cert`.
    pub forward_client_cert: hcm::ForwardClientCertDetails,
    /// What of the client's certificate stands in it.
    pub client_cert_details: hcm::SetCurrentClientCertDetails,
    /// `x-envoy-attempt-count`.
    pub attempt_count: bool,
    /// `Some(false)` where no request id is made up.
    pub generate_request_id: Option<bool>,
    /// Whether Envoy's own headers are suppressed.
    pub suppress_debug_headers: bool,
    /// Whether metadata is exchanged inside the mesh only.
    pub metadata_in_mesh_only: bool,
    /// `x-forwarded-port`.
    pub forwarded_port: bool,
    /// `x-forwarded-host`.
    pub forwarded_host: bool,
    /// Whether HTTP/1 headers keep their case.
    pub preserve_case: bool,
}

impl ProxyHeaders {
    /// What a proxy's configuration asks for.
    pub fn of(config: &ProxyConfig, class: Class) -> Self {
        // Outbound says "envoy", the others "istio-envoy": kept by Istio for compatibility.
        let default_name = match class {
            Class::SidecarOutbound => "",
            Class::SidecarInbound | Class::Gateway => "istio-envoy",
        };
        let stated = config.proxy_headers.clone().unwrap_or_default();
        let server = stated.server.unwrap_or_default();
        let hidden = server.disabled == Some(true);
        let details = stated.set_current_client_cert_details.unwrap_or_default();
        Self {
            server_name: match (hidden, server.value.is_empty()) {
                (true, _) => String::new(),
                (false, true) => default_name.to_owned(),
                (false, false) => server.value,
            },
            server_transformation: if hidden {
                hcm::ServerHeaderTransformation::PassThrough
            } else {
                hcm::ServerHeaderTransformation::Overwrite
            },
            forward_client_cert: match stated.forwarded_client_cert {
                0 => hcm::ForwardClientCertDetails::AppendForward,
                // The mesh's values are Envoy's, counted from one.
                n => hcm::ForwardClientCertDetails::try_from(n - 1)
                    .unwrap_or(hcm::ForwardClientCertDetails::Sanitize),
            },
            client_cert_details: hcm::SetCurrentClientCertDetails {
                subject: Some(details.subject.unwrap_or(true)),
                uri: details.uri.unwrap_or(true),
                dns: details.dns.unwrap_or(true),
                cert: details.cert.unwrap_or(false),
                chain: details.chain.unwrap_or(false),
                ..Default::default()
            },
            attempt_count: stated.attempt_count.and_then(|a| a.disabled) != Some(true),
            generate_request_id: (stated.request_id.and_then(|r| r.disabled) == Some(true))
                .then_some(false),
            suppress_debug_headers: stated.envoy_debug_headers.and_then(|d| d.disabled)
                == Some(true),
            metadata_in_mesh_only: stated
                .metadata_exchange_headers
                .is_some_and(|m| m.mode() == MetadataExchangeMode::InMesh),
            forwarded_port: stated.x_forwarded_port.and_then(|p| p.enabled) == Some(true),
            forwarded_host: stated.x_forwarded_host.and_then(|h| h.enabled) == Some(true),
            preserve_case: stated.preserve_http1_header_case == Some(true),
        }
    }
}
