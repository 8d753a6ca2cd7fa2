//! Values as keys of queries: compared by a hash that is taken once.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

/// A value that is cheap to use as a key: its hash is taken once.
#[derive(Debug)]
pub struct Keyed<T> {
    value: T,
    hash: u64,
}

impl<T: fmt::Debug> Keyed<T> {
    /// Takes the hash of everything the value shows of itself.
    pub fn new(value: T) -> Arc<Self> {
        let hash = hash_of_debug(&value);
        Arc::new(Self { value, hash })
    }
}

/// A hash of everything a value shows of itself; what it shows is never in memory at once.
pub fn hash_of_debug(value: &impl fmt::Debug) -> u64 {
    struct Shown(Xxh3);
    impl fmt::Write for Shown {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut shown = Shown(Xxh3::new());
    fmt::write(&mut shown, format_args!("{value:?}")).expect("a hash takes any text");
    shown.0.digest()
}

impl<T> Deref for Keyed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Keyed<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.hash == other.hash && self.value == other.value
    }
}

impl<T: PartialEq> Eq for Keyed<T> {}

impl<T> Hash for Keyed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}
