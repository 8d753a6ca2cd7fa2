//! What the objects of one namespace may make together.
//!
//! The limits of single objects bound what one of them makes; nothing else bounds how many there are. What objects make is
//! therefore charged to their namespace, kind by kind, the oldest object first, and an object for which nothing is left is *over
//! the budget*: it is closed or left out by whoever makes things of it, and told. Others go on.
//!
//! Everything that multiplies lists of objects asks here, so that there is one rule for who gives way. It is pure: neither the
//! order in which objects came nor when they came decides. A charge is about the memory that is held for what is made, and
//! is reckoned before it is made.

use std::collections::BTreeSet;

use proto_istio::networking::ServiceEntry;

use crate::age::Age;
use crate::kinds::Kind;
use crate::object::ObjectName;

/// How many leading bits of a charge count.
const BITS: u32 = 4;

/// What a route is charged beside what it says, wherever there is a copy of it.
pub const ROUTE_BYTES: usize = 2 << 10;

/// What a cluster of a service is charged: what Envoy is told of it, and of how it is reached.
pub const CLUSTER_BYTES: usize = 4 << 10;

/// What a Service or ServiceEntry of a crowd is charged at least: what is held to make its clusters, routes and listeners for the
/// proxies of its namespace and for gateways, and these.
pub const SERVICE_BYTES: usize = 8 << 10;

/// What an endpoint of a cluster is charged.
pub const ENDPOINT_BYTES: usize = 256;

/// As many ports are what any Service has, and hosts times ports what any ServiceEntry has.
const FREE_PORTS: usize = 4;

/// What any object may make for nothing: what most objects make, so that these neither pay nor depend on what others pay.
const FREE_BYTES: usize = 16 << 10;

/// In a namespace with more objects of a kind than this, small ones pay as well: together they may make as much as large ones.
pub const CROWD: usize = 5_000;

/// The same for services, as a namespace may hold those of a whole mesh: as many as a budget of 64 MiB has room for.
pub const CROWD_OF_SERVICES: usize = (64 << 20) / SERVICE_BYTES;

/// How many objects of a kind a namespace may have before small ones pay as well.
pub fn crowd(kind: Kind) -> usize {
    match kind {
        Kind::Service | Kind::ServiceEntry => CROWD_OF_SERVICES,
        _ => CROWD,
    }
}

/// How many objects of a kind a namespace may have at most of which something is made, where small ones pay as well: the least that
/// one is charged is a service, or a route.
pub fn most_served(kind: Kind, budget: usize) -> usize {
    let least = match kind {
        Kind::Service | Kind::ServiceEntry => SERVICE_BYTES,
        _ => ROUTE_BYTES,
    };
    crowd(kind).max(budget / least)
}

/// What an object is charged that makes so many bytes: nothing up to [`FREE_BYTES`], unless its namespace is `crowded`; all of it
/// beyond. Who does not need to know is not asked.
pub fn charge(made: usize, crowded: impl FnOnce() -> bool) -> usize {
    match made > FREE_BYTES || (made > 0 && crowded()) {
        true => rounded(made),
        false => 0,
    }
}

/// A charge is rounded up, by a sixteenth at most, so that most edits leave it as it is.
pub fn rounded(made: usize) -> usize {
    let unit = 1 << (usize::BITS - made.leading_zeros()).saturating_sub(BITS + 1);
    made.checked_next_multiple_of(unit).unwrap_or(usize::MAX)
}

/// What a ServiceEntry is charged that has so many endpoints: each host at each address has each port, and each of these has all
/// endpoints. What is charged nothing costs nobody a look, unless its namespace is `crowded`: a namespace may hold all services of a
/// mesh.
pub fn of_entry(spec: &ServiceEntry, endpoints: usize, crowded: bool) -> usize {
    let factors = [
        spec.hosts.len(),
        spec.addresses.len().max(1),
        spec.ports.len(),
    ];
    let ports = factors.into_iter().fold(1, usize::saturating_mul);
    let names: usize = spec.subject_alt_names.iter().map(String::len).sum();
    of_ports(
        ports,
        CLUSTER_BYTES.saturating_add(names),
        endpoints,
        crowded,
    )
}

