//! Ranges from which addresses of services are taken.

use ipnet::{Ipv4Net, Ipv6Net};

use super::Assign;

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

    fn parse(text: &str) -> Option<Self> {
        let range: Ipv4Net = text.parse().ok()?;
        (8..=30)
            .contains(&range.prefix_len())
            .then(|| Self(range.trunc()))
    }
}

impl V6Range {
    /// The range.
    pub fn get(self) -> Ipv6Net {
        self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let range: Ipv6Net = text.parse().ok()?;
        (16..=126)
            .contains(&range.prefix_len())
            .then(|| Self(range.trunc()))
    }
}

impl From<&str> for V4Range {
    /// What is no such range is that of RFC 5735 for future use which Istio takes.
    fn from(text: &str) -> Self {
        let istio = Ipv4Net::new_assert([240, 240, 0, 0].into(), 16);
        Self::parse(text).unwrap_or(Self(istio))
    }
}

impl From<&str> for V6Range {
    /// What is no such range is that of RFC 5180 for benchmarks which Istio takes.
    fn from(text: &str) -> Self {
        let istio = Ipv6Net::new_assert([0x2001, 2, 0, 0, 0, 0, 0, 0].into(), 48);
        Self::parse(text).unwrap_or(Self(istio))
    }
}

impl Assign for V4Range {
    fn assign(&mut self, text: &str) -> bool {
        let range = Self::parse(text);
        range.inspect(|range| *self = *range).is_some()
    }
}

impl Assign for V6Range {
    fn assign(&mut self, text: &str) -> bool {
        let range = Self::parse(text);
        range.inspect(|range| *self = *range).is_some()
    }
}
