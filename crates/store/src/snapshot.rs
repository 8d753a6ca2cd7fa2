//! Everything that generation can read, at one revision.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use model::access::{Access, AccessKey};
use model::certificate::WorkloadCertificate;
use model::change::ServiceKey;
use model::edge::{EdgeDocuments, RemoteIngresses};
use model::jwks::{FetchedKeys, KeySource};
use model::kinds::{AnyObject, Kind, Kinded};
use model::module::{FetchedModule, ModuleSource};
use model::settings::Settings;
use model::trust::MeshRoots;
use model::{Labels, Namespace, ObjectKey, ObjectName, Owner};
use rpds::RedBlackTreeMapSync;

use crate::index::{Indexed, ObjectIndex};
use crate::input::Input;
use crate::shards::ServiceShards;
use crate::table::{Row, Table, index_entries};

/// A kind that has a table.
pub trait Stored: Indexed {
    /// Its table.
    fn table(tables: &Tables) -> &Table<Self>;
    /// Its table, to change.
    fn table_mut(tables: &mut Tables) -> &mut Table<Self>;
}

macro_rules! declare_tables {
    ($(($variant:ident, $spec:ty, $status:ty, $table:ident, $group:literal, $kind:literal, $plural:literal, $scope:ident, [$($version:literal),+])),+ $(,)?) => {
        /// One table for each kind.
        #[derive(Clone, Debug, Default)]
        pub struct Tables {
            $(#[doc = concat!("Every ", $kind, ".")] pub $table: Table<$spec>),+
        }

        $(
            impl Stored for $spec {
                fn table(tables: &Tables) -> &Table<Self> {
                    &tables.$table
                }
                fn table_mut(tables: &mut Tables) -> &mut Table<Self> {
                    &mut tables.$table
                }
            }
        )+

        impl Tables {
            /// The object of that kind and name.
            pub fn get_any(&self, kind: Kind, name: &ObjectName) -> Option<AnyObject> {
                match kind {
                    $(Kind::$variant => self.$table.get(name).cloned().map(AnyObject::$variant)),+
                }
            }

            /// Whose version of an object is in force.
            pub fn owner_of(&self, key: &ObjectKey) -> Option<&Arc<Owner>> {
                match key.kind {
                    $(Kind::$variant => self.$table.owner(&key.name)),+
                }
            }

            /// Every object of a kind, by namespace, then name, then cluster.
            pub fn iter_any<'a>(&'a self, kind: Kind) -> Box<dyn Iterator<Item = AnyObject> + 'a> {
                match kind {
                    $(Kind::$variant => Box::new(self.$table.iter().cloned().map(AnyObject::$variant))),+
                }
            }

            /// How many objects of a kind there are.
            pub fn count(&self, kind: Kind) -> usize {
                match kind {
                    $(Kind::$variant => self.$table.len()),+
                }
            }

            /// Whether a namespace holds objects of a kind.
            pub fn has_namespace(&self, kind: Kind, namespace: &Namespace) -> bool {
                match kind {
                    $(Kind::$variant => self.$table.has_namespace(namespace)),+
                }
            }

            /// Whether a namespace holds very many objects of a kind.
            pub fn is_crowded(&self, kind: Kind, namespace: &Namespace) -> bool {
                match kind {
                    $(Kind::$variant => self.$table.is_crowded(namespace)),+
                }
            }

            /// The keys of every object of a namespace.
            pub(crate) fn keys_in(&self, namespace: &Namespace) -> Vec<ObjectKey> {
                let mut all = Vec::new();
                $(all.extend(self.$table.iter_in(namespace).map(|o| o.key()));)+
                all
            }

            /// Every namespace that holds objects of any kind.
            pub fn all_namespaces(&self) -> BTreeSet<&Namespace> {
                let mut all = BTreeSet::new();
                $(all.extend(self.$table.namespaces());)+
                all
            }

            /// Replaces or removes the object of a key, and tells `touched` of every index entry of the old and
            /// the new one.
            pub(crate) fn set_any(
                &mut self,
                key: &ObjectKey,
                winner: Option<(AnyObject, Arc<Owner>)>,
                touched: &mut dyn FnMut(ObjectIndex, &str, bool),
            ) {
                match key.kind {
                    $(Kind::$variant => set_typed::<$spec>(self, &key.name, winner, touched)),+
                }
            }
        }
    };
}

model::for_each_kind!(declare_tables);

