//! Which addresses the hosts of ServiceEntries get.
//!
//! An address that an entry has in its status stays, across restarts and whatever becomes of other entries. A host
//! without any gets the lowest address of each range that nobody has, older entries first: what generation gives it as
//! long as its status names none. An address that was given is not given again while its entry is there, also before
//! anybody has seen it written. Where two entries have one address the older one keeps it, whether it was given it or a user
//! wrote it into its spec; an entry without a date counts as younger than all others.
//!
//! Istio: pilot/pkg/controllers/ipallocate/ipallocate.go, 1.32.

mod allocator;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{Ipv4Net, Ipv6Net};
use model::{Age, Kind, ObjectKey, ObjectName};
use serde_json::{Value, json};

use crate::status::{Field, Merge, Statuses, Wanted};

pub use allocator::{Allocator, Report};

/// What allocation has to know of a ServiceEntry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which one.
    pub name: ObjectName,
    /// The identity that its API gave it.
    pub uid: Arc<str>,
    /// Which state of its spec this is; 0 where that is not known.
    pub generation: i64,
    /// When it was made.
    pub created: Age,
    /// Whether its status is ours to write: it is in the place that we write to.
    pub writable: bool,
    /// The hosts that are to have addresses, each once.
    pub hosts: Vec<Arc<str>>,
    /// The addresses in its status as they stand there, with their hosts.
    pub held: Vec<(Arc<str>, Arc<str>)>,
    /// The addresses in its spec.
    pub user: Vec<IpAddr>,
}

impl Entry {
    /// The order in which entries are served: that of generation.
    fn order(&self) -> (Age, &ObjectName) {
        (self.created, &self.name)
    }

    fn identity(&self) -> Identity {
        (self.name.clone(), self.uid.clone())
    }

    /// The addresses that its status has for a host.
    fn held_for<'e>(&'e self, host: &'e str) -> impl Iterator<Item = IpAddr> + 'e {
        let held = self.held.iter().filter(move |(of, _)| **of == *host);
        held.filter_map(|(_, address)| address.parse().ok())
    }
}

/// An entry, and not another one that comes to have its name.
pub(crate) type Identity = (ObjectName, Arc<str>);

/// Addresses by host.
type Hosts = BTreeMap<Arc<str>, Vec<IpAddr>>;

/// Every ServiceEntry, and the ranges.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Where IPv4 addresses are taken from.
    pub v4: Ipv4Net,
    /// Where IPv6 addresses are taken from.
    pub v6: Ipv6Net,
}

impl Facts {
    fn in_range(&self, address: &IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(address),
            IpAddr::V6(address) => self.v6.contains(address),
        }
    }
}

/// An address that two entries had.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Conflict {
    /// The address.
    pub address: IpAddr,
    /// Who keeps it.
    pub kept_by: ObjectName,
    /// Who gets another.
    pub moved: ObjectName,
}

/// What entries got.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Allocated {
    /// By entry: the addresses that its status is to hold, in order of hosts.
    pub addresses: BTreeMap<ObjectName, Vec<(Arc<str>, IpAddr)>>,
    /// Addresses that two had.
    pub conflicts: BTreeSet<Conflict>,
    /// Entries for whose hosts no address is left.
    pub exhausted: BTreeSet<ObjectName>,
}

/// Addresses that entries have, also those that are in no status that the facts tell of.
#[derive(Clone, Debug, Default)]
pub struct Given {
    of: BTreeMap<Identity, Hosts>,
    /// Entries that the facts told of.
    seen: BTreeSet<Identity>,
}

