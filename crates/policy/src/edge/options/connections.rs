//! The sections `downstream` and `upstream`: connections of clients, and those to backends.
//!
//! Higress: pkg/ingress/kube/configmap/global.go, 2.1.

use super::fields::{Fields, Wrong};

/// The smallest window of HTTP/2 that is taken; the protocol's own.
const LEAST_WINDOW: u32 = 65_535;
/// The largest number that HTTP/2 knows.
const LARGEST: u32 = (1 << 31) - 1;
/// The most that Envoy takes for the headers of a request, in KiB.
const LARGEST_HEADERS: u32 = 8192;

/// Connections of clients.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Downstream {
    /// When connections and streams are closed on which nothing moves, in seconds; 0 is never.
    pub idle_timeout: u32,
    /// How large the headers of a request may be, in KiB.
    pub max_request_headers_kb: u32,
    /// What a connection may buffer, in bytes; 0 is no limit.
    pub connection_buffer_limits: u32,
    /// Limits of HTTP/2.
    pub http2: Http2,
    /// How long the answer to any request may take, in seconds, whatever its route says; 0 leaves that to routes.
    pub route_timeout: u32,
}

/// Limits of HTTP/2.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Http2 {
    /// Streams at once.
    pub max_concurrent_streams: u32,
    /// The window of a stream, in bytes.
    pub initial_stream_window_size: u32,
    /// The window of a connection, in bytes.
    pub initial_connection_window_size: u32,
}

/// Connections to backends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Upstream {
    /// When connections are closed that no request uses, in seconds; 0 is never.
    pub idle_timeout: u32,
    /// What a connection may buffer, in bytes; 0 is no limit.
    pub connection_buffer_limits: u32,
}

impl Default for Downstream {
    fn default() -> Self {
        Self {
            idle_timeout: 180,
            max_request_headers_kb: 60,
            connection_buffer_limits: 32 << 10,
            http2: Http2 {
                max_concurrent_streams: 100,
                initial_stream_window_size: LEAST_WINDOW,
                initial_connection_window_size: 1 << 20,
            },
            route_timeout: 0,
        }
    }
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            idle_timeout: 10,
            connection_buffer_limits: 10 << 20,
        }
    }
}

impl Downstream {
    pub(super) fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let default = Self::default();
        let any = 0..=u32::MAX;
        let http2 = match fields.part("http2")? {
            None => default.http2,
            Some(part) => Http2::read(part, default.http2, unknown)?,
        };
        let read = Self {
            idle_timeout: fields.number("idleTimeout", default.idle_timeout, any.clone())?,
            // Envoy refuses listeners that say 0.
            max_request_headers_kb: fields.number(
                "maxRequestHeadersKb",
                default.max_request_headers_kb,
                1..=LARGEST_HEADERS,
            )?,
            connection_buffer_limits: fields.number(
                "connectionBufferLimits",
                default.connection_buffer_limits,
                any.clone(),
            )?,
            http2,
            route_timeout: fields.number("routeTimeout", default.route_timeout, any)?,
        };
        fields.end(unknown);
        Ok(read)
    }
}

impl Http2 {
    fn read(
        mut fields: Fields<'_>,
        default: Self,
        unknown: &mut Vec<Wrong>,
    ) -> Result<Self, Wrong> {
        let window = LEAST_WINDOW..=LARGEST;
        let read = Self {
            max_concurrent_streams: fields.number(
                "maxConcurrentStreams",
                default.max_concurrent_streams,
                1..=LARGEST,
            )?,
            initial_stream_window_size: fields.number(
                "initialStreamWindowSize",
                default.initial_stream_window_size,
                window.clone(),
            )?,
            initial_connection_window_size: fields.number(
                "initialConnectionWindowSize",
                default.initial_connection_window_size,
                window,
            )?,
        };
        fields.end(unknown);
        Ok(read)
    }
}

impl Upstream {
    pub(super) fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let default = Self::default();
        let any = 0..=u32::MAX;
        let read = Self {
            idle_timeout: fields.number("idleTimeout", default.idle_timeout, any.clone())?,
            connection_buffer_limits: fields.number(
                "connectionBufferLimits",
                default.connection_buffer_limits,
                any,
            )?,
        };
        fields.end(unknown);
        Ok(read)
    }
}
