//! Addresses that listeners bind, and the addresses by which a proxy knows a service.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use model::names::ClusterId;
use model::service::Service;
use model::settings::Features;
use proto_envoy::envoy::config::core::v3::{
    Address, CidrRange, Pipe, SocketAddress, address, socket_address,
};
use proto_envoy::envoy::config::listener::v3::AdditionalAddress;

use crate::proxy::Traits;
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

/// What decides by which addresses a proxy knows a service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Addressing {
    /// The proxy's cluster.
    pub cluster: ClusterId,
    /// The proxy's families.
    pub families: Families,
    /// Whether automatically allocated addresses count.
    pub auto_allocated: bool,
    /// Whether services have addresses of both families.
    pub dual_stack: bool,
}

impl Addressing {
    /// That of a proxy.
    pub fn of(proxy: &Traits<'_>, features: &Features) -> Self {
        let allocated = proxy.flag("DNS_AUTO_ALLOCATE") || features.ip_auto_allocate;
        Self {
            cluster: proxy.node.cluster.clone(),
            families: proxy.families(),
            auto_allocated: allocated && proxy.flag("DNS_CAPTURE"),
            dual_stack: features.dual_stack,
        }
    }

    /// The address by which the proxy knows the service.
    ///
    /// Istio: pilot/pkg/model/service.go GetAddressForProxy, 1.32.
    pub fn primary(&self, service: &Service) -> Arc<str> {
        if let Some(address) = self.cluster_vips(service).find(|a| self.speaks(a)) {
            return address.clone();
        }
        if self.auto_allocated && &*service.default_address == WILDCARD_V4 {
            let v4 = service.auto_ipv4.filter(|_| self.families.v4);
            let v6 = service.auto_ipv6.filter(|_| self.families.v6);
            if let Some(address) = v4.or(v6) {
                return address.to_string().into();
            }
        }
        service.default_address.clone()
    }

    /// Every address by which the proxy knows the service.
    ///
    /// Istio: pilot/pkg/model/service.go getAllAddressesForProxy, 1.32.
    pub fn all(&self, service: &Service) -> Vec<Arc<str>> {
        let mut addresses: Vec<Arc<str>> = self.cluster_vips(service).cloned().collect();
        if addresses.is_empty() && self.auto_allocated {
            let allocated = service.auto_ipv4.into_iter().chain(service.auto_ipv6);
            addresses.extend(allocated.map(|a| Arc::from(a.to_string())));
        }
        if !(self.dual_stack && self.families.v4 && self.families.v6) {
            addresses.retain(|a| self.speaks(a));
        }
        if !addresses.is_empty() || service.default_address.is_empty() {
            return addresses;
        }
        // The address of a remote cluster's service may be of a family that the proxy does not speak.
        let remote = !service.cluster_vips.is_empty();
        (!remote || self.speaks(&service.default_address))
            .then(|| service.default_address.clone())
            .into_iter()
            .collect()
    }

    /// Every address but the first.
    pub fn extra(&self, service: &Service) -> Vec<Arc<str>> {
        self.all(service).into_iter().skip(1).collect()
    }

    fn cluster_vips<'a>(&self, service: &'a Service) -> impl Iterator<Item = &'a Arc<str>> {
        let cluster = self.cluster.clone();
        service
            .cluster_vips
            .iter()
            .filter(move |(id, _)| !cluster.is_empty() && *id == cluster)
            .flat_map(|(_, vips)| vips.iter())
    }

    /// Whether the address is of a family that the proxy speaks.
    fn speaks(&self, address: &str) -> bool {
        match prefix(address) {
            Some(net) if net.addr().is_ipv4() => self.families.v4,
            Some(_) => self.families.v6,
            None => false,
        }
    }
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
