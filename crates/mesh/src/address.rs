//! Addresses that listeners bind.

use std::net::IpAddr;

use ipnet::IpNet;
use proto_envoy::envoy::config::core::v3::{
    Address, CidrRange, Pipe, SocketAddress, address, socket_address,
};
use proto_envoy::envoy::config::listener::v3::AdditionalAddress;

use crate::view::Families;

/// Every IPv4 address.
pub const WILDCARD_V4: &str = "0.0.0.0";
/// Every IPv6 address.
pub const WILDCARD_V6: &str = "::";
/// What a bind that is a Unix domain socket starts with.
pub const UNIX_PREFIX: &str = "unix://";

/// The wildcard addresses of a proxy's families, IPv4 first.
pub fn wildcards(families: Families) -> &'static [&'static str] {
    match (families.v4, families.v6) {
        (true, true) => &[WILDCARD_V4, WILDCARD_V6],
        (false, true) => &[WILDCARD_V6],
        (_, false) => &[WILDCARD_V4],
    }
}

/// The loopback addresses of a proxy's families, IPv4 first.
pub fn loopbacks(families: Families) -> &'static [&'static str] {
    match (families.v4, families.v6) {
        (true, true) => &["127.0.0.1", "::1"],
        (false, true) => &["::1"],
        (_, false) => &["127.0.0.1"],
    }
}

/// An address for Envoy. Port 0 stands for a Unix domain socket.
///
/// Istio: pilot/pkg/networking/util/util.go BuildAddress, 1.32.
pub fn socket(bind: &str, port: u16) -> Address {
    let address = if port == 0 {
        address::Address::Pipe(Pipe {
            path: bind.strip_prefix(UNIX_PREFIX).unwrap_or(bind).to_owned(),
            ..Default::default()
        })
    } else {
        address::Address::SocketAddress(SocketAddress {
            address: bind.to_owned(),
            port_specifier: Some(socket_address::PortSpecifier::PortValue(u32::from(port))),
            ..Default::default()
        })
    };
    Address {
        address: Some(address),
    }
}

/// Further addresses of a listener.
pub fn additional<S: AsRef<str>>(binds: &[S], port: u16) -> Vec<AdditionalAddress> {
    binds
        .iter()
        .map(AsRef::as_ref)
        .filter(|bind| !bind.is_empty())
        .map(|bind| AdditionalAddress {
            address: Some(socket(bind, port)),
            ..Default::default()
        })
        .collect()
}

/// Reads an address or a range of addresses.
pub fn prefix(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>()
        .ok()
        .or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// A range of addresses for Envoy.
pub fn cidr_range(text: &str) -> Option<CidrRange> {
    prefix(text).map(|net| CidrRange {
        address_prefix: net.addr().to_string(),
        prefix_len: Some(u32::from(net.prefix_len())),
    })
}

/// Name of a listener that is bound to an address and a port.
pub fn listener_name(bind: &str, port: u16) -> String {
    format!("{bind}_{port}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::cases;

    #[test]
    fn addresses_and_ranges_are_read_as_in_the_recordings() {
        for case in cases("networking-util", "util.ConvertAddressToCidr") {
            let text = case["in"]["addr"].as_str().expect("a text");
            let found = cidr_range(text).map(|range| {
                serde_json::json!({
                    "addressPrefix": range.address_prefix,
                    "prefixLen": range.prefix_len,
                })
            });
            assert_eq!(serde_json::json!(found), case["out"], "{text}");
        }
    }
}
