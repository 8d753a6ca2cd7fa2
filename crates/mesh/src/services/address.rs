//! The addresses by which a proxy knows a service.

use std::net::IpAddr;
use std::sync::Arc;

use incr::Cx;
use ipnet::IpNet;
use model::names::ClusterId;
use model::node::Role;
use model::service::Service;
use store::{Reads, Snapshot};

use super::entry::UNSPECIFIED;
use crate::proxy::Traits;
use crate::view::Families;

/// What of a proxy decides by which addresses it dials services.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dialer {
    /// Its cluster.
    pub cluster: ClusterId,
    families: Families,
    /// Whether names are resolved beside it.
    captures_dns: bool,
    /// Whether it wants addresses to be allocated, even if the mesh does not.
    allocates: bool,
}

impl Dialer {
    /// That of a proxy.
    pub fn of(proxy: &Traits<'_>) -> Self {
        Self {
            cluster: proxy.node.cluster.clone(),
            families: proxy.families(),
            captures_dns: proxy.flag("DNS_CAPTURE") || proxy.node.role == Role::Waypoint,
            allocates: proxy.flag("DNS_AUTO_ALLOCATE"),
        }
    }

    /// Whether names are resolved to allocated addresses.
    ///
    /// Istio: pilot/pkg/model/service.go nodeUsesAutoallocatedIPs, 1.32.
    fn uses_allocated(&self, cx: &Cx<'_, Snapshot>) -> bool {
        self.captures_dns && (self.allocates || cx.settings().features.ip_auto_allocate)
    }
}

/// Every address of a service that a proxy may dial, the primary one first. Holds `0.0.0.0` where the
/// service has no address of its own; empty where it has none of the proxy's families.
///
/// Istio: pilot/pkg/model/service.go GetAllAddressesForProxy, 1.32.
pub fn addresses_for(cx: &Cx<'_, Snapshot>, service: &Service, dialer: &Dialer) -> Vec<Arc<str>> {
    let families = dialer.families;
    let mut addresses = vips(service, &dialer.cluster).to_vec();
    if addresses.is_empty() && dialer.uses_allocated(cx) {
        let allocated = [service.auto_ipv4, service.auto_ipv6];
        addresses.extend(allocated.iter().flatten().map(text));
    }
    let dual = cx.settings().features.dual_stack && families.v4 && families.v6;
    if !dual {
        addresses = of_families(addresses, families);
    }
    if !addresses.is_empty() {
        return addresses;
    }
    if service.default_address.is_empty() {
        return Vec::new();
    }
    let default = vec![service.default_address.clone()];
    if service.cluster_vips.is_empty() {
        return default;
    }
    of_families(default, families)
}

/// The address of a service that a proxy dials; `0.0.0.0` where it has none of its own.
///
/// Istio: pilot/pkg/model/service.go GetAddressForProxy, 1.32.
pub fn address_for(cx: &Cx<'_, Snapshot>, service: &Service, dialer: &Dialer) -> Arc<str> {
    let own = vips(service, &dialer.cluster).to_vec();
    if let Some(first) = of_families(own, dialer.families).into_iter().next() {
        return first;
    }
    if &*service.default_address == UNSPECIFIED && dialer.uses_allocated(cx) {
        let v4 = service.auto_ipv4.filter(|_| dialer.families.v4);
        let v6 = service.auto_ipv6.filter(|_| dialer.families.v6);
        if let Some(address) = v4.or(v6) {
            return text(&address);
        }
    }
    service.default_address.clone()
}

/// The virtual IPs in one cluster; a proxy that names no cluster has none.
fn vips<'a>(service: &'a Service, cluster: &ClusterId) -> &'a [Arc<str>] {
    if cluster.is_empty() {
        return &[];
    }
    service
        .cluster_vips
        .iter()
        .find(|(id, _)| id == cluster)
        .map_or(&[], |(_, vips)| vips)
}

/// The addresses of families that the proxy has, those of the first one's family first; what is no address stays out.
///
/// Istio: pilot/pkg/util/network/ip.go FilterAddressesByIPFamily, 1.32.
fn of_families(addresses: Vec<Arc<str>>, families: Families) -> Vec<Arc<str>> {
    let mut known: Vec<(bool, Arc<str>)> = addresses
        .into_iter()
        .filter_map(|a| Some((is_v4(&a)?, a)))
        .filter(|(v4, _)| if *v4 { families.v4 } else { families.v6 })
        .collect();
    if let Some((first, _)) = known.first() {
        let first = *first;
        known.sort_by_key(|(v4, _)| *v4 != first);
    }
    known.into_iter().map(|(_, a)| a).collect()
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
