//! What kind of server one is.
//!
//! Istio: pkg/config/gateway/gateway.go, 1.32.

use model::protocol::Protocol;
use proto_istio::networking::Server;
use proto_istio::networking::server_tls_settings::TlSmode as TlsMode;

fn protocol(server: &Server) -> Protocol {
    let port = server.port.as_ref();
    port.map_or(Protocol::Unsupported, |p| Protocol::parse(&p.protocol))
}

/// Whether TLS is ended or passed through. TLS settings on plain HTTP only redirect.
pub fn is_tls(server: &Server) -> bool {
    server.tls.is_some() && !protocol(server).is_http()
}

/// Whether requests are read: plain HTTP, or HTTPS that is ended here.
pub fn is_http(server: &Server) -> bool {
    let protocol = protocol(server);
    protocol.is_http() || (protocol == Protocol::Https && !is_passthrough(server))
}

/// Whether HTTPS is ended here.
pub fn terminates_https(server: &Server) -> bool {
    server.tls.is_some() && protocol(server) == Protocol::Https && !is_passthrough(server)
}

/// Whether HTTPS that is ended here may be spoken over QUIC as well. Envoy cannot ask clients for certificates there, so a
/// server that requires them is served over TCP alone.
pub(super) fn may_be_quic(server: &Server) -> bool {
    let tls = server.tls.as_ref();
    let asks = tls.is_some_and(|t| matches!(t.mode(), TlsMode::Mutual | TlsMode::IstioMutual));
    terminates_https(server) && !asks
}

/// Whether TLS goes through unread.
pub fn is_passthrough(server: &Server) -> bool {
    server
        .tls
        .as_ref()
        .is_some_and(|t| matches!(t.mode(), TlsMode::Passthrough | TlsMode::AutoPassthrough))
}
