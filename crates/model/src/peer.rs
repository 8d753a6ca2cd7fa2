//! Whom an address of a client stands for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network that limits per client count for: an IPv4 address is one client; of IPv6 whoever has one address has all of
/// its /64. Both loopback addresses are one, and an IPv4 address is the same however it is written.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_one_client() {
        let of = |text: &str| text.parse().map(network_of);
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::1"), of("127.0.0.1"));
    }
}