fn set_typed<T: Stored>(
    tables: &mut Tables,
    name: &ObjectName,
    winner: Option<(AnyObject, Arc<Owner>)>,
    touched: &mut dyn FnMut(ObjectIndex, &str, bool),
) {
    let row = winner.and_then(|(object, owner)| {
        let object = <T as Kinded>::of(&object)?.clone();
        Some(Row { object, owner })
    });
    let table = T::table_mut(tables);
    let before = index_entries(table.get(name).map(|o| &**o));
    let after = index_entries(row.as_ref().map(|row| &*row.object));
    table.set(name, row, &before, &after);
    for entry in &before {
        let moved = after.binary_search(entry).is_err();
        touched(entry.index, &entry.value, moved);
    }
    for entry in after.iter().filter(|e| before.binary_search(e).is_err()) {
        touched(entry.index, &entry.value, true);
    }
}

/// Labels of connected proxies by namespace, each set of them once. Namespaces without proxies are not in it.
pub type Connected = RedBlackTreeMapSync<Namespace, Arc<BTreeSet<Labels>>>;

/// The whole input of generation at one revision. Clones share everything.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Counts the batches applied.
    pub revision: u64,
    /// Objects by kind.
    pub tables: Tables,
    /// Mesh-wide settings.
    pub settings: Arc<Settings>,
    /// Keys of token issuers that were fetched.
    pub keys: RedBlackTreeMapSync<KeySource, Arc<FetchedKeys>>,
    /// Wasm modules that were fetched.
    pub modules: RedBlackTreeMapSync<ModuleSource, Arc<FetchedModule>>,
    /// Addresses of names that were resolved.
    pub addresses: RedBlackTreeMapSync<Arc<str>, Arc<[IpAddr]>>,
    /// Certificates that were made for identities.
    pub certificates: RedBlackTreeMapSync<Arc<str>, Arc<WorkloadCertificate>>,
    /// Answers to reviews of access.
    pub access: RedBlackTreeMapSync<AccessKey, Arc<Access>>,
    /// The roots of the mesh's own authority.
    pub roots: Option<Arc<MeshRoots>>,
    /// What the options of an edge are read from beside their ConfigMap.
    pub edge_documents: Arc<EdgeDocuments>,
    /// Which Ingresses of remote clusters are served.
    pub remote_ingresses: Arc<RemoteIngresses>,
    /// Endpoints that registries told, by service.
    pub shards: RedBlackTreeMapSync<ServiceKey, Arc<ServiceShards>>,
    /// The identities that endpoints of services had, which count while these have none.
    pub identities: RedBlackTreeMapSync<ServiceKey, Arc<[Arc<str>]>>,
    /// Objects that several owners hold: all of them, the one whose version is in force first.
    pub contested: RedBlackTreeMapSync<ObjectKey, Arc<[Arc<Owner>]>>,
    /// The labels of the proxies that are connected, each set once. For analysis alone: in what is generated from it is
    /// empty.
    pub connected: Connected,
}

impl Snapshot {
    /// Puts an object in place of what has its key, or takes that away, and calls `touch` with every input that differs
    /// from now on; one may be named twice. Returns whether generation could see a difference: without one, nothing is
    /// touched.
    ///
    /// [`Store::apply`](crate::Store::apply) marks by it what to derive again. Taking an object out of a copy names the
    /// inputs that it is read through.
    pub fn replace(
        &mut self,
        key: &ObjectKey,
        new: Option<(AnyObject, Arc<Owner>)>,
        touch: &mut dyn FnMut(Input<'_>),
    ) -> bool {
        let kind = key.kind;
        let namespace = &key.name.namespace;
        let old = self.tables.get_any(kind, &key.name);
        let visible = match (&old, &new) {
            (None, None) => return false,
            (Some(a), Some((b, _))) => !a.means_the_same(b),
            _ => true,
        };
        let membership = old.is_some() != new.is_some();
        let had_namespace = self.tables.has_namespace(kind, namespace);
        let was_crowded = self.tables.is_crowded(kind, namespace);
        self.tables.set_any(key, new, &mut |index, value, moved| {
            if visible {
                touch(Input::IndexContents(kind, index, value));
                if moved {
                    touch(Input::IndexMembers(kind, index, value));
                }
            }
        });
        if !visible {
            return false;
        }
        touch(Input::Row(kind, &key.name));
        if kind.is_per_cluster() {
            touch(Input::Namesakes(kind, &key.name));
        }
        touch(Input::Contents(kind));
        touch(Input::ContentsIn(kind, namespace));
        if membership {
            touch(Input::Members(kind));
            touch(Input::MembersIn(kind, namespace));
        }
        if had_namespace != self.tables.has_namespace(kind, namespace) {
            touch(Input::Namespaces(kind));
        }
        if was_crowded != self.tables.is_crowded(kind, namespace) {
            touch(Input::Crowded(kind, namespace));
        }
        true
    }
}
