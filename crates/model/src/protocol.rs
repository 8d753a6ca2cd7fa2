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

impl Protocol {
    /// Reads a protocol as users write it, in any case; [`Protocol::Unsupported`] for what is none.
    ///
    /// Istio: pkg/config/protocol/instance.go Parse, 1.32.
    pub fn parse(text: &str) -> Self {
        match text.to_ascii_lowercase().as_str() {
            "tcp" => Self::Tcp,
            "udp" => Self::Udp,
            "grpc" => Self::Grpc,
            "grpc-web" => Self::GrpcWeb,
            "http" => Self::Http,
            "http_proxy" => Self::HttpProxy,
            "http2" => Self::Http2,
            "https" => Self::Https,
            "tls" => Self::Tls,
            "mongo" => Self::Mongo,
            "redis" => Self::Redis,
            "mysql" => Self::Mysql,
            _ => Self::Unsupported,
        }
    }

    /// Whether it carries HTTP in the clear.
    pub fn is_http(self) -> bool {
        matches!(
            self,
            Self::Http | Self::Http2 | Self::HttpProxy | Self::Grpc | Self::GrpcWeb
        )
    }

    /// Whether it is HTTP/2 in the clear.
    pub fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc | Self::GrpcWeb)
    }

    /// Whether it is gRPC.
    pub fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcWeb)
    }

    /// Whether a proxy that terminates nothing sees it as TCP.
    pub fn is_tcp(self) -> bool {
        matches!(
            self,
            Self::Tcp | Self::Https | Self::Tls | Self::Mongo | Self::Redis | Self::Mysql
        )
    }

    /// Whether it is TLS, whatever is inside.
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls)
    }

    /// Whether nothing is declared and the proxy has to look.
    pub fn is_unsupported(self) -> bool {
        self == Self::Unsupported
    }

    /// Whether HTTP may be spoken: declared, or found by looking.
    pub fn is_http_or_sniffed(self) -> bool {
        self.is_http() || self.is_unsupported()
    }

    /// What is left once TLS is terminated.
    pub fn after_tls_termination(self) -> Self {
        match self {
            Self::Https => Self::Http,
            Self::Tls => Self::Tcp,
            other => other,
        }
    }
}
