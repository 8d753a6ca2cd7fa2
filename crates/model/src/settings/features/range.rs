//! Ranges from which addresses of services are taken.

use ipnet::{Ipv4Net, Ipv6Net};

use super::value::Value;

/// A range of IPv4 addresses within one /8, with room for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct V4Range(Ipv4Net);

/// A range of IPv6 addresses within one /16, with room for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct V6Range(Ipv6Net);

impl V4Range {
    /// The range.
    pub fn get(self) -> Ipv4Net {
        self.0
    }
}

impl V6Range {
    /// The range.
    pub fn get(self) -> Ipv6Net {
        self.0
    }
}

impl From<&str> for V4Range {
    /// What is no such range is that of RFC 5735 for future use which Istio takes.
    fn from(text: &str) -> Self {
        let istio = Ipv4Net::new_assert([240, 240, 0, 0].into(), 16);
        Self::read(text).unwrap_or(Self(istio))
    }
}

impl From<&str> for V6Range {
    /// What is no such range is that of RFC 5180 for benchmarks which Istio takes.
    fn from(text: &str) -> Self {
        let istio = Ipv6Net::new_assert([0x2001, 2, 0, 0, 0, 0, 0, 0].into(), 48);
        Self::read(text).unwrap_or(Self(istio))
    }
}

impl Value for V4Range {
    const WANTED: &'static str = "a range of IPv4 addresses such as 240.240.0.0/16, from /8 to /30";

    fn read(text: &str) -> Option<Self> {
        let range: Ipv4Net = text.parse().ok()?;
        (8..=30)
            .contains(&range.prefix_len())
            .then(|| Self(range.trunc()))
    }
}

impl Value for V6Range {
    const WANTED: &'static str = "a range of IPv6 addresses such as 2001:2::/48, from /16 to /126";

    fn read(text: &str) -> Option<Self> {
        let range: Ipv6Net = text.parse().ok()?;
        (16..=126)
            .contains(&range.prefix_len())
            .then(|| Self(range.trunc()))
    }
}
