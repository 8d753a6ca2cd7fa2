//! The addresses by which a proxy knows a service.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use model::names::ClusterId;
use model::service::Service;

use super::entry::UNSPECIFIED;
use crate::view::Families;

/// What decides by which addresses a proxy knows a service.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Addressing {
    /// The proxy's cluster; empty where it names none, so that no service has addresses of its own there.
    pub cluster: ClusterId,
    /// The proxy's families.
    pub families: Families,
    /// Whether the proxy resolves names to allocated addresses.
    pub auto_allocated: bool,
    /// Whether services have addresses of both families.
    pub dual_stack: bool,
}

impl Addressing {
    /// The address by which the proxy knows the service; `0.0.0.0` where it has none of its own.
    ///
    /// Istio: pilot/pkg/model/service.go GetAddressForProxy, 1.32.
    pub fn primary(&self, service: &Service) -> Arc<str> {
        let own = of_family(self.vips(service).to_vec(), self.families);
        if let Some(first) = own.into_iter().next() {
            return first;
        }
        if self.auto_allocated && &*service.default_address == UNSPECIFIED {
            let v4 = service.auto_ipv4.filter(|_| self.families.v4);
            let v6 = service.auto_ipv6.filter(|_| self.families.v6);
            if let Some(address) = v4.or(v6) {
                return text(&address);
            }
        }
        service.default_address.clone()
    }

    /// Every address by which the proxy knows the service, the primary one first: of one family only, unless services
    /// have both. Holds `0.0.0.0` where the service has no address of its own; empty where it has none of the proxy's
    /// families.
    ///
    /// Istio: pilot/pkg/model/service.go getAllAddressesForProxy, 1.32.
    pub fn all(&self, service: &Service) -> Vec<Arc<str>> {
        let allocated = [service.auto_ipv4, service.auto_ipv6];
        let allocated = allocated.iter().flatten().filter(|_| self.auto_allocated);
        let allocated = allocated.map(text).collect();
        self.known(service, allocated, service.default_address.clone())
    }

    /// As [`Addressing::all`], where routes of one port are concerned: of the allocated addresses only the one that the
    /// proxy dials is known there.
    ///
    /// Istio: pilot/pkg/networking/core/httproute.go BuildSidecarOutboundVirtualHosts, 1.32.
    pub fn of_port(&self, service: &Service) -> Vec<Arc<str>> {
        self.known(service, Vec::new(), self.primary(service))
    }

    fn known(
        &self,
        service: &Service,
        allocated: Vec<Arc<str>>,
        default: Arc<str>,
    ) -> Vec<Arc<str>> {
        let mut addresses = self.vips(service).to_vec();
        if addresses.is_empty() {
            addresses = allocated;
        }
        if !(self.dual_stack && self.families.v4 && self.families.v6) {
            addresses = of_family(addresses, self.families);
        }
        if !addresses.is_empty() || default.is_empty() {
            return addresses;
        }
        if service.cluster_vips.is_empty() {
            return vec![default];
        }
        // The address of a remote cluster's service may be of a family that the proxy does not speak.
        of_family(vec![default], self.families)
    }

    /// Every address but the first.
    pub fn extra(&self, service: &Service) -> Vec<Arc<str>> {
        self.all(service).into_iter().skip(1).collect()
    }

    /// The virtual IPs of a service in the proxy's cluster.
    fn vips<'a>(&self, service: &'a Service) -> &'a [Arc<str>] {
        if self.cluster.is_empty() {
            return &[];
        }
        let mut clusters = service.cluster_vips.iter();
        let own = clusters.find(|(id, _)| *id == self.cluster);
        own.map_or(&[], |(_, vips)| vips)
    }
}

/// The addresses of one family that the proxy has: for a proxy of both families that of the first address, else IPv4
/// before IPv6. What is no address stays out.
///
/// Istio: pilot/pkg/util/network/ip.go FilterAddressesByIPFamily, 1.32.
fn of_family(addresses: Vec<Arc<str>>, families: Families) -> Vec<Arc<str>> {
    let first = addresses.first().and_then(|a| is_v4(a));
    let has = |wanted: bool| addresses.iter().any(|a| is_v4(a) == Some(wanted));
    let v4 = match (families.v4, families.v6, first) {
        (true, true, Some(first)) => first,
        (v4, _, _) => v4 && has(true),
    };
    let spoken = if v4 { families.v4 } else { families.v6 };
    let of_family = |a: &Arc<str>| spoken && is_v4(a) == Some(v4);
    addresses.iter().filter(|a| of_family(a)).cloned().collect()
}

/// Whether an address or range is of IPv4; `None` for what is neither.
fn is_v4(address: &str) -> Option<bool> {
    match address.split_once('/') {
        Some(_) => Some(matches!(address.parse::<IpNet>().ok()?, IpNet::V4(_))),
        None => Some(address.parse::<IpAddr>().ok()?.is_ipv4()),
    }
}

fn text(ip: &IpAddr) -> Arc<str> {
    Arc::from(ip.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_knows_a_service_by_addresses_of_one_family() {
        const V4: Families = Families {
            v4: true,
            v6: false,
        };
        const V6: Families = Families {
            v4: false,
            v6: true,
        };
        const BOTH: Families = Families { v4: true, v6: true };
        for (addresses, families, expected) in [
            ("10.0.0.1 fd00::1 10.0.0.2", V4, "10.0.0.1 10.0.0.2"),
            ("10.0.0.1 fd00::1", V6, "fd00::1"),
            ("10.0.0.1 fd00::1", BOTH, "10.0.0.1"),
            ("fd00::1 10.0.0.1", BOTH, "fd00::1"),
            ("fd00::/64 10.0.0.0/8", BOTH, "fd00::/64"),
            ("a.example.com fd00::1 10.0.0.1", BOTH, "10.0.0.1"),
            ("a.example.com fd00::1", BOTH, "fd00::1"),
            ("fd00::1", V4, ""),
            ("", BOTH, ""),
        ] {
            let given = addresses.split_whitespace().map(Arc::from).collect();
            let found = of_family(given, families).join(" ");
            assert_eq!(found, expected, "{addresses} {families:?}");
        }
    }
}
