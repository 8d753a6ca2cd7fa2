//! Application protocols of ports.

use std::fmt;

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

    /// What a port of a Kubernetes Service speaks: what its `appProtocol` says, else the part of its name before the
    /// first dash. Without either, ports on which the server speaks first are TCP.
    ///
    /// Istio: pkg/config/kube/conversion.go ConvertProtocol, 1.32.
    pub fn of_kube_port(
        port: i32,
        name: &str,
        transport: &str,
        app_protocol: Option<&str>,
    ) -> Self {
        const SERVER_FIRST: [i32; 4] = [25, 53, 3306, 27017];
        const GRPC_WEB: &str = "grpc-web";
        if transport == "UDP" {
            return Self::Udp;
        }
        let name = match app_protocol {
            Some("kubernetes.io/h2c") => return Self::Http2,
            Some("kubernetes.io/ws") => return Self::Http,
            Some("kubernetes.io/wss") => return Self::Https,
            Some(name) => name,
            None => name,
        };
        // It holds a dash of its own.
        if name
            .get(..GRPC_WEB.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(GRPC_WEB))
        {
            return Self::GrpcWeb;
        }
        match Self::parse(name.split('-').next().unwrap_or(name)) {
            Self::Unsupported if SERVER_FIRST.contains(&port) => Self::Tcp,
            protocol => protocol,
        }
    }

    /// Its name as Istio prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "GRPC",
            Self::GrpcWeb => "GRPC-Web",
            Self::Http => "HTTP",
            Self::HttpProxy => "HTTP_PROXY",
            Self::Http2 => "HTTP2",
            Self::Https => "HTTPS",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Udp => "UDP",
            Self::Mongo => "Mongo",
            Self::Redis => "Redis",
            Self::Mysql => "MySQL",
            Self::Hbone => "HBONE",
            Self::DoubleHbone => "DoubleHBONE",
            Self::Unsupported => "UnsupportedProtocol",
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

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
