//! Addresses for ServiceEntries that have none, so that names resolve to something the proxy can tell apart.
//!
//! Entries are served in the order of their age, those without a date last, then by namespace and name: the same on every replica.
//! Addresses that a controller wrote to `status.addresses` are taken as they are; hosts without one get the next free address of
//! the ranges (240.240.0.0/16 and 2001:2::/48). A younger entry moves no address of an older one, whatever it states: an address in
//! its status that an older one has counts as none, and it gets another; one in its spec is left out if the older entry is of
//! another namespace. An older entry that appears moves those behind it. Where there is an API to write to, our own controller
//! (`writeback::addresses`) writes what is found here, and it stays.
//!
//! Istio: pilot/pkg/networking/serviceentry/ip_autoallocation.go and pkg/controllers/ipallocate, 1.32.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use incr::{Cx, Query};
use ipnet::{Ipv4Net, Ipv6Net};
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
    let displaced = cx.query(&Displaced);
    let moved = displaced.moved.get(&entry.meta.name);
    let moved = moved.and_then(|hosts| hosts.get(host)).copied();
    moved.unwrap_or_else(|| in_status(entry, host))
}

/// The addresses that the status of an entry has for a host.
fn in_status(entry: &Object<ServiceEntry>, host: &str) -> Pair {
    let mut pair = (None, None);
    for address in entry.status.addresses.iter().filter(|a| a.host == host) {
        match address.value.parse() {
            Ok(ip @ IpAddr::V4(_)) => pair.0 = Some(ip),
            Ok(ip @ IpAddr::V6(_)) => pair.1 = Some(ip),
            Err(_) => {}
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
        let all = cx.query(&Allocation);
        all.new.get(&self.0).cloned().unwrap_or_default()
    }
}

/// The addresses of the hosts of an entry.
type Hosts = BTreeMap<Arc<str>, Pair>;

/// Which addresses are whose.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Addresses {
    /// Every address of the entries that have a host whose address is in no status, by entry and host.
    new: BTreeMap<ObjectName, Hosts>,
    /// What others had before.
    displaced: Arc<DisplacedAddresses>,
}

/// Addresses that entries state and that older entries have.
#[derive(PartialEq, Debug, Default)]
pub struct DisplacedAddresses {
    /// What entries have in place of those in their status.
    moved: BTreeMap<ObjectName, Hosts>,
    /// The addresses in specs that were allocated to older entries of other namespaces, with these.
    refused: BTreeMap<ObjectName, BTreeMap<IpAddr, ObjectName>>,
}

impl DisplacedAddresses {
    /// The addresses in the spec of an entry that were allocated to others.
    pub fn refused(&self, entry: &ObjectName) -> Option<&BTreeMap<IpAddr, ObjectName>> {
        self.refused.get(entry)
    }

    /// The entries that have other addresses than those in their status.
    pub fn moved(&self) -> impl Iterator<Item = &ObjectName> {
        self.moved.keys()
    }

    /// The entries that state addresses of others in their spec, with these addresses and whose they are.
    pub fn all_refused(
        &self,
    ) -> impl Iterator<Item = (&ObjectName, &BTreeMap<IpAddr, ObjectName>)> {
        self.refused.iter()
    }
}

/// What of [`Allocation`] concerns entries that state addresses of others; nearly always nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Displaced;

impl Query<Snapshot> for Displaced {
    type Value = Arc<DisplacedAddresses>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        match cx.settings().features.ip_auto_allocate {
            true => cx.query(&Allocation).displaced.clone(),
            false => Arc::default(),
        }
    }
}

/// The addresses of all entries that have to do with allocation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Allocation;

impl Query<Snapshot> for Allocation {
    type Value = Addresses;

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
        let book = Book {
            v4,
            v6,
            owners: BTreeMap::new(),
            next_v4: v4.network().into(),
            next_v6: v6.network().into(),
        };
        book.serve(&entries)
    }
}

/// Whose an address is.
#[derive(Clone, Debug)]
enum Owner {
    /// It was allocated to the entry.
    Allocated(ObjectName),
    /// Somebody stated it.
    Stated,
}

/// Who has which address, and which are free.
struct Book {
    v4: Ipv4Net,
    v6: Ipv6Net,
    owners: BTreeMap<IpAddr, Owner>,
    next_v4: u32,
    next_v6: u128,
}

