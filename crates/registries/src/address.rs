//! Addresses of servers, as they are written in configuration.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// A server: an address or a name, and a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// A server as it is written: an address or a name, with or without a port.
    pub(crate) fn parse(text: &str, port: u16) -> Option<Self> {
        let text = text.trim();
        if let Ok(IpAddr::V6(address)) = text.parse() {
            return Some(Self {
                host: format!("[{address}]"),
                port,
            });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => (host, port.parse().ok()?),
            _ => (text, port),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let v6 = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let is_host = match v6 {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(is_name),
        };
        (is_host && port > 0).then(|| Self {
            host: host.to_owned(),
            port,
        })
    }

    /// As in a URL.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The same with a port so far above, where there is such a port.
    pub(crate) fn above(&self, by: u16) -> Option<String> {
        let port = self.port.checked_add(by)?;
        Some(format!("{}:{port}", self.host))
    }

    /// Whether it needs no looking up.
    pub(crate) fn is_ip(&self) -> bool {
        self.host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    }

    /// All servers as they are written.
    pub(crate) fn list(texts: &[Arc<str>], port: u16) -> Result<Vec<Self>, String> {
        let parse = |text: &Arc<str>| {
            let wrong = || format!("{text:?} is no address of a server");
            Self::parse(text, port).ok_or_else(wrong)
        };
        let servers: Vec<Self> = texts.iter().map(parse).collect::<Result<_, _>>()?;
        match servers.is_empty() {
            true => Err("no servers are named".to_owned()),
            false => Ok(servers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_written_in_many_ways() {
        for (text, http) in [
            ("nacos", Some("nacos:8848")),
            ("nacos.example.com:80", Some("nacos.example.com:80")),
            (" 10.0.0.1 ", Some("10.0.0.1:8848")),
            ("::1", Some("[::1]:8848")),
            ("[::1]", Some("[::1]:8848")),
            ("[::1]:80", Some("[::1]:80")),
            ("", None),
            (":80", None),
            ("a:b", None),
            ("a:0", None),
            ("a/b", None),
            ("a@b", None),
            ("[a]:80", None),
        ] {
            let server = Address::parse(text, 8848).map(|s| s.authority());
            assert_eq!(server.as_deref(), http, "{text}");
        }
        assert_eq!(Address::parse("a:65000", 1).unwrap().above(1000), None);
    }
}
