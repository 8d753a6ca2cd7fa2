//! What a proxy's metadata asks of its listeners.

use std::sync::Arc;
use std::time::Duration;

use model::settings::Settings;
use proto_istio::mesh::proxy_config::ConnectionSettings;
use proto_istio::mesh::proxy_config::connection_settings::{
    HeadersWithUnderscoresAction as Underscores, PathWithEscapedSlashesAction as Slashes, Profile,
};
use proto_istio::mesh::{MeshConfig, ProxyConfig};

use crate::class::Class;
use crate::proxy::Traits;

/// The port on which applications talk to the proxy as to an HTTP proxy, as it says itself, else as the mesh does.
pub fn http_proxy_port(settings: &Settings, proxy: &Traits<'_>) -> Option<u16> {
    let of_mesh = u16::try_from(settings.mesh.proxy_http_port).ok();
    let stated = proxy.port("HTTP_PROXY_PORT").or(of_mesh);
    stated.filter(|port| *port != 0)
}

/// The proxy's own configuration if it states one, else that of the mesh. The two are not merged: the agent beside the
/// proxy has done that.
///
/// Istio: pkg/model/proxy.go ProxyConfigOrDefault, 1.32.
pub fn proxy_config(proxy: &Traits<'_>, mesh: &MeshConfig) -> Arc<ProxyConfig> {
    StatedConfig::of(proxy).or_of(mesh)
}

/// What a proxy states of its own configuration, as JSON.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StatedConfig(Option<Arc<str>>);

impl StatedConfig {
    /// That of a proxy.
    pub fn of(proxy: &Traits<'_>) -> Self {
        Self(proxy.text("PROXY_CONFIG").map(Arc::from))
    }

    /// The configuration if it can be read, else that of the mesh.
    pub fn or_of(&self, mesh: &MeshConfig) -> Arc<ProxyConfig> {
        let stated = self.0.as_deref();
        let own = stated.and_then(|raw| serde_json::from_str::<ProxyConfig>(raw).ok());
        Arc::new(own.unwrap_or_else(|| mesh.default_config.clone().unwrap_or_default()))
    }
}

/// The connection settings of the proxy's configuration, else of the mesh's. The profile of the edge counts for
/// gateways alone.
pub fn connection_settings(
    proxy: &ProxyConfig,
    mesh: &MeshConfig,
    class: Class,
) -> Option<ConnectionSettings> {
    let stated = proxy.connection_settings.or_else(|| {
        mesh.default_config
            .as_ref()
            .and_then(|c| c.connection_settings)
    })?;
    Some(match (class, stated.profile()) {
        (Class::Gateway, Profile::Edge) => at_the_edge(stated),
        _ => stated,
    })
}

/// What Envoy's documentation advises for proxies that face strangers, where nothing else is stated.
///
/// Istio: pilot/pkg/networking/core/connection_settings.go applyEdgeProfileDefaults, 1.32.
fn at_the_edge(mut stated: ConnectionSettings) -> ConnectionSettings {
    let time = |s: u64| Some(proto_istio::wkt::Duration(seconds(s)));
    stated
        .listener_per_connection_buffer_limit_bytes
        .get_or_insert(32 * 1024);
    stated.http_idle_timeout = stated.http_idle_timeout.or(time(60 * 60));
    stated.http_stream_idle_timeout = stated.http_stream_idle_timeout.or(time(5 * 60));
    stated.http_request_timeout = stated.http_request_timeout.or(time(5 * 60));
    stated.http_request_headers_timeout = stated.http_request_headers_timeout.or(time(60));
    stated.http_max_concurrent_streams.get_or_insert(100);
    stated
        .http2_initial_stream_window_size
        .get_or_insert(64 * 1024);
    stated
        .http2_initial_connection_window_size
        .get_or_insert(1024 * 1024);
    if stated.http_headers_with_underscores_action()
        == Underscores::HeadersWithUnderscoresUnspecified
    {
        stated.set_http_headers_with_underscores_action(
            Underscores::HeadersWithUnderscoresRejectRequest,
        );
    }
    stated.http_merge_slashes.get_or_insert(true);
    if stated.http_path_with_escaped_slashes_action() == Slashes::PathWithEscapedSlashesUnspecified
    {
        stated.set_http_path_with_escaped_slashes_action(Slashes::UnescapeAndRedirect);
    }
    stated
}

/// A length of time as Go writes it (`1h30m`, `1.5s`, `100ms`), as `IDLE_TIMEOUT` holds it.
pub fn idle_timeout(text: &str) -> Option<prost_types::Duration> {
    serde_json::from_value::<proto_istio::wkt::Duration>(text.into())
        .ok()
        .map(|d| d.0)
}

/// A length of time for Envoy.
pub fn seconds(seconds: u64) -> prost_types::Duration {
    prost_types::Duration::try_from(Duration::from_secs(seconds))
        .expect("lengths of time written in this crate are in range")
}
