//! What each owner holds, so that what it restarts or withdraws is found without looking at anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use incr::KeyedSet;
use model::change::ServiceKey;
use model::{Kind, ObjectKey, ObjectName, Owner, ShardKey};

/// The members of one collection.
#[derive(Debug)]
pub(super) struct Members<K> {
    /// Told since the collection was last restarted.
    current: KeyedSet<K>,
    /// Told before that, and not again.
    stale: KeyedSet<K>,
}

impl<K> Default for Members<K> {
    fn default() -> Self {
        Self {
            current: KeyedSet::default(),
            stale: KeyedSet::default(),
        }
    }
}

impl<K: Eq + Hash> Members<K> {
    /// A member is there; whether it is new.
    pub(super) fn insert(&mut self, member: K) -> bool {
        let was_stale = self.stale.remove(&member);
        self.current.insert(member) && !was_stale
    }

    /// A member is gone; whether it was there.
    pub(super) fn remove(&mut self, member: &K) -> bool {
        self.current.remove(member) || self.stale.remove(member)
    }

    pub(super) fn contains(&self, member: &K) -> bool {
        self.current.contains(member) || self.stale.contains(member)
    }

    /// Every member is stale until it is told again.
    pub(super) fn restart(&mut self) {
        let mut told = std::mem::take(&mut self.current);
        if told.len() < self.stale.len() {
            std::mem::swap(&mut told, &mut self.stale);
        }
        // The smaller set goes into the larger one.
        told.extend(std::mem::take(&mut self.stale));
        self.stale = told;
    }

    /// Removes and returns what is stale.
    pub(super) fn take_stale(&mut self) -> KeyedSet<K> {
        std::mem::take(&mut self.stale)
    }

    /// Every member.
    pub(super) fn into_all(self) -> impl Iterator<Item = K> {
        self.current.into_iter().chain(self.stale)
    }
}

/// One list of endpoints of an owner.
pub(super) type ShardOf = (ServiceKey, ShardKey);

/// All that one owner holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) owner: Arc<Owner>,
    pub(super) objects: BTreeMap<Kind, Members<ObjectName>>,
    pub(super) shards: Members<ShardOf>,
    /// What stands beside the substitutes of objects, as a rule needs that names several hosts.
    pub(super) beside: BTreeMap<ObjectKey, BTreeSet<ObjectName>>,
}

impl Held {
    pub(super) fn of(owner: &Owner) -> Self {
        Self {
            owner: Arc::new(owner.clone()),
            objects: BTreeMap::new(),
            shards: Members::default(),
            beside: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_again_is_stale_once() {
        let mut members = Members::default();
        assert!(members.insert("a"));
        assert!(members.insert("b"));
        assert!(!members.insert("b"));
        members.restart();
        assert!(!members.insert("a"), "it was there all the time");
        assert!(members.insert("c"));
        members.restart();
        assert!(!members.insert("c"));
        assert!(members.contains(&"a"));
        let mut stale: Vec<_> = members.take_stale().into_iter().collect();
        stale.sort_unstable();
        assert_eq!(stale, ["a", "b"]);
        assert!(members.take_stale().is_empty());
        assert!(members.remove(&"c"));
        assert!(!members.remove(&"c"));
    }
}
