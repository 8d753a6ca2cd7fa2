//! Parts of keys whose hash is taken once.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use incr::{Cx, Query, keyed_hash};
use store::Snapshot;

/// A part of a key that is looked up far more often than it is made: its hash is taken once. Nothing in it can be changed,
/// so the hash stays right.
#[derive(Debug)]
pub struct Hashed<T>(Arc<WithHash<T>>);

#[derive(Debug)]
struct WithHash<T> {
    /// Over all of the value, with the key of the process: whoever picks what is in it cannot make values collide.
    hash: u64,
    value: T,
}

impl<T: Hash> Hashed<T> {
    /// A value with its hash.
    pub fn new(value: T) -> Self {
        let hash = keyed_hash(&value);
        Self(Arc::new(WithHash { hash, value }))
    }
}

impl<T: Eq + Hash + fmt::Debug + Send + Sync + 'static> Hashed<T> {
    /// The one in memory that all who ask for an equal value hold.
    pub(crate) fn shared(cx: &Cx<'_, Snapshot>, value: T) -> Self {
        (*cx.query(&TheOne(Self::new(value)))).clone()
    }
}

/// Gives the key that was asked for first among equal ones.
#[derive(PartialEq, Eq, Debug)]
struct TheOne<T>(Hashed<T>);

impl<T> Hash for TheOne<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> Clone for TheOne<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Eq + Hash + fmt::Debug + Send + Sync + 'static> Query<Snapshot> for TheOne<T> {
    type Value = Hashed<T>;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> Hashed<T> {
        self.0.clone()
    }
}

impl<T> Clone for Hashed<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.hash == other.0.hash && self.0.value == other.0.value
    }
}

impl<T: Eq> Eq for Hashed<T> {}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}
