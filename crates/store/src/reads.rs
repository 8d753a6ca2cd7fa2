//! Reading the snapshot from generation: every method records what it read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Guarded};
use model::access::{Access, AccessKey};
use model::certificate::WorkloadCertificate;
use model::change::ServiceKey;
use model::edge::{EdgeDocuments, RemoteIngresses};
use model::jwks::{FetchedKeys, KeySource};
use model::module::{FetchedModule, ModuleSource};
use model::settings::Settings;
use model::trust::MeshRoots;
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
    /// Whether a namespace holds so many objects of a kind that small ones are charged to its budget as well.
    fn is_crowded<T: Stored>(&self, namespace: &Namespace) -> bool;
    /// Every object with that index value, by name.
    fn list_by<T: Stored>(&self, index: ObjectIndex, value: &str) -> Vec<Arc<Object<T>>>;
    /// The names of the objects with that index value, sorted.
    fn names_by<T: Stored>(&self, index: ObjectIndex, value: &str) -> Vec<ObjectName>;
    /// Mesh config, networks and features.
    fn settings(&self) -> &Settings;
    /// The keys fetched from a source; `None` until an answer or a failure came.
    fn keys(&self, source: &KeySource) -> Option<Arc<FetchedKeys>>;
    /// The Wasm module fetched from a source; `None` until a module, a failure or a delay was told.
    fn module(&self, source: &ModuleSource) -> Option<Arc<FetchedModule>>;
    /// The addresses that a name was resolved to, sorted; `None` until an answer or a failure came.
    fn addresses(&self, name: &str) -> Option<Arc<[IpAddr]>>;
    /// The certificate of an identity (`spiffe://...`); `None` until one was made.
    fn certificate(&self, identity: &str) -> Option<Arc<WorkloadCertificate>>;
    /// What was answered to a review of access; `None` until there is an outcome.
    fn access(&self, key: &AccessKey) -> Option<Arc<Access>>;
    /// The roots of the mesh's own authority; `None` where there is none.
    fn roots(&self) -> Option<Arc<MeshRoots>>;
    /// What the options of an edge are read from beside their ConfigMap.
    fn edge_documents(&self) -> Arc<EdgeDocuments>;
    /// Which Ingresses of remote clusters are served.
    fn remote_ingresses(&self) -> Arc<RemoteIngresses>;
    /// The endpoint shards of a service.
    fn shards(&self, service: &ServiceKey) -> Option<Arc<ServiceShards>>;
    /// The identities that endpoints of a service had when it had any; `None` where nothing is remembered.
    fn identities(&self, service: &ServiceKey) -> Option<Arc<[Arc<str>]>>;
    /// The labels of the connected proxies of a namespace, each set once.
    fn connected(&self, namespace: &Namespace) -> Arc<BTreeSet<Labels>>;
    /// The namespaces that have connected proxies, sorted.
    fn connected_namespaces(&self) -> Vec<Namespace>;
}

/// Only this module can make one: what is generated reads the snapshot through [`Reads`] alone.
#[derive(Debug)]
pub struct Token(());

impl Guarded for Snapshot {
    type Token = Token;
}

/// The snapshot, to look up what is named here.
fn read<'a>(cx: &Cx<'a, Snapshot>, input: Input<'_>) -> &'a Snapshot {
    cx.read(input.key(), Token(()))
}

