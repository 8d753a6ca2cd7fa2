//! Sides of a proxy, and what listeners make of a protocol.

use model::protocol::Protocol;

/// Which side of a proxy a listener serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Traffic to the workload beside the proxy.
    SidecarInbound,
    /// Traffic from the workload beside the proxy.
    SidecarOutbound,
    /// Traffic through a gateway.
    Gateway,
}

/// How a listener treats a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Handling {
    /// As HTTP.
    Http,
    /// As bytes.
    Tcp,
    /// As what it turns out to be.
    Auto,
    /// Not at all (UDP).
    Ignored,
}

/// How a listener treats a port of that protocol.
///
/// Istio: pilot/pkg/networking/networking.go ModelProtocolToListenerProtocol, 1.32.
pub fn handling(protocol: Protocol) -> Handling {
    match protocol {
        Protocol::Http
        | Protocol::Http2
        | Protocol::HttpProxy
        | Protocol::Grpc
        | Protocol::GrpcWeb => Handling::Http,
        Protocol::Tcp
        | Protocol::Https
        | Protocol::Tls
        | Protocol::Mongo
        | Protocol::Redis
        | Protocol::Mysql => Handling::Tcp,
        Protocol::Udp => Handling::Ignored,
        Protocol::Hbone | Protocol::DoubleHbone | Protocol::Unsupported => Handling::Auto,
    }
}
