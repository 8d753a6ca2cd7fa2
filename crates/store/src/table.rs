//! A persistent table of the objects of one kind, with its secondary indexes.

use std::sync::Arc;

use model::kinds::Kinded;
use model::{Name, Namespace, Object, ObjectName};
use rpds::{HashTrieMapSync, RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::index::{IndexEntry, Indexed};

/// Rows by name, names by index value. Clones share everything.
#[derive(Debug)]
pub struct Table<T: Kinded> {
    rows: RedBlackTreeMapSync<ObjectName, Arc<Object<T>>>,
    index: HashTrieMapSync<IndexEntry, RedBlackTreeSetSync<ObjectName>>,
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
        self.rows.get(name)
    }

    /// Every object, by namespace, then name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object<T>>> {
        self.rows.values()
    }

    /// Every object of a namespace, by name.
    pub fn iter_in<'a>(
        &'a self,
        namespace: &Namespace,
    ) -> impl Iterator<Item = &'a Arc<Object<T>>> + use<'a, T> {
        let first = ObjectName {
            namespace: namespace.clone(),
            name: Name::default(),
        };
        let namespace = namespace.clone();
        self.rows
            .range(first..)
            .take_while(move |(k, _)| k.namespace == namespace)
            .map(|(_, v)| v)
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

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.rows.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Replaces or removes a row; returns what stood there.
    pub(crate) fn set(
        &mut self,
        name: &ObjectName,
        object: Option<Arc<Object<T>>>,
    ) -> Option<Arc<Object<T>>> {
        let old = self.rows.get(name).cloned();
        let (before, after) = (
            index_entries(old.as_deref()),
            index_entries(object.as_deref()),
        );
        for entry in before.iter().filter(|e| !after.contains(e)) {
            if let Some(names) = self.index.get(entry) {
                let names = names.remove(name);
                if names.is_empty() {
                    self.index.remove_mut(entry);
                } else {
                    self.index.insert_mut(entry.clone(), names);
                }
            }
        }
        for entry in after.iter().filter(|e| !before.contains(e)) {
            let names = self
                .index
                .get(entry)
                .cloned()
                .unwrap_or_else(RedBlackTreeSetSync::new_sync);
            self.index
                .insert_mut(entry.clone(), names.insert(name.clone()));
        }
        let count = self.namespaces.get(&name.namespace).copied().unwrap_or(0);
        match (&old, object) {
            (None, Some(new)) => {
                self.namespaces
                    .insert_mut(name.namespace.clone(), count + 1);
                self.rows.insert_mut(name.clone(), new);
            }
            (Some(_), Some(new)) => {
                self.rows.insert_mut(name.clone(), new);
            }
            (Some(_), None) => {
                if count <= 1 {
                    self.namespaces.remove_mut(&name.namespace);
                } else {
                    self.namespaces
                        .insert_mut(name.namespace.clone(), count - 1);
                }
                self.rows.remove_mut(name);
            }
            (None, None) => {}
        }
        old
    }
}

/// The index entries of a row, none for an absent one.
pub(crate) fn index_entries<T: Indexed>(object: Option<&Object<T>>) -> Vec<IndexEntry> {
    let mut entries = Vec::new();
    if let Some(object) = object {
        T::index(object, &mut |index, value| {
            entries.push(IndexEntry {
                index,
                value: value.into(),
            })
        });
        entries.sort();
        entries.dedup();
    }
    entries
}
