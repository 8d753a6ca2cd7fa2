//! Maps that many messages hold alike.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A map whose clones share it until one of them changes. An empty one takes no memory of its own.
#[derive(Clone, Debug, Default)]
pub struct SharedMap(Option<Arc<BTreeMap<String, String>>>);

static EMPTY: BTreeMap<String, String> = BTreeMap::new();

impl Deref for SharedMap {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for SharedMap {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl PartialEq for SharedMap {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(&**self, &**other) || **self == **other
    }
}

impl Eq for SharedMap {}

impl From<BTreeMap<String, String>> for SharedMap {
    fn from(map: BTreeMap<String, String>) -> Self {
        Self((!map.is_empty()).then(|| Arc::new(map)))
    }
}

impl FromIterator<(String, String)> for SharedMap {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        BTreeMap::from_iter(pairs).into()
    }
}

impl serde::Serialize for SharedMap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

/// Lets those that are equal share their memory.
pub fn share<'a>(maps: impl Iterator<Item = &'a mut SharedMap>) {
    let mut distinct: BTreeSet<Arc<BTreeMap<String, String>>> = BTreeSet::new();
    for map in maps.filter_map(|map| map.0.as_mut()) {
        match distinct.get(map) {
            Some(known) => *map = known.clone(),
            None => _ = distinct.insert(map.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(version: &str) -> SharedMap {
        [("version".to_owned(), version.to_owned())]
            .into_iter()
            .collect()
    }

    #[test]
    fn equal_maps_are_one_until_either_changes() {
        let mut maps = [map("1"), map("2"), map("1"), SharedMap::default()];
        share(maps.iter_mut());
        assert!(std::ptr::eq(&*maps[0], &*maps[2]));
        assert_eq!(maps, [map("1"), map("2"), map("1"), SharedMap::default()]);
        maps[2].insert("zone".into(), "a".into());
        assert_eq!(maps[0], map("1"));
        assert_eq!(maps[2].len(), 2);
    }

    #[test]
    fn a_map_that_was_emptied_is_an_empty_one() {
        let mut emptied = map("1");
        emptied.clear();
        assert_eq!(emptied, SharedMap::default());
        assert_eq!(SharedMap::from(BTreeMap::new()), emptied);
    }
}
