//! A copy of the objects in which something can be taken away, together with what was derived from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use convert::{Loaded, Stage};
use incr::InputKey;
use model::settings::Settings;
use model::{AnyObject, Change, Kind, ObjectKey, Owner};
use store::{Input, Snapshot, Store};

/// A snapshot, and what it takes to derive its derived objects again.
pub(crate) struct Fork {
    snapshot: Arc<Snapshot>,
    /// `None` where nothing is derived from any object.
    stage: Option<Box<(Store, Stage)>>,
    /// The derived objects by what they were derived from.
    derived: BTreeMap<ObjectKey, Vec<ObjectKey>>,
}

impl Fork {
    /// Of a snapshot, which stays as it is.
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let mut derived: BTreeMap<ObjectKey, Vec<ObjectKey>> = BTreeMap::new();
        let mut written = Vec::new();
        for object in Kind::ALL.iter().flat_map(|k| snapshot.tables.iter_any(*k)) {
            let key = object.key();
            if let Some(made) = &object.meta().derived {
                for from in made.from.iter() {
                    derived.entry(from.clone()).or_default().push(key.clone());
                }
            } else if let Some(owner) = snapshot.tables.owner_of(&key) {
                written.push(Change::Put(Owner::clone(owner), object));
            }
        }
        let Loaded { store, stage, .. } = convert::load(snapshot.settings.clone(), written);
        let derives = stage.stats().roots > 0;
        Self {
            snapshot,
            stage: derives.then(|| Box::new((store, stage))),
            derived,
        }
    }

    /// As it is.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Every object that somebody wrote, those of kinds that there are few of first.
    pub(crate) fn written(&self) -> Vec<AnyObject> {
        let tables = &self.snapshot.tables;
        let mut kinds = Kind::ALL.to_vec();
        kinds.sort_by_key(|kind| tables.count(*kind));
        let objects = kinds.into_iter().flat_map(|kind| tables.iter_any(kind));
        objects.filter(|o| o.meta().derived.is_none()).collect()
    }

    /// What was derived from an object, alone or with others.
    pub(crate) fn derived_from(&self, key: &ObjectKey) -> &[ObjectKey] {
        self.derived.get(key).map_or(&[], Vec::as_slice)
    }

    /// The snapshot without an object, and the inputs that differ in it.
    pub(crate) fn without(&mut self, object: &AnyObject) -> (Snapshot, Vec<InputKey>) {
        let key = object.key();
        if let Some(owner) = self.snapshot.tables.owner_of(&key) {
            let owner = Owner::clone(owner);
            let put = Change::Put(owner.clone(), object.clone());
            if let Some(changed) = self.derived_again(Change::Delete(owner, key.clone()), put) {
                return changed;
            }
        }
        let mut snapshot = Snapshot::clone(&self.snapshot);
        let mut keys = Vec::new();
        snapshot.replace(&key, None, &mut |input: Input<'_>| keys.push(input.key()));
        (snapshot, keys)
    }

    /// The snapshot under other settings, and the inputs that differ in it.
    pub(crate) fn under(&mut self, settings: Arc<Settings>) -> (Snapshot, Vec<InputKey>) {
        let back = Change::Settings(self.snapshot.settings.clone());
        let changed = self.derived_again(Change::Settings(settings.clone()), back);
        let (mut snapshot, mut keys) =
            changed.unwrap_or_else(|| (Snapshot::clone(&self.snapshot), Vec::new()));
        snapshot.settings = settings;
        keys.push(Input::Settings.key());
        (snapshot, keys)
    }

    /// The snapshot after a change and what is derived differently because of it; `back` undoes the change. `None` where
    /// nothing is derived.
    fn derived_again(&mut self, change: Change, back: Change) -> Option<(Snapshot, Vec<InputKey>)> {
        let (store, stage) = &mut **self.stage.as_mut()?;
        let changes = stage.apply(store, [change]);
        let mut snapshot = Snapshot::clone(&self.snapshot);
        snapshot.tables = store.snapshot().tables.clone();
        stage.apply(store, [back]);
        Some((snapshot, changes.keys))
    }
}
