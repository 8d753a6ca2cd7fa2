//! The queries that streams hold alive: one for each type and key of that type.

use incr::{Cx, Query};
use store::Snapshot;
use xds::{ResourceSet, TypeUrl};

use crate::clusters::ClustersOf;
use crate::ecds::ExtensionConfigsOf;
use crate::endpoints::EndpointsOfClient;
use crate::listeners::ListenersOf;
use crate::name_table::NameTableOf;
use crate::routes::RoutesOf;
use crate::secrets::SecretsOf;
use crate::view::Hashed;

/// Every resource of one type that proxies which agree in the key of that type may ask for.
///
/// For endpoints and routes that is what the proxies' clusters and listeners name; streams send the names subscribed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TypeSet {
    /// Clusters.
    Clusters(Hashed<ClustersOf>),
    /// Endpoints.
    Endpoints(Hashed<EndpointsOfClient>),
    /// Listeners.
    Listeners(Hashed<ListenersOf>),
    /// Route configurations.
    Routes(Hashed<RoutesOf>),
    /// The DNS name table.
    NameTable(Hashed<NameTableOf>),
    /// Secrets.
    Secrets(Hashed<SecretsOf>),
    /// Extension configurations.
    Extensions(Hashed<ExtensionConfigsOf>),
}

impl TypeSet {
    /// Of which type it is.
    pub fn ty(&self) -> TypeUrl {
        match self {
            Self::Clusters(_) => TypeUrl::Cluster,
            Self::Endpoints(_) => TypeUrl::Endpoint,
            Self::Listeners(_) => TypeUrl::Listener,
            Self::Routes(_) => TypeUrl::Route,
            Self::NameTable(_) => TypeUrl::NameTable,
            Self::Secrets(_) => TypeUrl::Secret,
            Self::Extensions(_) => TypeUrl::Extension,
        }
    }
}

impl Query<Snapshot> for TypeSet {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        match self {
            Self::Clusters(key) => key.set(cx),
            Self::Endpoints(key) => key.set(cx),
            Self::Listeners(key) => key.set(cx),
            Self::Routes(key) => key.set(cx),
            Self::NameTable(key) => key.set(cx),
            Self::Secrets(key) => key.set(cx),
            Self::Extensions(key) => key.set(cx),
        }
    }
}