impl Given {
    /// Takes in an address that an API says an entry has: the facts may not have it yet, or never will, as those of
    /// entries of other revisions.
    pub(crate) fn note(&mut self, entry: Identity, host: Arc<str>, address: IpAddr) {
        let hosts = self.of.entry(entry).or_default();
        let addresses = hosts.entry(host).or_default();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    /// Gives addresses to those who lack them, and remembers them.
    pub fn allocate(&mut self, facts: &Facts) -> Allocated {
        let mut entries: Vec<&Entry> = facts.entries.iter().collect();
        entries.sort_by(|a, b| a.order().cmp(&b.order()));
        self.forget(&entries);
        let mut book = Book {
            taken: BTreeMap::new(),
            stated: BTreeMap::new(),
            v4: facts.v4.network().into(),
            v6: facts.v6.network().into(),
            facts,
        };
        let mut done = Allocated::default();
        let mut kept: Vec<Hosts> = Vec::new();
        for entry in &entries {
            book.state(entry);
            kept.push(self.keep(entry, &mut book, &mut done.conflicts));
        }
        for entry in &entries {
            // Also what it should not have any more: it has it until its status is written.
            for address in entry
                .held
                .iter()
                .filter_map(|(_, address)| address.parse().ok())
            {
                let owner = || entry.name.clone();
                book.taken.entry(address).or_insert_with(owner);
            }
        }
        for (identity, hosts) in &self.of {
            if !self.seen.contains(identity) {
                for address in hosts.values().flatten() {
                    let owner = || identity.0.clone();
                    book.taken.entry(*address).or_insert_with(owner);
                }
            }
        }
        book.stated.clear();
        for (entry, mut kept) in entries.into_iter().zip(kept) {
            book.state(entry);
            for host in &entry.hosts {
                let addresses = kept.entry(host.clone()).or_default();
                complete(entry, host, addresses, &mut book, &mut done);
            }
            let all = entry.hosts.iter().flat_map(|host| {
                let addresses = kept.get(host).into_iter().flatten();
                addresses.map(|address| (host.clone(), *address))
            });
            done.addresses.insert(entry.name.clone(), all.collect());
            self.of.insert(entry.identity(), kept);
        }
        done
    }

    /// Drops what was given to entries that are gone.
    fn forget(&mut self, entries: &[&Entry]) {
        let there: BTreeSet<Identity> = entries.iter().map(|e| e.identity()).collect();
        for gone in self.seen.difference(&there) {
            self.of.remove(gone);
        }
        self.seen = there;
    }

    /// The addresses that an entry keeps: those of its status, else those that it was given.
    fn keep(
        &self,
        entry: &Entry,
        book: &mut Book<'_>,
        conflicts: &mut BTreeSet<Conflict>,
    ) -> Hosts {
        let given = self.of.get(&entry.identity());
        let mut kept = Hosts::new();
        for host in &entry.hosts {
            let mut addresses: Vec<IpAddr> = entry.held_for(host).collect();
            if addresses.is_empty() {
                addresses = given.and_then(|g| g.get(host)).cloned().unwrap_or_default();
            }
            addresses.retain(|address| match book.owner(address) {
                // Elsewhere they are what somebody wrote on purpose.
                _ if !book.facts.in_range(address) => true,
                None => {
                    book.taken.insert(*address, entry.name.clone());
                    true
                }
                Some(owner) => {
                    conflicts.insert(Conflict {
                        address: *address,
                        kept_by: owner.clone(),
                        moved: entry.name.clone(),
                    });
                    false
                }
            });
            kept.insert(host.clone(), addresses);
        }
        kept
    }
}

/// Gives a host an address of each family if it has none, and of the family that it has lost.
fn complete(
    entry: &Entry,
    host: &Arc<str>,
    addresses: &mut Vec<IpAddr>,
    book: &mut Book<'_>,
    done: &mut Allocated,
) {
    let lost = |v4: bool| {
        let has = addresses.iter().any(|a| a.is_ipv4() == v4);
        !has && entry.held_for(host).any(|a| a.is_ipv4() == v4)
    };
    let fresh = addresses.is_empty();
    let (needs_v4, needs_v6) = (fresh || lost(true), fresh || lost(false));
    let found = [
        needs_v4.then(|| book.next_v4(&entry.name)),
        needs_v6.then(|| book.next_v6(&entry.name)),
    ];
    for address in found.into_iter().flatten() {
        match address {
            Some(address) => addresses.push(address),
            None => _ = done.exhausted.insert(entry.name.clone()),
        }
    }
    addresses.sort_unstable();
}

/// Who has which address.
struct Book<'f> {
    facts: &'f Facts,
    taken: BTreeMap<IpAddr, ObjectName>,
    /// What users wrote into the specs of the entries that were served so far: what a younger one states moves no older one.
    stated: BTreeMap<IpAddr, ObjectName>,
    v4: u32,
    v6: u128,
}

