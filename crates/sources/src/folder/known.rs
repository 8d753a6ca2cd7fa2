//! Where an object of a folder stands, and what was told of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use model::kinds::AnyObject;

/// A file, and the position of a document in it.
pub(super) type Place = (Arc<Path>, usize);

/// What is known of an object.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Where it stands.
    pub(super) places: Places,
    /// What is in force, as it was told.
    pub(super) told: Option<AnyObject>,
}

/// The places of an object, sorted. Nearly all objects have one, and that costs no memory of its own.
#[derive(Debug)]
pub(super) enum Places {
    One(Place),
    Several(BTreeSet<Place>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Several(BTreeSet::new())
    }
}

impl Places {
    pub(super) fn insert(&mut self, place: Place) {
        match self {
            Self::One(one) if *one == place => {}
            Self::One(one) => *self = Self::Several(BTreeSet::from([one.clone(), place])),
            Self::Several(places) if places.is_empty() => *self = Self::One(place),
            Self::Several(places) => _ = places.insert(place),
        }
    }

    pub(super) fn remove(&mut self, place: &Place) {
        match self {
            Self::One(one) if one == place => *self = Self::default(),
            Self::One(_) => {}
            Self::Several(places) => {
                places.remove(place);
                if places.len() == 1
                    && let Some(last) = places.pop_first()
                {
                    *self = Self::One(last);
                }
            }
        }
    }

    pub(super) fn are_several(&self) -> bool {
        matches!(self, Self::Several(places) if places.len() > 1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        let (one, several) = match self {
            Self::One(one) => (Some(one), None),
            Self::Several(places) => (None, Some(places)),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// The place that counts: in the first file that holds the object the last document, as when the file is applied.
    pub(super) fn in_force(&self) -> Option<&Place> {
        let (path, _) = self.iter().next()?;
        self.iter().take_while(|(other, _)| other == path).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_sorted_and_go_one_by_one() {
        let place = |file: &str, at| -> Place { (Path::new(file).into(), at) };
        let mut places = Places::default();
        assert_eq!(places.in_force(), None);
        for (file, at) in [("b", 0), ("a", 1), ("a", 0), ("b", 0)] {
            places.insert(place(file, at));
        }
        assert!(places.are_several());
        assert_eq!(places.iter().count(), 3);
        assert_eq!(places.in_force(), Some(&place("a", 1)));
        places.remove(&place("a", 1));
        places.remove(&place("a", 0));
        assert!(matches!(places, Places::One(_)));
        assert_eq!(places.in_force(), Some(&place("b", 0)));
        places.remove(&place("c", 0));
        places.remove(&place("b", 0));
        assert_eq!(places.in_force(), None);
    }
}
