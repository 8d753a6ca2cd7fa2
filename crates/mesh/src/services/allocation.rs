//! Addresses for ServiceEntries that have none, so that names resolve to something the proxy can tell apart.
//!
//! Addresses that a controller wrote to `status.addresses` are taken as they are. Hosts without one get the next free
//! address of the ranges (240.240.0.0/16 and 2001:2::/48), entries in the order of their age, those without a date last, then by
//! namespace and name: the same on every replica. A younger entry moves no address of an older one, whatever addresses it
//! states; an older entry that appears moves those behind it. Where there is an API to write to, our own controller
//! (`writeback::addresses`) writes what is found here, and it stays.
//!
//! Istio: pilot/pkg/networking/serviceentry/ip_autoallocation.go and pkg/controllers/ipallocate, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::istio::ServiceEntry;
use model::object::{Object, ObjectName};
use proto_istio::networking::service_entry::Resolution;
use store::index::{
    UNALLOCATED, given_addresses, is_unallocated, may_allocate, range_value, stated_addresses,
};
use store::{ObjectIndex, Reads, Snapshot};

/// Both addresses of a host.
type Pair = (Option<IpAddr>, Option<IpAddr>);

/// The addresses allocated to a host of a ServiceEntry that has none.
pub(super) fn addresses_of(
    cx: &Cx<'_, Snapshot>,
    entry: &Object<ServiceEntry>,
    host: &str,
) -> Pair {
    if !cx.settings().features.ip_auto_allocate || !may_allocate(entry) {
        return (None, None);
    }
    if is_unallocated(entry) {
        let own = cx.query(&Allocated(entry.meta.name.clone()));
        return own.get(host).copied().unwrap_or_default();
    }
    let mut pair = (None, None);
    for address in &entry.status.addresses {
        if address.host == host {
            match address.value.parse() {
                Ok(ip @ IpAddr::V4(_)) => pair.0 = Some(ip),
                Ok(ip @ IpAddr::V6(_)) => pair.1 = Some(ip),
                Err(_) => {}
            }
        }
    }
    pair
}

/// The addresses of the hosts of one entry: what of [`Allocation`] concerns it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Allocated(ObjectName);

impl Query<Snapshot> for Allocated {
    type Value = BTreeMap<Arc<str>, Pair>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        cx.query(&Allocation)
            .get(&self.0)
            .cloned()
            .unwrap_or_default()
    }
}

/// Every address that is not in a status, by entry and host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Allocation;

impl Query<Snapshot> for Allocation {
    type Value = BTreeMap<ObjectName, BTreeMap<Arc<str>, Pair>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let features = &cx.settings().features;
        let v4 = features.ip_auto_allocate_v4.get();
        let v6 = features.ip_auto_allocate_v6.get();
        let mut entries = cx.list_by::<ServiceEntry>(ObjectIndex::Allocation, UNALLOCATED);
        for first in [IpAddr::V4(v4.network()), IpAddr::V6(v6.network())] {
            let range = range_value(first);
            entries.extend(cx.list_by::<ServiceEntry>(ObjectIndex::Allocation, &range));
        }
        entries.sort_by(|a, b| a.cmp_age(b));
        entries.dedup_by(|b, a| a.meta.name == b.meta.name);
        let mut next = Next {
            used: entries.iter().flat_map(|e| given_addresses(e)).collect(),
            v4: v4.network().into(),
            v6: v6.network().into(),
            last_v4: v4.broadcast().into(),
            last_v6: v6.broadcast().into(),
        };
        let mut allocated = BTreeMap::new();
        for entry in &entries {
            next.used.extend(stated_addresses(entry));
            if is_unallocated(entry) {
                allocated.insert(entry.meta.name.clone(), allocate(entry, &mut next));
            }
        }
        allocated
    }
}

fn allocate(entry: &Object<ServiceEntry>, next: &mut Next) -> BTreeMap<Arc<str>, Pair> {
    let mut hosts = BTreeMap::new();
    let known = |host: &str| {
        let mut pair = (None, None);
        for a in entry.status.addresses.iter().filter(|a| a.host == host) {
            match a.value.parse() {
                Ok(ip @ IpAddr::V4(_)) => pair.0 = Some(ip),
                Ok(ip @ IpAddr::V6(_)) => pair.1 = Some(ip),
                Err(_) => {}
            }
        }
        pair
    };
    for host in &entry.spec.hosts {
        // Only names that are asked for at run time can stand behind a wildcard.
        if host.starts_with('*') && entry.spec.resolution() != Resolution::DynamicDns {
            continue;
        }
        hosts
            .entry(Arc::from(host.as_str()))
            .or_insert_with(|| match known(host) {
                (None, None) => next.pair(),
                pair => pair,
            });
    }
    hosts
}

/// The next free addresses.
struct Next {
    used: BTreeSet<IpAddr>,
    v4: u32,
    v6: u128,
    last_v4: u32,
    last_v6: u128,
}

impl Next {
    fn pair(&mut self) -> Pair {
        (self.next_v4(), self.next_v6())
    }

    fn next_v4(&mut self) -> Option<IpAddr> {
        // The last one is the broadcast address.
        while self.v4 + 1 < self.last_v4 {
            self.v4 += 1;
            let ip = IpAddr::V4(Ipv4Addr::from(self.v4));
            if !self.used.contains(&ip) {
                return Some(ip);
            }
        }
        None
    }

    fn next_v6(&mut self) -> Option<IpAddr> {
        while self.v6 < self.last_v6 {
            self.v6 += 1;
            let ip = IpAddr::V6(Ipv6Addr::from(self.v6));
            if !self.used.contains(&ip) {
                return Some(ip);
            }
        }
        None
    }
}
