//! What is sent, and how it comes to the proxy.

use std::net::IpAddr;

/// What is spoken inside of TLS, if there is any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, and what runs on it.
    Http2,
    /// Anything else.
    Tcp,
}

/// How a connection is protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tls {
    /// Not at all.
    #[default]
    None,
    /// The server shows a certificate.
    Simple,
    /// Client and server are of the mesh, and show it.
    Mesh,
}

/// How a connection comes to the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Entry {
    /// To an address that the proxy is bound to, as at a gateway, or redirected on its way out of a workload.
    #[default]
    Outbound,
    /// Redirected on its way into a workload.
    Inbound,
}

/// Who sends it, as far as that is known.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The name in its certificate, `spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT`.
    pub identity: Option<String>,
    /// Its address.
    pub address: Option<IpAddr>,
}

/// A request, or a connection where [`Protocol::Tcp`] is spoken.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// How it comes.
    pub entry: Entry,
    /// The address it is sent to; `None` where only the port matters.
    pub address: Option<IpAddr>,
    /// The port it is sent to.
    pub port: u16,
    /// What is spoken.
    pub protocol: Protocol,
    /// How it is protected.
    pub tls: Tls,
    /// The server name in the TLS handshake; empty for none.
    pub sni: String,
    /// What the client offers in the TLS handshake, most wanted first.
    pub alpn: Vec<String>,
    /// HTTP method.
    pub method: String,
    /// HTTP authority; `Host` in HTTP/1.1.
    pub authority: String,
    /// HTTP path with query.
    pub path: String,
    /// More HTTP headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Who sends it.
    pub client: Client,
}

impl Call {
    /// What the client offers by itself where nothing is said: clients of the mesh say so, others name the protocol.
    pub fn default_alpn(protocol: Protocol, tls: Tls) -> Vec<String> {
        let offered = match (tls, protocol) {
            (Tls::None, _) | (Tls::Simple, Protocol::Tcp) => return Vec::new(),
            (Tls::Simple, Protocol::Http1) => "http/1.1",
            (Tls::Simple, Protocol::Http2) => "h2",
            (Tls::Mesh, Protocol::Http1) => "istio-http/1.1",
            (Tls::Mesh, Protocol::Http2) => "istio-h2",
            (Tls::Mesh, Protocol::Tcp) => "istio",
        };
        vec![offered.to_owned()]
    }

    /// A header of the request, pseudo headers included; values of one name are joined.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        match name {
            ":method" => return Some(self.method.clone()),
            ":authority" | "host" => return Some(self.authority.clone()),
            ":path" => return Some(self.path.clone()),
            ":scheme" => {
                let scheme = if self.tls == Tls::None {
                    "http"
                } else {
                    "https"
                };
                return Some(scheme.to_owned());
            }
            _ => {}
        }
        let of_name = self.headers.iter().filter(|(n, _)| n == name);
        let values: Vec<&str> = of_name.map(|(_, v)| v.as_str()).collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// The path without the query.
    pub(crate) fn bare_path(&self) -> &str {
        self.path.split(['?', '#']).next().unwrap_or_default()
    }

    /// The value of a query parameter.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.path.split_once('?')?;
        let pairs = query
            .split('&')
            .map(|p| p.split_once('=').unwrap_or((p, "")));
        pairs.filter(|(n, _)| *n == name).map(|(_, v)| v).next()
    }
}
