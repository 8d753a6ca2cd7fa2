//! A persistent table of the objects of one kind, with its secondary indexes.

use std::sync::Arc;

use model::kinds::Kinded;
use model::{Name, Namespace, Object, ObjectName, Owner};
use rpds::{HashTrieMapSync, RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::index::{CLOSED, IndexEntry, Indexed, ObjectIndex};

/// An object in force, and whose version that is.
#[derive(Debug)]
pub(crate) struct Row<T: Kinded> {
    pub(crate) object: Arc<Object<T>>,
    pub(crate) owner: Arc<Owner>,
}

impl<T: Kinded> Clone for Row<T> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            owner: self.owner.clone(),
        }
    }
}

/// The objects that have a value of an index, sorted. Most values, as addresses, belong to one.
#[derive(Clone, Debug)]
enum Names {
    One(ObjectName),
    Many(RedBlackTreeSetSync<ObjectName>),
}

impl Names {
    fn iter(&self) -> impl Iterator<Item = &ObjectName> {
        let (one, many) = match self {
            Self::One(name) => (Some(name), None),
            Self::Many(names) => (None, Some(names)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    fn with(&self, name: &ObjectName) -> Self {
        match self {
            Self::One(one) if one == name => self.clone(),
            Self::One(one) => {
                let names = RedBlackTreeSetSync::new_sync().insert(one.clone());
                Self::Many(names.insert(name.clone()))
            }
            Self::Many(names) => Self::Many(names.insert(name.clone())),
        }
    }

    /// None where no other is left.
    fn without(&self, name: &ObjectName) -> Option<Self> {
        match self {
            Self::One(one) => (one != name).then(|| self.clone()),
            Self::Many(names) => {
                let names = names.remove(name);
                (!names.is_empty()).then_some(Self::Many(names))
            }
        }
    }
}

/// Rows by name, names by index value. Clones share everything.
#[derive(Debug)]
pub struct Table<T: Kinded> {
    rows: RedBlackTreeMapSync<ObjectName, Row<T>>,
    index: HashTrieMapSync<IndexEntry, Names>,
    namespaces: RedBlackTreeMapSync<Namespace, usize>,
}

impl<T: Kinded> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            index: self.index.clone(),
            namespaces: self.namespaces.clone(),
        }
    }
}

impl<T: Kinded> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: RedBlackTreeMapSync::new_sync(),
            index: HashTrieMapSync::new_sync(),
            namespaces: RedBlackTreeMapSync::new_sync(),
        }
    }
}

impl<T: Indexed> Table<T> {
    /// The object of that name.
    pub fn get(&self, name: &ObjectName) -> Option<&Arc<Object<T>>> {
        Some(&self.rows.get(name)?.object)
    }

    /// Whose version of an object is in force.
    pub fn owner(&self, name: &ObjectName) -> Option<&Arc<Owner>> {
        Some(&self.rows.get(name)?.owner)
    }

    /// Every object, by namespace, then name, then cluster.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object<T>>> {
        self.rows.values().map(|row| &row.object)
    }

    /// The objects of that namespace and name in every cluster, that of the configured cluster first.
    pub fn namesakes<'a>(
        &'a self,
        name: &ObjectName,
    ) -> impl Iterator<Item = &'a Arc<Object<T>>> + use<'a, T> {
        let first = name.in_cluster(None);
        self.rows
            .range(first.clone()..)
            .take_while(move |(k, _)| k.is_namesake(&first))
            .map(|(_, row)| &row.object)
    }

    /// Every object of a namespace, by name, then cluster.
    pub fn iter_in<'a>(
        &'a self,
        namespace: &Namespace,
    ) -> impl Iterator<Item = &'a Arc<Object<T>>> + use<'a, T> {
        let first = ObjectName::new(namespace.clone(), Name::default());
        let namespace = namespace.clone();
        self.rows
            .range(first..)
            .take_while(move |(k, _)| k.namespace == namespace)
            .map(|(_, row)| &row.object)
    }

    /// The names that have `value` in `index`, sorted.
    pub fn by_index<'a>(
        &'a self,
        entry: &IndexEntry,
    ) -> impl Iterator<Item = &'a ObjectName> + use<'a, T> {
        self.index
            .get(entry)
            .into_iter()
            .flat_map(|names| names.iter())
    }

    /// The namespaces that hold objects, sorted.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.keys()
    }

    /// Whether a namespace holds objects.
    pub fn has_namespace(&self, namespace: &Namespace) -> bool {
        self.namespaces.contains_key(namespace)
    }

    /// Whether a namespace holds so many objects that small ones are charged to its budget as well.
    pub fn is_crowded(&self, namespace: &Namespace) -> bool {
        let count = self.namespaces.get(namespace).copied().unwrap_or(0);
        count > model::budget::crowd(T::KIND)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.rows.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Replaces or removes a row, which was indexed under `before` and is under `after`, both sorted.
    pub(crate) fn set(
        &mut self,
        name: &ObjectName,
        row: Option<Row<T>>,
        before: &[IndexEntry],
        after: &[IndexEntry],
    ) {
        for entry in before.iter().filter(|e| after.binary_search(e).is_err()) {
            if let Some(names) = self.index.get(entry) {
                match names.without(name) {
                    Some(names) => self.index.insert_mut(entry.clone(), names),
                    None => _ = self.index.remove_mut(entry),
                }
            }
        }
        for entry in after.iter().filter(|e| before.binary_search(e).is_err()) {
            let names = match self.index.get(entry) {
                Some(names) => names.with(name),
                None => Names::One(name.clone()),
            };
            self.index.insert_mut(entry.clone(), names);
        }
        let count = self.namespaces.get(&name.namespace).copied().unwrap_or(0);
        match (self.rows.contains_key(name), row) {
            (false, Some(new)) => {
                self.namespaces
                    .insert_mut(name.namespace.clone(), count + 1);
                self.rows.insert_mut(name.clone(), new);
            }
            (true, Some(new)) => {
                self.rows.insert_mut(name.clone(), new);
            }
            (true, None) => {
                if count <= 1 {
                    self.namespaces.remove_mut(&name.namespace);
                } else {
                    self.namespaces
                        .insert_mut(name.namespace.clone(), count - 1);
                }
                self.rows.remove_mut(name);
            }
            (false, None) => {}
        }
    }
}

/// The index entries of an object, sorted; none for an absent one.
pub(crate) fn index_entries<T: Indexed>(object: Option<&Object<T>>) -> Vec<IndexEntry> {
    let mut entries = Vec::new();
    if let Some(object) = object {
        let mut emit = |index, value: String| {
            entries.push(IndexEntry {
                index,
                value: value.into(),
            })
        };
        T::index(object, &mut emit);
        if object.meta.closed.is_some() {
            emit(ObjectIndex::Closed, CLOSED.to_owned());
        }
        entries.sort();
        entries.dedup();
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_value_are_sorted_and_go_one_by_one() {
        let name = |name: &str| ObjectName::new("shop", name);
        let mut names = Names::One(name("b"));
        for each in ["b", "a", "c", "a"] {
            names = names.with(&name(each));
        }
        let all: Vec<_> = names.iter().map(|n| n.name.to_string()).collect();
        assert_eq!(all, ["a", "b", "c"]);
        for gone in ["c", "x", "a"] {
            names = names.without(&name(gone)).unwrap();
        }
        assert_eq!(names.iter().collect::<Vec<_>>(), [&name("b")]);
        assert!(names.without(&name("b")).is_none());
        let one = Names::One(name("b"));
        assert!(one.without(&name("x")).is_some() && one.without(&name("b")).is_none());
    }
}
