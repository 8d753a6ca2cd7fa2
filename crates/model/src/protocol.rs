//! Application protocols of ports.

/// What a port speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Protocol {
    /// gRPC: HTTP/2 with gRPC statistics.
    Grpc,
    /// gRPC web.
    GrpcWeb,
    /// HTTP/1.1.
    Http,
    /// HTTP with a PROXY protocol header before it (gateways).
    HttpProxy,
    /// HTTP/2 without TLS.
    Http2,
    /// TLS that carries HTTP.
    Https,
    /// Opaque TCP.
    Tcp,
    /// TLS, routed by SNI.
    Tls,
    /// UDP.
    Udp,
    /// MongoDB.
    Mongo,
    /// Redis.
    Redis,
    /// MySQL.
    Mysql,
    /// HBONE tunnelling.
    Hbone,
    /// Double HBONE tunnelling.
    DoubleHbone,
    /// Not declared, or not known: sniffed where possible.
    Unsupported,
}
