//! What a translator sees of the snapshot: recorded reads of kinds that are made before it, and nothing else.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use incr::{Cx, Query};
use model::edge::RemoteIngresses;
use model::settings::Settings;
use model::{Namespace, Object, ObjectName};
use store::index::ObjectIndex;
use store::{Reads, Snapshot};

use crate::strata::{Before, Layered};

/// One derivation of a translator: a pure function of itself and of what it reads. Its result is remembered, and
/// derived again only when something that it read has changed.
pub trait Derive: Clone + Eq + Hash + Debug + Send + Sync + 'static {
    /// The stratum of the translator.
    type Stratum: Debug + Send + Sync + 'static;
    /// What it derives. Equality decides whether what depends on it is derived again.
    type Value: PartialEq + Send + Sync + 'static;

    /// Derives the value.
    fn derive(&self, read: &Reader<'_, '_, Self::Stratum>) -> Self::Value;
}

/// A derivation as a query of the engine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Derivation<D>(pub(crate) D);

impl<D: Derive> Query<Snapshot> for Derivation<D> {
    type Value = D::Value;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> D::Value {
        self.0.derive(&Reader {
            cx,
            stratum: PhantomData,
        })
    }
}

/// Recorded reads for translators of stratum `S`.
pub struct Reader<'a, 'b, S> {
    cx: &'a Cx<'b, Snapshot>,
    stratum: PhantomData<S>,
}

impl<S: Debug + Send + Sync + 'static> Reader<'_, '_, S> {
    /// One object; its absence is recorded too.
    pub fn get<T: Layered>(&self, name: &ObjectName) -> Option<Arc<Object<T>>>
    where
        T::MadeIn: Before<S>,
    {
        self.cx.get(name)
    }

    /// The objects of a name in all clusters, that of the configured one first.
    pub fn namesakes<T: Layered>(&self, name: &ObjectName) -> Vec<Arc<Object<T>>>
    where
        T::MadeIn: Before<S>,
    {
        self.cx.namesakes(name)
    }

    /// Every object with that index value, by name.
    pub fn list_by<T: Layered>(&self, index: ObjectIndex, value: &str) -> Vec<Arc<Object<T>>>
    where
        T::MadeIn: Before<S>,
    {
        self.cx.list_by(index, value)
    }

    /// The names of the objects with that index value, sorted.
    pub fn names_by<T: Layered>(&self, index: ObjectIndex, value: &str) -> Vec<ObjectName>
    where
        T::MadeIn: Before<S>,
    {
        self.cx.names_by::<T>(index, value)
    }

    /// The names of the objects of a namespace, sorted.
    pub fn names_in<T: Layered>(&self, namespace: &Namespace) -> Vec<ObjectName>
    where
        T::MadeIn: Before<S>,
    {
        self.cx.names_in::<T>(namespace)
    }

    /// The namespaces that hold objects of a kind, in any cluster, sorted.
    pub fn namespaces<T: Layered>(&self) -> Vec<Namespace>
    where
        T::MadeIn: Before<S>,
    {
        self.cx.namespaces::<T>()
    }

    /// Whether a namespace holds so many objects of a kind that small ones are charged to its budget as well.
    pub fn is_crowded<T: Layered>(&self, namespace: &Namespace) -> bool
    where
        T::MadeIn: Before<S>,
    {
        self.cx.is_crowded::<T>(namespace)
    }

    /// Mesh config and features.
    pub fn settings(&self) -> &Settings {
        self.cx.settings()
    }

    /// Which Ingresses of remote clusters are served.
    pub fn remote_ingresses(&self) -> Arc<RemoteIngresses> {
        self.cx.remote_ingresses()
    }

    /// Another derivation of the same stratum.
    pub fn derived<D: Derive<Stratum = S>>(&self, derivation: D) -> Arc<D::Value> {
        self.cx.query(&Derivation(derivation))
    }
}
