//! The oldest claims to hosts, found by the hosts and by those below their wildcards.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::names::Namespace;
use model::ownership::{Claim, ends_above};

/// The oldest claim to a host.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Held {
    pub(super) claim: Claim,
    /// The namespaces that the claiming Gateway names for it.
    pub(super) given: BTreeSet<Namespace>,
}

impl From<Claim> for Held {
    fn from(claim: Claim) -> Self {
        Self {
            claim,
            given: BTreeSet::new(),
        }
    }
}

/// Keeps the older of two claims at a place.
pub(super) fn keep<K: Ord>(place: Entry<'_, K, Held>, claim: &Claim, given: Option<&str>) {
    let new = || Held {
        claim: claim.clone(),
        given: given.into_iter().map(Namespace::from).collect(),
    };
    match place {
        Entry::Vacant(entry) => {
            entry.insert(new());
        }
        Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            if known.claim.object == claim.object {
                known.given.extend(given.map(Namespace::from));
            } else if claim.age() < known.claim.age() {
                entry.insert(new());
            }
        }
    }
}

/// The oldest claims to hosts.
///
/// Only what somebody claims is kept. What follows the `*.` of each wildcard above a host is a part of the host, so these are found
/// without a copy of any.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct ByHost {
    hosts: BTreeMap<Arc<str>, Held>,
    /// Those to wildcards, by what follows the `*.`.
    ends: BTreeMap<Arc<str>, Held>,
}

impl ByHost {
    /// Keeps the older of two claims to a host.
    pub(super) fn hold(&mut self, claim: &Claim, given: Option<&str>) {
        let place = match claim.host.strip_prefix("*.") {
            Some(end) => self.ends.entry(end.into()),
            None => self.hosts.entry(claim.host.clone()),
        };
        keep(place, claim, given);
    }

    /// The claim to this very host or wildcard.
    pub(super) fn get(&self, host: &str) -> Option<&Held> {
        match host.strip_prefix("*.") {
            Some(end) => self.ends.get(end),
            None => self.hosts.get(host),
        }
    }

    /// The claims to a host, and to the wildcards above it.
    pub(super) fn within<'h>(&'h self, host: &'h str) -> impl Iterator<Item = &'h Held> {
        let above = ends_above(host).filter_map(move |end| self.ends.get(end));
        self.get(host).into_iter().chain(above)
    }
}

#[cfg(test)]
mod tests {
    use model::Age;
    use model::kinds::Kind;
    use model::object::{ObjectKey, ObjectName};
    use model::ownership::Claim;

    use super::ByHost;

    fn claim(host: &str) -> Claim {
        Claim {
            object: ObjectKey {
                kind: Kind::Gateway,
                name: ObjectName::new("shop", "web"),
            },
            created: Age::default(),
            host: host.into(),
        }
    }

    #[test]
    fn claims_to_a_host_are_its_own_and_those_of_the_wildcards_above_it() {
        let mut claims = ByHost::default();
        for host in [
            "*",
            "com",
            "*.com",
            "a.com",
            "*.a.com",
            "b.a.com",
            "*.b.a.com",
        ] {
            claims.hold(&claim(host), None);
        }
        for (host, wanted) in [
            ("b.a.com", "b.a.com *.a.com *.com"),
            ("c.a.com", "*.a.com *.com"),
            ("*.a.com", "*.a.com *.com"),
            ("*.com", "*.com"),
            ("a.org", ""),
            ("*", "*"),
        ] {
            let found = claims.within(host).map(|held| &*held.claim.host);
            assert_eq!(found.collect::<Vec<&str>>().join(" "), wanted, "{host}");
        }
    }

    /// With labels that are counted anew for each that is left out, this takes a hundred times as long.
    #[test]
    fn hosts_of_many_labels_are_looked_up_by_their_ends() {
        let mut claims = ByHost::default();
        claims.hold(&claim("*.com"), None);
        let labels = "a.".repeat(119);
        for at in 0..20_000 {
            let host = format!("{labels}x{at}.com");
            assert_eq!(claims.within(&host).count(), 1, "{host}");
        }
    }
}
