//! The difference between two sets.

use std::sync::Arc;

use xds::{Resource, ResourceSet};

/// What turns one set into another, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Resources that are new or differ, and whether they are new.
    pub(crate) changed: Vec<(Arc<Resource>, bool)>,
    /// Resources that are gone, as they were.
    pub(crate) removed: Vec<Arc<Resource>>,
}

impl Change {
    /// Costs what differs.
    pub(crate) fn between(from: &ResourceSet, to: &ResourceSet) -> Self {
        let mut change = Change::default();
        to.since(from, |old, new| match new {
            Some(new) => change.changed.push((Arc::clone(new), old.is_none())),
            None => change.removed.extend(old.cloned()),
        });
        change
    }
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
