//! What a proxy's metadata asks of its listeners.

use std::sync::Arc;
use std::time::Duration;

use proto_istio::mesh::proxy_config::ConnectionSettings;
use proto_istio::mesh::{MeshConfig, ProxyConfig};

use crate::view::View;

/// A text of the proxy's metadata; `None` where it is absent, empty or no text.
pub fn text(view: &View, key: &str) -> Option<String> {
    let raw = view.metadata.get(key)?;
    serde_json::from_str::<String>(raw)
        .ok()
        .filter(|text| !text.is_empty())
}

/// A flag of the proxy's metadata: `true`, as JSON or as text.
pub fn flag(view: &View, key: &str) -> bool {
    matches!(
        view.metadata.get(key).map(|raw| raw.trim_matches('"')),
        Some("true" | "1")
    )
}

/// A port of the proxy's metadata, as JSON number or as text.
pub fn port(view: &View, key: &str) -> Option<u16> {
    view.metadata.get(key)?.trim_matches('"').parse().ok()
}

/// The proxy's own configuration if it states one, else that of the mesh. The two are not merged: the agent beside the
/// proxy has done that.
///
/// Istio: pkg/model/proxy.go ProxyConfigOrDefault, 1.32.
pub fn proxy_config(view: &View, mesh: &MeshConfig) -> Arc<ProxyConfig> {
    let own = view
        .metadata
        .get("PROXY_CONFIG")
        .and_then(|raw| serde_json::from_str::<ProxyConfig>(raw).ok());
    Arc::new(own.unwrap_or_else(|| mesh.default_config.clone().unwrap_or_default()))
}

/// The connection settings of the proxy's configuration, else of the mesh's.
pub fn connection_settings(proxy: &ProxyConfig, mesh: &MeshConfig) -> Option<ConnectionSettings> {
    proxy.connection_settings.or_else(|| {
        mesh.default_config
            .as_ref()
            .and_then(|c| c.connection_settings)
    })
}

/// A length of time as Go writes it (`1h30m`, `1.5s`, `100ms`), as `IDLE_TIMEOUT` holds it.
pub fn idle_timeout(view: &View) -> Option<prost_types::Duration> {
    let text = text(view, "IDLE_TIMEOUT")?;
    serde_json::from_value::<proto_istio::wkt::Duration>(text.into())
        .ok()
        .map(|d| d.0)
}

/// A length of time for Envoy.
pub fn seconds(seconds: u64) -> prost_types::Duration {
    prost_types::Duration::try_from(Duration::from_secs(seconds))
        .expect("lengths of time written in this crate are in range")
}

/// Ports that listeners of the proxy's bootstrap hold already.
///
/// Istio: pilot/pkg/model/context.go conflictWithReservedListener, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Reserved {
    /// Ports of the bootstrap: status and metrics.
    pub statics: Vec<u16>,
    /// Whether the proxy may not bind ports below 1024.
    pub unprivileged: bool,
}

impl Reserved {
    /// What the proxy states.
    pub fn of(view: &View) -> Self {
        let keys = [
            "ENVOY_STATUS_PORT",
            "ENVOY_PROMETHEUS_PORT",
            "ENVOY_SECURE_METRICS_PORT",
            "ENVOY_SECURE_MERGED_METRICS_PORT",
        ];
        Self {
            statics: keys.iter().filter_map(|key| port(view, key)).collect(),
            unprivileged: matches!(
                text(view, "UNPRIVILEGED_POD").as_deref(),
                Some("1" | "t" | "T" | "true" | "TRUE" | "True")
            ),
        }
    }
}