/// Whether a ServiceEntry may be charged where its namespace is not crowded. Of others nobody needs to know what they are charged.
pub fn may_pay(spec: &ServiceEntry) -> bool {
    spec.workload_selector.is_some() || of_entry(spec, spec.endpoints.len(), false) > 0
}

/// What a Service is charged that has so many ports, and so many endpoints at each beside those of its slices.
pub fn of_service(ports: usize, endpoints: usize, crowded: bool) -> usize {
    of_ports(ports, CLUSTER_BYTES, endpoints, crowded)
}

/// What ports are charged of which each takes so much, and has so many endpoints. A few are free, but not their endpoints; in a
/// crowd these few cost as much as a service.
fn of_ports(ports: usize, each: usize, endpoints: usize, crowded: bool) -> usize {
    let beyond = ports.saturating_sub(FREE_PORTS).saturating_mul(each);
    let few = match crowded && ports > 0 {
        true => each.max(SERVICE_BYTES),
        false => 0,
    };
    let listed = of_slice(endpoints, ports);
    charge(beyond, || false)
        .saturating_add(few)
        .saturating_add(listed)
}

/// What an EndpointSlice is charged: each of its addresses has each of its ports.
pub fn of_slice(addresses: usize, ports: usize) -> usize {
    let endpoints = addresses.saturating_mul(ports);
    charge(endpoints.saturating_mul(ENDPOINT_BYTES), || false)
}

/// What is left of the budget of a namespace, while its objects are charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Purse(usize);

impl Purse {
    /// All of a budget.
    pub fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Whether there is enough for a charge, which is taken then; otherwise nothing is.
    pub fn pays(&mut self, charge: usize) -> bool {
        let left = self.0.checked_sub(charge);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// An object that is charged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Charged {
    /// When it was created: the oldest come first.
    pub created: Age,
    /// Its name.
    pub name: ObjectName,
    /// What it is charged.
    pub bytes: usize,
}

/// The objects for which nothing is left. Whoever is charged nothing is never one of them. `more` says what an object is charged
/// besides, and is asked only of those that could pay so far.
pub fn over(
    budget: usize,
    mut charged: Vec<Charged>,
    mut more: impl FnMut(&ObjectName) -> usize,
) -> BTreeSet<ObjectName> {
    charged.sort();
    let mut purse = Purse::new(budget);
    let over = charged
        .into_iter()
        .filter(|object| !(purse.pays(object.bytes) && purse.pays(more(&object.name))));
    over.map(|object| object.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Timestamp;

    #[test]
    fn a_charge_is_rounded_up_by_little() {
        for (made, charged) in [
            (0, 0),
            (FREE_BYTES, 0),
            (FREE_BYTES + 1, FREE_BYTES + (1 << 10)),
            (64 << 20, 64 << 20),
            (usize::MAX, usize::MAX),
        ] {
            assert_eq!(charge(made, || false), charged);
        }
        assert_eq!(charge(100, || true), 100);
        assert_eq!(charge(0, || true), 0);
        for (made, charged) in [(1, 1), (31, 31), (33, 34), (1000, 1024)] {
            assert_eq!(rounded(made), charged);
        }
        for made in (1..100_000).step_by(7) {
            assert!(rounded(made) >= made && rounded(made) <= made + made / 16 + 1);
        }
    }

    #[test]
    fn the_oldest_pay_first_whatever_order_they_come_in() {
        let object = |name: &str, seconds, bytes| Charged {
            created: Age::Since(Timestamp(seconds)),
            name: ObjectName::new("shop", name),
            bytes,
        };
        let mut all = vec![
            object("young", 3, 50),
            object("old", 1, 60),
            object("free", 9, 0),
            object("small", 4, 40),
        ];
        let names = |over: BTreeSet<ObjectName>| -> Vec<String> {
            over.iter().map(|name| name.name.to_string()).collect()
        };
        for _ in 0..4 {
            all.rotate_left(1);
            assert_eq!(names(over(100, all.clone(), |_| 0)), ["young"]);
            let more = |name: &ObjectName| if &*name.name == "old" { 41 } else { 0 };
            assert_eq!(names(over(100, all.clone(), more)), ["old", "young"]);
        }
    }
}
