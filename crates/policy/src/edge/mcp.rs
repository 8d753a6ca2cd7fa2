//! Servers of MCP: sessions that stay with the endpoint that made them, and paths that are others for clients.
//!
//! With Higress's own filters where the proxy states them, otherwise with a script and Envoy's filter of sessions. A session is made
//! by the endpoint that answers first, so nothing that requests have can be hashed to find it again.

use model::edge::{EdgeRoute, Mcp, Transport};
use prost_types::value::Kind;
use prost_types::{Any, ListValue, Value};
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute, stateful_session_per_route,
};
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use xds::any;

use super::can::MCP_SESSIONS;
use super::{Can, MCP, RouteParts, SESSIONS, object, string};
use crate::filters;

/// Reads and writes what names a session; what a route asks for is in its metadata.
pub(super) const SCRIPT: &str = include_str!("mcp.lua");

/// The header through which the script and the filter of sessions speak; clients and servers do not see it.
pub(super) const ENDPOINT: &str = "x-pilothouse-endpoint";

/// The longest event of a stream ends with one of these.
const ENDS: [&str; 3] = ["\r\n\r\n", "\n\n", "\r\r"];

/// The filter of sessions, which does nothing but for routes that configure it.
pub(super) fn sessions() -> hcm::HttpFilter {
    super::disabled(SESSIONS, &StatefulSession::default())
}

/// Higress's filter of sessions.
pub(super) fn higress_sessions() -> hcm::HttpFilter {
    const CONFIG: &str = "type.googleapis.com/envoy.extensions.filters.http.mcp_sse_stateful_session.v3alpha.McpSseStatefulSession";
    filters::http(MCP_SESSIONS, filters::typed_struct(CONFIG, []))
}

/// Adds what a route to a server of MCP says.
pub(super) fn add(asked: &EdgeRoute, can: Can, parts: &mut RouteParts) {
    let Some(mcp) = &asked.mcp else { return };
    let session = match &mcp.transport {
        Transport::Events { session } if can.mcp_sessions => Some(session),
        _ => None,
    };
    if let Some(name) = session {
        let config = by_higress(name);
        parts.configs.insert(MCP_SESSIONS.to_owned(), config);
    }
    let binds = session.is_none() && can.sessions && mcp.transport != Transport::Rest;
    if binds {
        parts.configs.insert(SESSIONS.to_owned(), by_header());
        parts.hidden.push(ENDPOINT);
    }
    let moved = mcp.moved.as_ref().filter(|_| !by_library(mcp, can));
    if !can.script || !binds && moved.is_none() {
        return;
    }
    let path = |path: &str| string(path.trim_end_matches('/'));
    let is_events = matches!(mcp.transport, Transport::Events { .. });
    let mut fields = vec![
        ("binds", Kind::BoolValue(binds)),
        ("events", Kind::BoolValue(is_events)),
    ];
    if let Some(moved) = moved {
        fields.extend([("from", path(&moved.from)), ("to", path(&moved.to))]);
    }
    let asked = object([("mcp", Kind::StructValue(object(fields)))]);
    parts.metadata.insert(MCP.to_owned(), asked);
}

/// Whether Higress's library changes paths.
fn by_library(mcp: &Mcp, can: Can) -> bool {
    can.mcp && mcp.entry.is_some()
}

/// What a route says to the filter of sessions. One whose endpoint is gone goes to another, which does not know it.
fn by_header() -> Any {
    let state = HeaderBasedSessionState {
        name: ENDPOINT.to_owned(),
    };
    let session = StatefulSession {
        session_state: Some(TypedExtensionConfig {
            name: "envoy.http.stateful_session.header".to_owned(),
            typed_config: Some(any(&state)),
        }),
        ..StatefulSession::default()
    };
    any(&StatefulSessionPerRoute {
        r#override: Some(stateful_session_per_route::Override::StatefulSession(
            session,
        )),
    })
}

/// What a route says to Higress's filter of sessions.
///
/// Higress: pkg/ingress/config/ingress_config.go constructMcpSseStatefulSessionEnvoyFilter, 2.1.
fn by_higress(parameter: &str) -> Any {
    const ROUTE: &str = "type.googleapis.com/envoy.extensions.filters.http.mcp_sse_stateful_session.v3alpha.McpSseStatefulSessionPerRoute";
    const STATE: &str = "type.googleapis.com/envoy.extensions.http.mcp_sse_stateful_session.envelope.v3alpha.EnvelopeSessionState";
    const UDPA: &str = "type.googleapis.com/udpa.type.v1.TypedStruct";
    let ends = ENDS.map(|end| Value {
        kind: Some(string(end)),
    });
    let nested = |fields: Vec<(&'static str, Kind)>| Kind::StructValue(object(fields));
    let state = nested(vec![
        ("param_name", string(parameter)),
        (
            "chunk_end_patterns",
            Kind::ListValue(ListValue {
                values: ends.into(),
            }),
        ),
    ]);
    let typed = nested(vec![
        ("@type", string(UDPA)),
        ("type_url", string(STATE)),
        ("value", state),
    ]);
    let extension = nested(vec![
        (
            "name",
            string("envoy.http.mcp_sse_stateful_session.envelope"),
        ),
        ("typed_config", typed),
    ]);
    let session = nested(vec![
        ("session_state", extension),
        ("strict", Kind::BoolValue(true)),
    ]);
    filters::typed_struct(ROUTE, [("mcp_sse_stateful_session", session)])
}
