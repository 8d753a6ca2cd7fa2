//! What a client asks for of one type: sorted shared name lists and the selection made of them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Sorted names without repetition. Clones share the list; streams that ask for the same names share one list through
/// [`Fanout`](crate::Fanout).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Names(Arc<[Arc<str>]>);

impl Names {
    /// Sorts and removes repetitions.
    pub fn new(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut list: Vec<_> = names.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        Self(list.into())
    }

    /// Whether the name is in the list.
    pub fn contains(&self, name: &str) -> bool {
        self.0.binary_search_by(|n| (**n).cmp(name)).is_ok()
    }

    /// Whether both are the same list in memory.
    pub fn same(&self, other: &Names) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn downgrade(&self) -> std::sync::Weak<[Arc<str>]> {
        Arc::downgrade(&self.0)
    }

    pub(crate) fn upgrade(weak: &std::sync::Weak<[Arc<str>]>) -> Option<Names> {
        weak.upgrade().map(Names)
    }
}

impl Deref for Names {
    type Target = [Arc<str>];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// What a client asks for of one type.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Everything.
    pub wildcard: bool,
    /// These, also when [`Selection::wildcard`] holds: they stay when the wildcard is given up.
    pub names: Names,
}

impl Selection {
    /// Whether a resource of that name is asked for.
    pub fn selects(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        !self.wildcard && self.names.is_empty()
    }

    /// Whether both ask for the same, judged cheaply: shared lists are recognised, equal copies are not.
    pub(crate) fn same(&self, other: &Selection) -> bool {
        self.wildcard == other.wildcard && self.names.same(&other.names)
    }
}
