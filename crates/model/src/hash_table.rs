//! How large the tables may be by which clusters hash requests: rings, and those of Maglev.
//!
//! A proxy builds the tables of a cluster again whenever one of its endpoints comes, goes or changes, and takes no other configuration
//! meanwhile: a ring of eight million entries holds up whoever shares the proxy for seconds, and takes hundreds of megabytes. So tables
//! are made smaller than a DestinationRule asks for where that is much. Requests are hashed all the same, and spread a little less
//! evenly over thousands of endpoints.

use proto_istio::networking::load_balancer_settings::ConsistentHashLb;
use proto_istio::networking::load_balancer_settings::consistent_hash_lb::HashAlgorithm;

/// How many entries a table has at most: it is built in some 20 ms.
pub const LARGEST: u64 = 131_072;

/// How many entries the tables of all clusters of one service have together, as long as each has [`RING`] of them.
pub const OF_SERVICE: u64 = 2 << 20;

/// The ring that Envoy builds where none is stated.
pub const RING: u64 = 1_024;

/// The largest ring that Envoy builds.
pub const ENVOY_RING: u64 = 8 << 20;

/// Envoy's table for Maglev must be smaller.
pub const ENVOY_MAGLEV: u64 = 5_000_011;

/// The table for Maglev that Envoy builds where none is stated.
const MAGLEV: u64 = 65_537;

/// Prime numbers, as the sizes of tables for Maglev have to be.
const PRIMES: [u64; 8] = [131_071, 65_537, 32_749, 16_381, 8_191, 4_093, 2_039, 1_021];

/// A table, by its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashTable {
    /// A ring, of at least so many.
    Ring(u64),
    /// That of Maglev.
    Maglev(u64),
}

impl HashTable {
    /// What is asked for, or what Envoy builds by itself.
    pub fn of(hash: &ConsistentHashLb) -> Self {
        let or = |size: u64, default: u64| match size {
            0 => default,
            size => size,
        };
        match &hash.hash_algorithm {
            Some(HashAlgorithm::Maglev(maglev)) => Self::Maglev(or(maglev.table_size, MAGLEV)),
            Some(HashAlgorithm::RingHash(ring)) => Self::Ring(or(ring.minimum_ring_size, RING)),
            None => Self::Ring(or(hash.minimum_ring_size, RING)),
        }
    }

    /// How many entries it has.
    pub fn size(self) -> u64 {
        match self {
            Self::Ring(size) | Self::Maglev(size) => size,
        }
    }

    /// The table with no more entries than that. One that Envoy refuses stays as it is: it is refused.
    #[must_use]
    pub fn at_most(self, most: u64) -> Self {
        match self {
            Self::Ring(size) if size <= ENVOY_RING => Self::Ring(size.min(most)),
            Self::Maglev(size) if size > most && size < ENVOY_MAGLEV => {
                let smaller = PRIMES.into_iter().find(|prime| *prime <= most);
                Self::Maglev(smaller.unwrap_or(size))
            }
            other => other,
        }
    }
}

/// How many entries the table of one cluster has at most, of a service with so many clusters.
pub fn most(clusters: usize) -> u64 {
    let clusters = u64::try_from(clusters).unwrap_or(u64::MAX).max(1);
    (OF_SERVICE / clusters).clamp(RING, LARGEST)
}

/// The field of a hash that states the size.
pub fn field(hash: &ConsistentHashLb) -> &'static str {
    match &hash.hash_algorithm {
        Some(HashAlgorithm::Maglev(_)) => "maglev.tableSize",
        Some(HashAlgorithm::RingHash(_)) => "ringHash.minimumRingSize",
        None => "minimumRingSize",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_made_smaller_where_they_are_large_or_many() {
        let of = |table: HashTable, clusters: usize| table.at_most(most(clusters)).size();
        for (table, clusters, wanted) in [
            (HashTable::Ring(1_024), 1, 1_024),
            (HashTable::Ring(100_000), 1, 100_000),
            (HashTable::Ring(ENVOY_RING), 1, LARGEST),
            (HashTable::Ring(100_000), 100, 20_971),
            (HashTable::Ring(100_000), 1_000_000, 1_024),
            (HashTable::Ring(ENVOY_RING + 1), 1, ENVOY_RING + 1),
            (HashTable::Maglev(65_537), 1, 65_537),
            (HashTable::Maglev(4_999_999), 1, 131_071),
            (HashTable::Maglev(65_537), 31, 65_537),
            (HashTable::Maglev(65_537), 100, 16_381),
            (HashTable::Maglev(65_537), 1_000_000, 1_021),
            (HashTable::Maglev(ENVOY_MAGLEV), 1, ENVOY_MAGLEV),
        ] {
            assert_eq!(of(table, clusters), wanted, "{table:?} of {clusters}");
        }
    }

    #[test]
    fn sizes_for_maglev_are_prime_numbers() {
        let is_prime = |n: u64| {
            (2..n)
                .take_while(|f| f * f <= n)
                .all(|f| !n.is_multiple_of(f))
        };
        assert!(PRIMES.into_iter().all(is_prime));
    }
}
