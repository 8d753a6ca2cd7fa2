//! The request that the flags describe.

use std::net::IpAddr;

use anyhow::{Context, bail};
use simulate::{Call, Client, Entry, Protocol, Resources, Tls};

use super::SimulateOptions;

/// A URL in parts.
struct Url<'a> {
    scheme: &'a str,
    host: &'a str,
    port: Option<u16>,
    path: &'a str,
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> anyhow::Result<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let after_host = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[after_host..].rfind(':') {
            Some(at) => {
                let (host, port) = authority.split_at(after_host + at);
                let port = port[1..].parse();
                (
                    host,
                    Some(port.with_context(|| format!("{text}: no port"))?),
                )
            }
            None => (authority, None),
        };
        if host.is_empty() {
            bail!("{text}: a host is needed, as in http://reviews:9080/");
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self {
            scheme,
            host,
            port,
            path,
        })
    }

    fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_owned(),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        host.parse().ok()
    }
}

/// The call; where its host is a service whose address the proxy knows, it is sent there.
pub(super) fn call(options: &SimulateOptions, resources: &Resources) -> anyhow::Result<Call> {
    let (method, text) = match &options.request[..] {
        [method, url] => (method.as_str(), url),
        [url] => ("GET", url),
        _ => bail!("one URL is needed, as in GET http://reviews:9080/"),
    };
    let url = Url::parse(text)?;
    let (protocol, encrypted, port) = match url.scheme {
        "http" => (Protocol::Http1, false, 80),
        "https" => (Protocol::Http1, true, 443),
        "grpc" | "h2c" => (Protocol::Http2, false, 80),
        "grpcs" | "h2" => (Protocol::Http2, true, 443),
        "tcp" => (Protocol::Tcp, false, 0),
        "tls" => (Protocol::Tcp, true, 443),
        other => bail!("{other}:// is not known: http, https, grpc, grpcs, tcp or tls"),
    };
    let port = url.port.unwrap_or(port);
    if port == 0 {
        bail!("{text}: a port is needed");
    }
    let protocol = match protocol {
        Protocol::Http1 if options.http2 => Protocol::Http2,
        protocol => protocol,
    };
    let identity = options.identity.as_deref().map(identity).transpose()?;
    let tls = match (options.mtls || identity.is_some(), encrypted) {
        (true, _) => Tls::Mesh,
        (false, true) => Tls::Simple,
        (false, false) => Tls::None,
    };
    let mut authority = url.authority();
    let mut headers = Vec::new();
    for header in &options.headers {
        let (name, value) = header
            .split_once(':')
            .with_context(|| format!("-H {header}: NAME: VALUE is wanted"))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        if name == "host" || name.is_empty() {
            authority = value;
        } else {
            headers.push((name, value));
        }
    }
    if protocol == Protocol::Http2 && url.scheme.starts_with("grpc") {
        headers.push(("content-type".to_owned(), "application/grpc".to_owned()));
    }
    let address = options.to.or_else(|| url.address());
    Ok(Call {
        entry: if options.inbound {
            Entry::Inbound
        } else {
            Entry::Outbound
        },
        address: address.or_else(|| resources.address_of(url.host, port)),
        port,
        alpn: Call::default_alpn(protocol, tls),
        sni: if tls == Tls::None || url.address().is_some() {
            String::new()
        } else {
            url.host.to_owned()
        },
        method: method.to_ascii_uppercase(),
        path: url.path.to_owned(),
        protocol,
        tls,
        authority,
        headers,
        client: Client {
            identity,
            address: options.client_ip,
        },
    })
}

/// The name in the certificate of a service account, `NAMESPACE/ACCOUNT`, of the trust domain cluster.local; another is stated whole.
fn identity(text: &str) -> anyhow::Result<String> {
    if text.starts_with("spiffe://") {
        return Ok(text.to_owned());
    }
    match text.split_once('/') {
        Some((namespace, account)) if !namespace.is_empty() && !account.is_empty() => Ok(format!(
            "spiffe://cluster.local/ns/{namespace}/sa/{account}"
        )),
        _ => bail!("--as {text}: NAMESPACE/ACCOUNT or spiffe://... is wanted"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test that cannot go on fails.

    use super::{Url, identity};

    #[test]
    fn a_client_is_a_service_account_or_a_whole_identity() {
        let front = "spiffe://cluster.local/ns/shop/sa/front";
        assert_eq!(identity("shop/front").unwrap(), front);
        let other = "spiffe://td/ns/shop/sa/front";
        assert_eq!(identity(other).unwrap(), other);
        assert!(identity("front").is_err() && identity("shop/").is_err());
    }

    #[test]
    fn urls_come_apart() {
        let parts = |text| {
            let url = Url::parse(text).unwrap();
            (url.scheme, url.host, url.port, url.path)
        };
        assert_eq!(parts("a/b?c"), ("http", "a", None, "/b?c"));
        assert_eq!(parts("tcp://db:5432"), ("tcp", "db", Some(5432), "/"));
        assert_eq!(
            parts("https://[::1]:8443/x"),
            ("https", "[::1]", Some(8443), "/x")
        );
        assert!(Url::parse("http://:80/").is_err() && Url::parse("a:b").is_err());
    }
}
