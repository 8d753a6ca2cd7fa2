//! Services that clusters share: `ServiceExport` and `ServiceImport` of the Multi-Cluster Services API.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::kube::Condition;

/// The label, with the value `true`, of Secrets that hold kubeconfigs of remote clusters.
pub const REMOTE_SECRET_LABEL: &str = "istio/multiCluster";

/// Shares the Service of the same name and namespace with other clusters; it has no settings. It counts where
/// `ENABLE_MCS_SERVICE_DISCOVERY` is set; else every cluster sees every service.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ServiceExport {}

/// What became of a share.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceExportStatus {
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A service that clusters share, as one of them sees it: it is there under a host of `clusterset.local` as well, with these
/// addresses, where `ENABLE_MCS_HOST` is set.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceImport {
    /// Ports.
    pub ports: Vec<ImportPort>,
    /// Its virtual address; none for a headless one.
    #[serde(default)]
    pub ips: Vec<Arc<str>>,
    /// Whether it has an address of its own.
    #[serde(rename = "type")]
    pub import_type: ImportType,
    /// `ClientIP` or `None`.
    #[serde(default)]
    pub session_affinity: Arc<str>,
    /// Settings of the affinity.
    pub session_affinity_config: Option<ImportAffinity>,
}

/// Whether a shared service has an address of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum ImportType {
    /// One for all clusters.
    #[serde(rename = "ClusterSetIP")]
    ClusterSetIp,
    /// None: its name leads to the pods.
    Headless,
}

/// A port of a shared service.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportPort {
    /// Its name; may be absent where there is only one.
    #[serde(default)]
    pub name: Arc<str>,
    /// `TCP` where absent, `UDP` or `SCTP`.
    #[serde(default)]
    pub protocol: Arc<str>,
    /// What is spoken there.
    pub app_protocol: Option<Arc<str>>,
    /// Number.
    pub port: u16,
}

/// Settings of affinity.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ImportAffinity {
    /// By the client's address.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ImportClientAffinity>,
}

/// Affinity by the client's address.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ImportClientAffinity {
    /// How long it lasts; 10800 where absent.
    pub timeout_seconds: Option<i32>,
}
