//! Limits and time limits that a proxy's configuration states for its connections.
//!
//! Istio: pilot/pkg/networking/core/connection_settings.go applyConnectionSettingsToHCM, 1.32.

use proto_envoy::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction as EnvoyUnderscores;
use proto_envoy::envoy::config::core::v3::{Http2ProtocolOptions, HttpProtocolOptions};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::PathWithEscapedSlashesAction as EnvoySlashes;
use proto_istio::mesh::proxy_config::ConnectionSettings;
use proto_istio::mesh::proxy_config::connection_settings::{
    HeadersWithUnderscoresAction as Underscores, PathWithEscapedSlashesAction as Slashes,
};
use proto_istio::wkt::Duration;

/// Applies what is stated; it overrides the mesh's path normalisation.
pub(super) fn apply(manager: &mut HttpConnectionManager, stated: &ConnectionSettings) {
    times(manager, stated);
    http2(manager, stated);
    let underscores = match stated.http_headers_with_underscores_action() {
        Underscores::HeadersWithUnderscoresUnspecified => None,
        Underscores::HeadersWithUnderscoresAllow => Some(EnvoyUnderscores::Allow),
        Underscores::HeadersWithUnderscoresRejectRequest => Some(EnvoyUnderscores::RejectRequest),
        Underscores::HeadersWithUnderscoresDropHeader => Some(EnvoyUnderscores::DropHeader),
    };
    if let Some(action) = underscores {
        manager
            .common_http_protocol_options
            .get_or_insert_with(HttpProtocolOptions::default)
            .headers_with_underscores_action = action as i32;
    }
    if let Some(merge) = stated.http_merge_slashes {
        manager.merge_slashes = merge;
    }
    let slashes = match stated.http_path_with_escaped_slashes_action() {
        Slashes::PathWithEscapedSlashesUnspecified => None,
        Slashes::KeepUnchanged => Some(EnvoySlashes::KeepUnchanged),
        Slashes::RejectRequest => Some(EnvoySlashes::RejectRequest),
        Slashes::UnescapeAndRedirect => Some(EnvoySlashes::UnescapeAndRedirect),
        Slashes::UnescapeAndForward => Some(EnvoySlashes::UnescapeAndForward),
    };
    if let Some(action) = slashes {
        manager.path_with_escaped_slashes_action = action as i32;
    }
}

fn times(manager: &mut HttpConnectionManager, stated: &ConnectionSettings) {
    let set = |to: &mut Option<prost_types::Duration>, stated: Option<Duration>| {
        if let Some(time) = stated {
            *to = Some(time.0);
        }
    };
    if stated.http_idle_timeout.is_some()
        || stated.http_max_connection_duration.is_some()
        || stated.http_max_stream_duration.is_some()
    {
        let common = manager
            .common_http_protocol_options
            .get_or_insert_with(HttpProtocolOptions::default);
        set(&mut common.idle_timeout, stated.http_idle_timeout);
        set(
            &mut common.max_connection_duration,
            stated.http_max_connection_duration,
        );
        set(
            &mut common.max_stream_duration,
            stated.http_max_stream_duration,
        );
    }
    set(
        &mut manager.stream_idle_timeout,
        stated.http_stream_idle_timeout,
    );
    set(&mut manager.request_timeout, stated.http_request_timeout);
    set(
        &mut manager.request_headers_timeout,
        stated.http_request_headers_timeout,
    );
    set(&mut manager.drain_timeout, stated.http_drain_timeout);
}

fn http2(manager: &mut HttpConnectionManager, stated: &ConnectionSettings) {
    let limits = [
        stated.http_max_concurrent_streams,
        stated.http2_initial_stream_window_size,
        stated.http2_initial_connection_window_size,
    ];
    if limits.iter().all(Option::is_none) {
        return;
    }
    // Negative numbers count as not stated.
    let [streams, stream_window, connection_window] =
        limits.map(|limit| limit.and_then(|n| u32::try_from(n).ok()));
    let options = manager
        .http2_protocol_options
        .get_or_insert_with(Http2ProtocolOptions::default);
    options.max_concurrent_streams = streams.or(options.max_concurrent_streams);
    options.initial_stream_window_size = stream_window.or(options.initial_stream_window_size);
    options.initial_connection_window_size =
        connection_window.or(options.initial_connection_window_size);
}
