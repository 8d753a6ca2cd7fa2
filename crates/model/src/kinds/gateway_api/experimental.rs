//! The kinds of `gateway.networking.x-k8s.io`, which the Gateway API tries out.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::http_route::SessionPersistence;
use super::policy::BackendValidation;
use super::reference::{GatewayDuration, LocalObjectRef, ParametersRef, SecretRef};

/// A backend that is no Service.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct XBackend {
    /// What it is.
    #[serde(rename = "type")]
    pub backend_type: XBackendType,
    /// The host, for the type `ExternalHostname`.
    pub external_hostname: Option<ExternalHostname>,
    /// Its port.
    pub port: XBackendPort,
    /// What it speaks.
    pub protocol: Option<XBackendProtocol>,
    /// How it is spoken to with TLS.
    pub tls: Option<XBackendTls>,
}

/// What a backend is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum XBackendType {
    /// A host outside the cluster.
    ExternalHostname,
}

/// A host outside the cluster.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalHostname {
    /// The name, which is resolved with DNS; no address.
    pub hostname: Arc<str>,
}

/// A port of a backend.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct XBackendPort {
    /// Name.
    #[serde(default)]
    pub name: Arc<str>,
    /// Number.
    pub port: u16,
}

/// What a backend speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum XBackendProtocol {
    /// Bytes.
    #[serde(rename = "TCP")]
    Tcp,
    /// HTTP of any version.
    #[serde(rename = "HTTP")]
    Http,
    /// HTTP/2.
    #[serde(rename = "HTTP2")]
    Http2,
    /// HTTP/1.1.
    #[serde(rename = "HTTP11")]
    Http11,
    /// HTTP/2 without TLS.
    #[serde(rename = "H2C")]
    H2c,
    /// The Model Context Protocol.
    #[serde(rename = "MCP")]
    Mcp,
}

/// How a backend is spoken to with TLS.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct XBackendTls {
    /// Who shows a certificate.
    pub mode: XBackendTlsMode,
    /// How the backend's certificate is checked.
    pub validation: Option<BackendValidation>,
    /// The gateway's certificate, for the mode `ClientAndServer`.
    pub client_certificate_ref: Option<SecretRef>,
}

/// Who shows a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum XBackendTlsMode {
    /// Nobody: no TLS.
    None,
    /// The backend.
    ServerOnly,
    /// Backend and gateway.
    ClientAndServer,
}

/// How requests to backends are tried again and kept together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct XBackendTrafficPolicy {
    /// Backends it holds for.
    pub target_refs: Vec<LocalObjectRef>,
    /// How much of the traffic may be tries again.
    pub retry_constraint: Option<RetryConstraint>,
    /// Whether sessions stay with a backend.
    pub session_persistence: Option<SessionPersistence>,
}

/// How much of the traffic may be tries again.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryConstraint {
    /// The share. Default: 20 % of 10s.
    #[serde(default)]
    pub budget: RetryBudget,
    /// So many are always allowed. Default: 10 in 1s.
    #[serde(default)]
    pub min_retry_rate: RetryRate,
}

/// A share of the traffic.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryBudget {
    /// In per cent. Default: 20.
    pub percent: u8,
    /// Over which time. Default: 10s.
    pub interval: GatewayDuration,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            percent: 20,
            interval: GatewayDuration(Duration::from_secs(10)),
        }
    }
}

/// Tries in a time.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRate {
    /// How many.
    pub count: Option<u32>,
    /// In which time.
    pub interval: Option<GatewayDuration>,
}

impl Default for RetryRate {
    fn default() -> Self {
        Self {
            count: Some(10),
            interval: Some(GatewayDuration(Duration::from_secs(1))),
        }
    }
}

/// A mesh: an implementation that handles traffic between services.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct XMesh {
    /// Who implements it, as `DOMAIN/PATH`.
    pub controller_name: Arc<str>,
    /// More settings.
    pub parameters_ref: Option<ParametersRef>,
    /// For people.
    #[serde(default)]
    pub description: Arc<str>,
}
