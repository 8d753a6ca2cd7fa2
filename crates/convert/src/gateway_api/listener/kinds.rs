//! Which kinds of routes can attach to a listener.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/conversion.go GenerateGatewaySupportedKinds, 1.32.

use model::Kind;
use model::kinds::gateway_api::{Listener, ListenerTls, RouteGroupKind, TlsMode};

/// The kinds of routes that fit a listener's protocol and that it allows, and whether that is all that it names.
pub(super) fn of(listener: &Listener) -> (Vec<Kind>, bool) {
    let mut fitting = match &*listener.protocol {
        "HTTP" | "HTTPS" => vec![Kind::HttpRoute, Kind::GrpcRoute],
        "TCP" => vec![Kind::TcpRoute],
        "TLS" => vec![Kind::TlsRoute],
        _ => Vec::new(),
    };
    let ends_here = |tls: &ListenerTls| tls.mode == TlsMode::Terminate;
    if &*listener.protocol == "TLS" && listener.tls.as_ref().is_some_and(ends_here) {
        fitting.push(Kind::TcpRoute);
    }
    let named = &listener.allowed_routes.kinds;
    if named.is_empty() {
        return (fitting, true);
    }
    let find = |kind: &RouteGroupKind| Kind::find(&kind.group, &kind.kind);
    fitting.retain(|fits| named.iter().any(|kind| find(kind) == Some(*fits)));
    let is_all = fitting.len() == named.len();
    (fitting, is_all)
}
