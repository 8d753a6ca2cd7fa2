//! Hashing of what outsiders choose: keyed, with a key of this process.
//!
//! Whoever picks the names could otherwise pick them so that they collide, and make every look-up walk through all of
//! them. The key differs from run to run, and the order of these maps with it: nothing that is derived may depend on
//! that order, so they are asked and never listed, unless what comes out is sorted.

use std::hash::{BuildHasher, Hash};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

/// A map whose keys outsiders may choose. Its order is another in each process.
pub type KeyedMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A set whose members outsiders may choose. Its order is another in each process.
pub type KeyedSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;

/// A hash with the key of this process, to be kept beside a value that is costly to hash. It decides where a value lies
/// in a map and nothing else: it must not reach anything that is derived.
pub fn keyed_hash(value: &impl Hash) -> u64 {
    SeedableRandomState::with_seed(0, SharedSeed::global_random()).hash_one(value)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use rustc_hash::FxHasher;

    use super::*;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A key that counts how often it is compared.
    #[derive(Clone, Debug)]
    struct Counted(u64, u64);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            (self.0, self.1) == (other.0, other.1)
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            (self.0, self.1).hash(state);
        }
    }

    /// Pairs that have one FxHash: of two words it is `(a * K + b) * K`, and `b` takes back what `a` brought.
    fn colliding(count: u64) -> Vec<Counted> {
        let k = {
            let mut h = FxHasher::default();
            h.write_u64(1);
            h.finish().rotate_right(26)
        };
        let pairs = (0..count).map(|a| Counted(a, 0u64.wrapping_sub(a.wrapping_mul(k))));
        pairs.collect()
    }

    fn compared(insert: impl FnOnce()) -> usize {
        COMPARED.set(0);
        insert();
        COMPARED.get()
    }

    #[test]
    fn keys_made_to_collide_are_told_apart_by_their_hash() {
        let count = 2_000;
        let keys = colliding(count);
        let unkeyed = compared(|| {
            let mut map = rustc_hash::FxHashMap::default();
            keys.iter().for_each(|k| _ = map.insert(k.clone(), ()));
        });
        // The test would show nothing if the keys did not collide without a key of our own.
        assert!(unkeyed as u64 > count * count / 4, "{unkeyed}");
        let keyed = compared(|| {
            let mut map = KeyedMap::default();
            keys.iter().for_each(|k| _ = map.insert(k.clone(), ()));
        });
        assert!((keyed as u64) < count, "{keyed}");
        let hashes: std::collections::BTreeSet<_> = keys.iter().map(keyed_hash).collect();
        assert_eq!(hashes.len() as u64, count);
    }
}
