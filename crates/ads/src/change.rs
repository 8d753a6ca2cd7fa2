//! The difference between two sets.

use std::sync::Arc;

use xlate::{Resource, ResourceSet};

/// What turns one set into another, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Resources that are new or differ, and whether they are new.
    pub(crate) changed: Vec<(Arc<Resource>, bool)>,
    /// Resources that are gone, as they were.
    pub(crate) removed: Vec<Arc<Resource>>,
}

impl Change {
    /// One pass over both.
    pub(crate) fn between(from: &ResourceSet, to: &ResourceSet) -> Self {
        let mut change = Change::default();
        let (mut old, mut new) = (from.iter().peekable(), to.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {
                    old.next();
                    new.next();
                }
                (Some(a), Some(b)) => match a.name.cmp(&b.name) {
                    std::cmp::Ordering::Equal => {
                        if a.version != b.version {
                            change.changed.push((Arc::clone(b), false));
                        }
                        old.next();
                        new.next();
                    }
                    std::cmp::Ordering::Less => change.removed.extend(old.next().cloned()),
                    std::cmp::Ordering::Greater => change
                        .changed
                        .extend(new.next().map(|r| (Arc::clone(r), true))),
                },
                (Some(_), None) => change.removed.extend(old.next().cloned()),
                (None, Some(_)) => change
                    .changed
                    .extend(new.next().map(|r| (Arc::clone(r), true))),
                (None, None) => return change,
            }
        }
    }
}

/// Whether both are the same set in memory; equal copies are not recognised.
pub(crate) fn same(a: &ResourceSet, b: &ResourceSet) -> bool {
    std::ptr::eq(a.as_ptr(), b.as_ptr()) && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(items: &[(&str, &'static str)]) -> ResourceSet {
        ResourceSet::new(items.iter().map(|(n, b)| {
            Arc::new(Resource::from_bytes(
                *n,
                bytes::Bytes::from_static(b.as_bytes()),
            ))
        }))
    }

    #[test]
    fn change_lists_new_differing_and_gone() {
        let change = Change::between(
            &set(&[("a", "1"), ("b", "1"), ("d", "1")]),
            &set(&[("b", "2"), ("c", "1"), ("d", "1")]),
        );
        let changed: Vec<_> = change
            .changed
            .iter()
            .map(|(r, new)| (&*r.name, *new))
            .collect();
        assert_eq!(changed, [("b", false), ("c", true)]);
        assert_eq!(
            change.removed.iter().map(|r| &*r.name).collect::<Vec<_>>(),
            ["a"]
        );
    }
}