impl Book<'_> {
    fn state(&mut self, entry: &Entry) {
        for address in &entry.user {
            let owner = || entry.name.clone();
            self.stated.entry(*address).or_insert_with(owner);
        }
    }

    fn owner(&self, address: &IpAddr) -> Option<&ObjectName> {
        self.taken.get(address).or_else(|| self.stated.get(address))
    }

    /// Gives an address away, unless somebody has it.
    fn give(&mut self, address: IpAddr, owner: &ObjectName) -> Option<IpAddr> {
        if self.owner(&address).is_some() {
            return None;
        }
        self.taken.insert(address, owner.clone());
        Some(address)
    }

    /// The network address and the last one are nobody's.
    fn next_v4(&mut self, owner: &ObjectName) -> Option<IpAddr> {
        let last = u32::from(self.facts.v4.broadcast());
        while self.v4 + 1 < last {
            self.v4 += 1;
            let free = self.give(IpAddr::V4(Ipv4Addr::from(self.v4)), owner);
            if free.is_some() {
                return free;
            }
        }
        None
    }

    fn next_v6(&mut self, owner: &ObjectName) -> Option<IpAddr> {
        let last = u128::from(self.facts.v6.broadcast());
        while self.v6 < last {
            self.v6 += 1;
            let free = self.give(IpAddr::V6(Ipv6Addr::from(self.v6)), owner);
            if free.is_some() {
                return free;
            }
        }
        None
    }
}

/// The field that addresses are written to.
const FIELD: &str = "addresses";

/// The statuses by which entries get their addresses: of those that are to have some, or have some that they should not.
pub fn statuses(facts: &Facts, allocated: &Allocated) -> Statuses {
    let writable = facts.entries.iter().filter(|entry| entry.writable);
    let of = writable.filter_map(|entry| {
        let addresses = allocated.addresses.get(&entry.name)?;
        if addresses.is_empty() && entry.held.is_empty() {
            return None;
        }
        let held = value(
            entry
                .held
                .iter()
                .map(|(host, address)| (&**host, &**address)),
        );
        let texts: Vec<String> = addresses.iter().map(|(_, ip)| ip.to_string()).collect();
        let all = addresses.iter().zip(&texts);
        let all: Vec<(&str, &str)> = all.map(|((host, _), ip)| (&**host, &**ip)).collect();
        let set: BTreeSet<(&str, &str)> = all.iter().copied().collect();
        let before: BTreeSet<(&str, &str)> = entry
            .held
            .iter()
            .map(|(host, ip)| (&**host, &**ip))
            .collect();
        let wanted = Wanted {
            uid: entry.uid.clone(),
            // The hosts may be others by now, and the address another's.
            generation: entry.generation,
            observed: false,
            fields: vec![Field {
                name: FIELD,
                // Their order is not worth a write.
                value: match set == before && all.len() == entry.held.len() {
                    true => held.clone(),
                    false => value(all.iter().copied()),
                },
                over: Some(held),
                merge: Merge::Whole,
            }],
        };
        let key = ObjectKey {
            kind: Kind::ServiceEntry,
            name: entry.name.clone(),
        };
        Some((key, Arc::new(wanted)))
    });
    of.collect()
}

/// Addresses as a status holds them.
pub fn value<'a>(addresses: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    addresses
        .map(|(host, address)| json!({"value": address, "host": host}))
        .collect()
}

#[cfg(test)]
mod tests;