impl Reads for Cx<'_, Snapshot> {
    fn get<T: Stored>(&self, name: &ObjectName) -> Option<Arc<Object<T>>> {
        let snapshot = read(self, Input::Row(T::KIND, name));
        T::table(&snapshot.tables).get(name).cloned()
    }

    fn namesakes<T: Stored>(&self, name: &ObjectName) -> Vec<Arc<Object<T>>> {
        let snapshot = read(self, Input::Namesakes(T::KIND, name));
        T::table(&snapshot.tables)
            .namesakes(name)
            .cloned()
            .collect()
    }

    fn list<T: Stored>(&self) -> Vec<Arc<Object<T>>> {
        let snapshot = read(self, Input::Contents(T::KIND));
        T::table(&snapshot.tables).iter().cloned().collect()
    }

    fn list_in<T: Stored>(&self, namespace: &Namespace) -> Vec<Arc<Object<T>>> {
        let snapshot = read(self, Input::ContentsIn(T::KIND, namespace));
        T::table(&snapshot.tables)
            .iter_in(namespace)
            .cloned()
            .collect()
    }

    fn names<T: Stored>(&self) -> Vec<ObjectName> {
        let snapshot = read(self, Input::Members(T::KIND));
        T::table(&snapshot.tables)
            .iter()
            .map(|o| o.meta.name.clone())
            .collect()
    }

    fn names_in<T: Stored>(&self, namespace: &Namespace) -> Vec<ObjectName> {
        let snapshot = read(self, Input::MembersIn(T::KIND, namespace));
        T::table(&snapshot.tables)
            .iter_in(namespace)
            .map(|o| o.meta.name.clone())
            .collect()
    }

    fn namespaces<T: Stored>(&self) -> Vec<Namespace> {
        let snapshot = read(self, Input::Namespaces(T::KIND));
        T::table(&snapshot.tables).namespaces().cloned().collect()
    }

    fn is_crowded<T: Stored>(&self, namespace: &Namespace) -> bool {
        let snapshot = read(self, Input::Crowded(T::KIND, namespace));
        T::table(&snapshot.tables).is_crowded(namespace)
    }

    fn list_by<T: Stored>(&self, index: ObjectIndex, value: &str) -> Vec<Arc<Object<T>>> {
        let snapshot = read(self, Input::IndexContents(T::KIND, index, value));
        let table = T::table(&snapshot.tables);
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
        let snapshot = read(self, Input::IndexMembers(T::KIND, index, value));
        let entry = IndexEntry {
            index,
            value: value.into(),
        };
        T::table(&snapshot.tables)
            .by_index(&entry)
            .cloned()
            .collect()
    }

    fn settings(&self) -> &Settings {
        let snapshot = read(self, Input::Settings);
        &snapshot.settings
    }

    fn keys(&self, source: &KeySource) -> Option<Arc<FetchedKeys>> {
        let snapshot = read(self, Input::Keys(source));
        snapshot.keys.get(source).cloned()
    }

    fn module(&self, source: &ModuleSource) -> Option<Arc<FetchedModule>> {
        let snapshot = read(self, Input::Module(source));
        snapshot.modules.get(source).cloned()
    }

    fn addresses(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        let snapshot = read(self, Input::Addresses(name));
        snapshot.addresses.get(name).cloned()
    }

    fn certificate(&self, identity: &str) -> Option<Arc<WorkloadCertificate>> {
        let snapshot = read(self, Input::Certificate(identity));
        snapshot.certificates.get(identity).cloned()
    }

    fn access(&self, key: &AccessKey) -> Option<Arc<Access>> {
        let snapshot = read(self, Input::Access(key));
        snapshot.access.get(key).cloned()
    }

    fn roots(&self) -> Option<Arc<MeshRoots>> {
        read(self, Input::Roots).roots.clone()
    }

    fn edge_documents(&self) -> Arc<EdgeDocuments> {
        read(self, Input::EdgeDocuments).edge_documents.clone()
    }

    fn remote_ingresses(&self) -> Arc<RemoteIngresses> {
        let snapshot = read(self, Input::RemoteIngresses);
        snapshot.remote_ingresses.clone()
    }

    fn shards(&self, service: &ServiceKey) -> Option<Arc<ServiceShards>> {
        let snapshot = read(self, Input::Shards(service));
        snapshot.shards.get(service).cloned()
    }

    fn identities(&self, service: &ServiceKey) -> Option<Arc<[Arc<str>]>> {
        let snapshot = read(self, Input::Identities(service));
        snapshot.identities.get(service).cloned()
    }

    fn connected(&self, namespace: &Namespace) -> Arc<BTreeSet<Labels>> {
        let snapshot = read(self, Input::Connected(namespace));
        let connected = snapshot.connected.get(namespace);
        connected.cloned().unwrap_or_default()
    }

    fn connected_namespaces(&self) -> Vec<Namespace> {
        let snapshot = read(self, Input::ConnectedNamespaces);
        snapshot.connected.keys().cloned().collect()
    }
}
