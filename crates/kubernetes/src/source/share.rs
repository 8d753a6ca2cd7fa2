//! A collection that several watches tell together, one for each namespace.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::{Change, Collection, Kind, ObjectKey, ObjectName};

/// What one of several watches has told. Since it may not restart what the others tell, it says itself what is gone.
pub(super) struct Share {
    kind: Kind,
    told: BTreeSet<ObjectName>,
    /// What of it was told again, while a list is under way.
    again: Option<BTreeSet<ObjectName>>,
    was_synced: bool,
    /// Watches that have not told everything once.
    behind: Arc<AtomicUsize>,
}

impl Share {
    /// The shares of so many watches.
    pub(super) fn of(kind: Kind, watches: usize) -> impl Iterator<Item = Self> {
        let behind = Arc::new(AtomicUsize::new(watches));
        std::iter::repeat_with(move || Self {
            kind,
            told: BTreeSet::new(),
            again: None,
            was_synced: false,
            behind: behind.clone(),
        })
        .take(watches)
    }

    /// What a watch tells of its whole collection, as of a share of it.
    pub(super) fn of_changes(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let mut shared = Vec::with_capacity(changes.len());
        for change in changes {
            match &change {
                Change::Restart(_) => self.again = Some(BTreeSet::new()),
                Change::Synced(collection) => self.synced(collection, &mut shared),
                Change::Put(_, object) => {
                    self.note(object.key().name);
                    shared.push(change);
                }
                Change::Keep(_, key, substitutes) => {
                    let has_substitute = !substitutes.is_empty();
                    if has_substitute || self.told.contains(&key.name) {
                        self.note(key.name.clone());
                    }
                    if has_substitute {
                        shared.push(change);
                    }
                }
                Change::Delete(_, key) => {
                    self.told.remove(&key.name);
                    if let Some(again) = &mut self.again {
                        again.remove(&key.name);
                    }
                    shared.push(change);
                }
                _ => shared.push(change),
            }
        }
        shared
    }

    fn note(&mut self, name: ObjectName) {
        if let Some(again) = &mut self.again {
            again.insert(name.clone());
        }
        self.told.insert(name);
    }

    fn synced(&mut self, collection: &Collection, shared: &mut Vec<Change>) {
        if let Some(again) = self.again.take() {
            let gone = self.told.difference(&again);
            let delete = |name: &ObjectName| {
                let (kind, name) = (self.kind, name.clone());
                Change::Delete(collection.owner.clone(), ObjectKey { kind, name })
            };
            shared.extend(gone.map(delete));
            self.told = again;
        }
        if !std::mem::replace(&mut self.was_synced, true)
            && self.behind.fetch_sub(1, Ordering::AcqRel) == 1
        {
            shared.push(Change::Synced(collection.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Contents, Owner};

    use super::*;

    #[test]
    fn a_share_says_itself_what_is_gone() {
        let owner = Owner::new(0, "a");
        let collection = Collection {
            owner: owner.clone(),
            of: Contents::Objects(Kind::ConfigMap),
        };
        let key = |name: &str| ObjectKey {
            kind: Kind::ConfigMap,
            name: ObjectName::new("ns", name),
        };
        let [mut one, mut two] = Share::of(Kind::ConfigMap, 2)
            .collect::<Vec<_>>()
            .try_into()
            .ok()
            .unwrap();
        let (restart, synced) = (
            Change::Restart(collection.clone()),
            Change::Synced(collection),
        );
        for name in ["a", "b", "c"] {
            one.note(key(name).name);
        }
        assert!(one.of_changes(vec![restart.clone()]).is_empty());
        one.note(key("a").name);
        let told = one.of_changes(vec![
            Change::Keep(owner.clone(), key("b"), Vec::new()),
            synced.clone(),
        ]);
        assert!(matches!(&told[..], [Change::Delete(_, gone)] if *gone == key("c")));
        let told = two.of_changes(vec![restart.clone(), synced.clone()]);
        assert!(
            matches!(&told[..], [Change::Synced(_)]),
            "the last has told all"
        );
        assert!(two.of_changes(vec![restart, synced]).is_empty(), "once");
    }
}
