//! What generation knows of a proxy: a key for each type. Proxies with equal keys share the derived set.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use incr::{Cx, Query, keyed_hash};
use mesh::proxy::Traits;
use mesh::view::ProxyKey;
use model::labels::Labels;
use model::names::Namespace;
use model::node::Role;
use store::Snapshot;
use xds::TypeUrl;

use crate::clusters::ClustersOf;
use crate::ecds::ExtensionConfigsOf;
use crate::endpoints::EndpointsOfClient;
use crate::findings::FindingsOfView;
use crate::listeners::ListenersOf;
use crate::name_table::NameTableOf;
use crate::roots::{TypeSet, generated};
use crate::routes::RoutesOf;
use crate::secrets::SecretsOf;

/// What proxies with equal keys for every type get: a key for each. Nothing else is known of them below here; each key says
/// what it lets in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    /// Role.
    pub role: Role,
    /// Namespace.
    pub namespace: Namespace,
    /// What decides their clusters.
    pub(crate) clusters: Hashed<ClustersOf>,
    /// What decides their endpoints.
    pub(crate) endpoints: Hashed<EndpointsOfClient>,
    /// What decides their listeners.
    pub(crate) listeners: Hashed<ListenersOf>,
    /// What decides their routes.
    pub(crate) routes: Hashed<RoutesOf>,
    /// What decides the names that they resolve.
    pub(crate) names: Hashed<NameTableOf>,
    /// What decides their secrets.
    pub(crate) secrets: Hashed<SecretsOf>,
    /// What decides the configurations of their extensions.
    pub(crate) extensions: Hashed<ExtensionConfigsOf>,
}

impl View {
    /// The view of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let routes = RoutesOf::of(cx, proxy);
        Self {
            role: proxy.node.role,
            namespace: proxy.namespace().clone(),
            clusters: Hashed::shared(cx, ClustersOf::of(cx, proxy)),
            endpoints: Hashed::shared(cx, EndpointsOfClient::of(cx, proxy)),
            listeners: Hashed::shared(cx, ListenersOf::of(cx, proxy, &routes)),
            routes: Hashed::shared(cx, routes),
            names: Hashed::shared(cx, NameTableOf::of(cx, proxy)),
            secrets: Hashed::shared(cx, SecretsOf::of(cx, proxy)),
            extensions: Hashed::shared(cx, ExtensionConfigsOf::of(cx, proxy)),
        }
    }

    /// The query for the resources of a type.
    pub fn set(&self, ty: TypeUrl) -> TypeSet {
        if !generated(self.role, ty) {
            return TypeSet::Nothing(ty);
        }
        match ty {
            TypeUrl::Cluster => TypeSet::Clusters(self.clusters.clone()),
            TypeUrl::Endpoint => TypeSet::Endpoints(self.endpoints.clone()),
            TypeUrl::Listener => TypeSet::Listeners(self.listeners.clone()),
            TypeUrl::Route => TypeSet::Routes(self.routes.clone()),
            TypeUrl::NameTable => TypeSet::NameTable(self.names.clone()),
            TypeUrl::Secret => TypeSet::Secrets(self.secrets.clone()),
            TypeUrl::Extension => TypeSet::Extensions(self.extensions.clone()),
        }
    }

    /// The query for what is wrong with what its proxies get.
    pub fn findings(&self) -> FindingsOfView {
        FindingsOfView {
            clusters: self.clusters.clone(),
            listeners: self.listeners.clone(),
            routes: self.routes.clone(),
            identity: self.secrets.identity.clone(),
        }
    }
}

/// A part of a key that is looked up far more often than it is made: its hash is taken once. Nothing in it can be changed,
/// so the hash stays right.
#[derive(Debug)]
pub struct Hashed<T>(Arc<WithHash<T>>);

#[derive(Debug)]
struct WithHash<T> {
    /// Over all of the value, with the key of the process: whoever picks what is in it cannot make values collide.
    hash: u64,
    value: T,
}

impl<T: Hash> Hashed<T> {
    /// A value with its hash.
    pub fn new(value: T) -> Self {
        let hash = keyed_hash(&value);
        Self(Arc::new(WithHash { hash, value }))
    }
}

impl<T: Eq + Hash + fmt::Debug + Send + Sync + 'static> Hashed<T> {
    /// The one in memory that all who ask for an equal value hold.
    pub(crate) fn shared(cx: &Cx<'_, Snapshot>, value: T) -> Self {
        (*cx.query(&TheOne(Self::new(value)))).clone()
    }
}

/// Gives the key that was asked for first among equal ones.
#[derive(PartialEq, Eq, Debug)]
struct TheOne<T>(Hashed<T>);

impl<T> Hash for TheOne<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> Clone for TheOne<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Eq + Hash + fmt::Debug + Send + Sync + 'static> Query<Snapshot> for TheOne<T> {
    type Value = Hashed<T>;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> Hashed<T> {
        self.0.clone()
    }
}

impl<T> Clone for Hashed<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.hash == other.0.hash && self.0.value == other.0.value
    }
}

impl<T: Eq> Eq for Hashed<T> {}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// The view of a connected proxy. Reads the services its addresses serve, so a proxy moves to another view when they
/// change.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewOf(pub ProxyKey);

/// What became of a proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Viewed {
    /// What decides all that it gets.
    pub view: Arc<View>,
    /// The labels of its workload, for analysis; generation knows those that something reads.
    pub labels: Labels,
}

impl Query<Snapshot> for ViewOf {
    type Value = Viewed;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Viewed {
        let traits = Traits::of(cx, self.0.node());
        let view = cx.query(&OneView(View::of(cx, &traits)));
        Viewed {
            view,
            labels: traits.labels,
        }
    }
}

/// Gives all proxies of a view the same one in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OneView(View);

impl Query<Snapshot> for OneView {
    type Value = View;

    fn eval(&self, _: &Cx<'_, Snapshot>) -> View {
        self.0.clone()
    }
}
