//! Reading the snapshot from generation: every method records what it read.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use model::change::ServiceKey;
use model::jwks::{FetchedKeys, KeySource};
use model::settings::Settings;
use model::{Labels, Namespace, Object, ObjectName};

use crate::index::{IndexEntry, ObjectIndex};
use crate::input::Input;
use crate::shards::ServiceShards;
use crate::snapshot::{Snapshot, Stored};

/// Recorded reads. `list` and its kin depend on everything the bucket holds; `names` and its kin only on which
/// objects are in it, for queries that then read (or query over) each object by itself.
pub trait Reads {
    /// One object; its absence is recorded too. A name without a cluster is that of the mesh's configuration, or of the
    /// configured cluster's object.
    fn get<T: Stored>(&self, name: &ObjectName) -> Option<Arc<Object<T>>>;
    /// The objects of that namespace and name in every cluster, that of the configured cluster first.
    fn namesakes<T: Stored>(&self, name: &ObjectName) -> Vec<Arc<Object<T>>>;
    /// Every object of a kind, by namespace, then name, then cluster.
    fn list<T: Stored>(&self) -> Vec<Arc<Object<T>>>;
    /// Every object of a kind in a namespace, by name.
    fn list_in<T: Stored>(&self, namespace: &Namespace) -> Vec<Arc<Object<T>>>;
    /// The names of every object of a kind, sorted.
    fn names<T: Stored>(&self) -> Vec<ObjectName>;
    /// The names of every object of a kind in a namespace, sorted.
    fn names_in<T: Stored>(&self, namespace: &Namespace) -> Vec<ObjectName>;
    /// The namespaces that hold objects of a kind, sorted.
    fn namespaces<T: Stored>(&self) -> Vec<Namespace>;
    /// Every object with that index value, by name.
    fn list_by<T: Stored>(&self, index: ObjectIndex, value: &str) -> Vec<Arc<Object<T>>>;
    /// The names of the objects with that index value, sorted.
    fn names_by<T: Stored>(&self, index: ObjectIndex, value: &str) -> Vec<ObjectName>;
    /// Mesh config, networks and features.
    fn settings(&self) -> &Settings;
    /// The keys fetched from a source; `None` until an answer or a failure came.
    fn keys(&self, source: &KeySource) -> Option<Arc<FetchedKeys>>;
    /// The endpoint shards of a service.
    fn shards(&self, service: &ServiceKey) -> Option<Arc<ServiceShards>>;
    /// The labels of the connected proxies of a namespace, each set once.
    fn connected(&self, namespace: &Namespace) -> Arc<BTreeSet<Labels>>;
    /// The namespaces that have connected proxies, sorted.
    fn connected_namespaces(&self) -> Vec<Namespace>;
}

impl Reads for Cx<'_, Snapshot> {
    fn get<T: Stored>(&self, name: &ObjectName) -> Option<Arc<Object<T>>> {
        self.read(Input::Row(T::KIND, name).key());
        T::table(&self.snapshot().tables).get(name).cloned()
    }

    fn namesakes<T: Stored>(&self, name: &ObjectName) -> Vec<Arc<Object<T>>> {
        self.read(Input::Namesakes(T::KIND, name).key());
        T::table(&self.snapshot().tables)
            .namesakes(name)
            .cloned()
            .collect()
    }

    fn list<T: Stored>(&self) -> Vec<Arc<Object<T>>> {
        self.read(Input::Contents(T::KIND).key());
        T::table(&self.snapshot().tables).iter().cloned().collect()
    }

    fn list_in<T: Stored>(&self, namespace: &Namespace) -> Vec<Arc<Object<T>>> {
        self.read(Input::ContentsIn(T::KIND, namespace).key());
        T::table(&self.snapshot().tables)
            .iter_in(namespace)
            .cloned()
            .collect()
    }

    fn names<T: Stored>(&self) -> Vec<ObjectName> {
        self.read(Input::Members(T::KIND).key());
        T::table(&self.snapshot().tables)
            .iter()
            .map(|o| o.meta.name.clone())
            .collect()
    }

    fn names_in<T: Stored>(&self, namespace: &Namespace) -> Vec<ObjectName> {
        self.read(Input::MembersIn(T::KIND, namespace).key());
        T::table(&self.snapshot().tables)
            .iter_in(namespace)
            .map(|o| o.meta.name.clone())
            .collect()
    }

    fn namespaces<T: Stored>(&self) -> Vec<Namespace> {
        self.read(Input::Namespaces(T::KIND).key());
        T::table(&self.snapshot().tables)
            .namespaces()
            .cloned()
            .collect()
    }

    fn list_by<T: Stored>(&self, index: ObjectIndex, value: &str) -> Vec<Arc<Object<T>>> {
        self.read(Input::IndexContents(T::KIND, index, value).key());
        let table = T::table(&self.snapshot().tables);
        let entry = IndexEntry {
            index,
            value: value.into(),
        };
        table
            .by_index(&entry)
            .filter_map(|name| table.get(name).cloned())
            .collect()
    }

    fn names_by<T: Stored>(&self, index: ObjectIndex, value: &str) -> Vec<ObjectName> {
        self.read(Input::IndexMembers(T::KIND, index, value).key());
        let entry = IndexEntry {
            index,
            value: value.into(),
        };
        T::table(&self.snapshot().tables)
            .by_index(&entry)
            .cloned()
            .collect()
    }

    fn settings(&self) -> &Settings {
        self.read(Input::Settings.key());
        &self.snapshot().settings
    }

    fn keys(&self, source: &KeySource) -> Option<Arc<FetchedKeys>> {
        self.read(Input::Keys(source).key());
        self.snapshot().keys.get(source).cloned()
    }

    fn shards(&self, service: &ServiceKey) -> Option<Arc<ServiceShards>> {
        self.read(Input::Shards(service).key());
        self.snapshot().shards.get(service).cloned()
    }

    fn connected(&self, namespace: &Namespace) -> Arc<BTreeSet<Labels>> {
        self.read(Input::Connected(namespace).key());
        let connected = self.snapshot().connected.get(namespace);
        connected.cloned().unwrap_or_default()
    }

    fn connected_namespaces(&self) -> Vec<Namespace> {
        self.read(Input::ConnectedNamespaces.key());
        self.snapshot().connected.keys().cloned().collect()
    }
}