impl Book {
    /// Serves entries in their order: each has what it would have if there were none behind it.
    fn serve(mut self, entries: &[Arc<Object<ServiceEntry>>]) -> Addresses {
        let mut new = BTreeMap::new();
        let mut displaced = DisplacedAddresses::default();
        let mut losers = Vec::new();
        for entry in entries {
            let name = &entry.meta.name;
            let refused = self.state(entry);
            if !refused.is_empty() {
                displaced.refused.insert(name.clone(), refused);
            }
            if !may_allocate(entry) {
                continue;
            }
            let mut hosts = Hosts::new();
            for host in &entry.spec.hosts {
                if hosts.contains_key(&**host) {
                    continue;
                }
                let stated = in_status(entry, host);
                let pair = match stated {
                    // Only names that are asked for at run time can stand behind a wildcard.
                    (None, None) if is_covering(entry, host) => continue,
                    (None, None) => self.next(name),
                    (v4, v6) => (self.keep(v4, name), self.keep(v6, name)),
                };
                let host: Arc<str> = host.as_str().into();
                if stated != (None, None) && stated != pair {
                    losers.push((entry, host.clone(), stated));
                }
                hosts.insert(host, pair);
            }
            if is_unallocated(entry) {
                new.insert(name.clone(), hosts);
            } else if losers
                .last()
                .is_some_and(|(loser, ..)| Arc::ptr_eq(loser, entry))
            {
                displaced.moved.insert(name.clone(), hosts);
            }
        }
        // Whoever lost an address takes none that is in the status of anybody.
        for address in entries.iter().flat_map(|entry| given_addresses(entry)) {
            self.owners.entry(address).or_insert(Owner::Stated);
        }
        for (entry, host, stated) in losers {
            let name = &entry.meta.name;
            let of = new.get_mut(name).or_else(|| displaced.moved.get_mut(name));
            let Some(pair) = of.and_then(|hosts| hosts.get_mut(&host)) else {
                continue;
            };
            if stated.0.is_some() && pair.0.is_none() {
                pair.0 = self.next_v4(name);
            }
            if stated.1.is_some() && pair.1.is_none() {
                pair.1 = self.next_v6(name);
            }
        }
        Addresses {
            new,
            displaced: Arc::new(displaced),
        }
    }

    /// Takes in the addresses of a spec; those that were allocated to older entries of other namespaces are refused.
    fn state(&mut self, entry: &Object<ServiceEntry>) -> BTreeMap<IpAddr, ObjectName> {
        let mut refused = BTreeMap::new();
        for address in stated_addresses(entry) {
            match self.owners.get(&address) {
                Some(Owner::Allocated(of)) if of.namespace != *entry.namespace() => {
                    refused.insert(address, of.clone());
                }
                Some(_) => {}
                None => _ = self.owners.insert(address, Owner::Stated),
            }
        }
        refused
    }

    /// An address of a status, unless it is an older entry's. Beyond the ranges it is what somebody wrote on purpose.
    fn keep(&mut self, address: Option<IpAddr>, entry: &ObjectName) -> Option<IpAddr> {
        let address = address?;
        let in_range = match address {
            IpAddr::V4(address) => self.v4.contains(&address),
            IpAddr::V6(address) => self.v6.contains(&address),
        };
        (!in_range || self.take(address, entry)).then_some(address)
    }

    /// Gives an address away, unless somebody has it.
    fn take(&mut self, address: IpAddr, entry: &ObjectName) -> bool {
        let is_free = !self.owners.contains_key(&address);
        if is_free {
            let owner = Owner::Allocated(entry.clone());
            self.owners.insert(address, owner);
        }
        is_free
    }

    /// The next free addresses.
    fn next(&mut self, entry: &ObjectName) -> Pair {
        (self.next_v4(entry), self.next_v6(entry))
    }

    fn next_v4(&mut self, entry: &ObjectName) -> Option<IpAddr> {
        // The last one is the broadcast address.
        while self.next_v4 + 1 < u32::from(self.v4.broadcast()) {
            self.next_v4 += 1;
            let ip = IpAddr::V4(Ipv4Addr::from(self.next_v4));
            if self.take(ip, entry) {
                return Some(ip);
            }
        }
        None
    }

    fn next_v6(&mut self, entry: &ObjectName) -> Option<IpAddr> {
        while self.next_v6 < u128::from(self.v6.broadcast()) {
            self.next_v6 += 1;
            let ip = IpAddr::V6(Ipv6Addr::from(self.next_v6));
            if self.take(ip, entry) {
                return Some(ip);
            }
        }
        None
    }
}

/// Whether a host is a wildcard for which no address can stand.
fn is_covering(entry: &Object<ServiceEntry>, host: &str) -> bool {
    host.starts_with('*') && entry.spec.resolution() != Resolution::DynamicDns
}
