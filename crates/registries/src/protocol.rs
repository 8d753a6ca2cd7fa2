//! What services of registries speak, in the words of their metadata.
// Higress: registry/common (protocols), registry/direct/watcher.go (TLS), 2.1.

/// What a service speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Protocol {
    Http,
    Https,
    Http2,
    Grpc,
    Grpcs,
    Dubbo,
    Tcp,
}

impl Protocol {
    /// Reads the word, in any case.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "http" => Self::Http,
            "https" => Self::Https,
            "http2" => Self::Http2,
            "grpc" | "triple" | "tri" => Self::Grpc,
            "grpcs" => Self::Grpcs,
            "dubbo" => Self::Dubbo,
            "tcp" => Self::Tcp,
            _ => return None,
        })
    }

    /// The name of the port that speaks it.
    pub fn port_name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
            Self::Grpcs => "grpcs",
            Self::Dubbo => "dubbo",
            Self::Tcp => "tcp",
        }
    }

    /// In the words of a ServiceEntry. Below the TLS of `grpcs` lies gRPC; what Envoy has no word for is bytes.
    pub fn of_port(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::Http2 => "HTTP2",
            Self::Grpc | Self::Grpcs => "GRPC",
            Self::Dubbo | Self::Tcp => "TCP",
        }
    }

    /// Whether proxies are to speak TLS with it.
    pub fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Grpcs)
    }
}
