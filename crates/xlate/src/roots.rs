//! The queries that streams hold alive: one for each type and key of that type.

use incr::{Cx, Query};
use model::node::Role;
use store::Snapshot;
use xds::{ResourceSet, TypeUrl};

use crate::clusters::ClustersOf;
use crate::ecds::ExtensionConfigsOf;
use crate::endpoints::EndpointsOfClient;
use crate::filled::{Reader, filled};
use crate::grpc::GrpcClusters;
use crate::hashed::Hashed;
use crate::listeners::ListenersOf;
use crate::name_table::NameTableOf;
use crate::routes::RoutesOf;
use crate::secrets::SecretsOf;
use crate::trust_bundle::TrustBundleOf;

/// Every resource of one type that proxies which agree in the key of that type may ask for.
///
/// For endpoints and routes that is what the proxies' clusters and listeners name; streams send the names subscribed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum TypeSet {
    /// Clusters.
    Clusters(Hashed<ClustersOf>, Reader),
    /// Clusters of gRPC libraries.
    GrpcClusters(GrpcClusters),
    /// Endpoints.
    Endpoints(Hashed<EndpointsOfClient>),
    /// Listeners.
    Listeners(Hashed<ListenersOf>, Reader),
    /// Route configurations.
    Routes(Hashed<RoutesOf>, Reader),
    /// The DNS name table.
    NameTable(Hashed<NameTableOf>),
    /// Secrets.
    Secrets(Hashed<SecretsOf>),
    /// Extension configurations.
    Extensions(Hashed<ExtensionConfigsOf>, Reader),
    /// The roots that agents trust.
    TrustBundle(TrustBundleOf),
    /// Nothing of the type: see [`generated`].
    Nothing(TypeUrl),
}

impl TypeSet {
    /// Of which type it is.
    pub fn ty(&self) -> TypeUrl {
        match self {
            Self::Clusters(..) | Self::GrpcClusters(_) => TypeUrl::Cluster,
            Self::Endpoints(_) => TypeUrl::Endpoint,
            Self::Listeners(..) => TypeUrl::Listener,
            Self::Routes(..) => TypeUrl::Route,
            Self::NameTable(_) => TypeUrl::NameTable,
            Self::Secrets(_) => TypeUrl::Secret,
            Self::Extensions(..) => TypeUrl::Extension,
            Self::TrustBundle(_) => TypeUrl::ProxyConfig,
            Self::Nothing(ty) => *ty,
        }
    }
}

impl Query<Snapshot> for TypeSet {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        // Route configurations are judged in parts, and what is closed keeps its name.
        let made = (*cx.query(&Made(self.clone()))).clone();
        made.without_long_names()
    }
}

/// What is made of a type, with resources that no stream may be asked for: what was found of these is reported all the same.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Made(pub(crate) TypeSet);

impl Query<Snapshot> for Made {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let (set, reader) = match &self.0 {
            TypeSet::Clusters(key, reader) => (key.set(cx), reader),
            TypeSet::Listeners(key, reader) => (key.set(cx), reader),
            TypeSet::Routes(key, reader) => (key.set(cx), reader),
            TypeSet::Extensions(key, reader) => (key.set(cx), reader),
            // Values have no place in what follows.
            TypeSet::GrpcClusters(key) => ((*cx.query(key)).clone(), &Reader::Anybody),
            TypeSet::Endpoints(key) => (key.set(cx), &Reader::Anybody),
            TypeSet::NameTable(key) => (key.set(cx), &Reader::Anybody),
            TypeSet::Secrets(key) => (key.set(cx), &Reader::Anybody),
            TypeSet::TrustBundle(key) => (key.set(cx), &Reader::Anybody),
            TypeSet::Nothing(_) => return ResourceSet::default(),
        };
        filled(cx, self.0.ty(), set, reader)
    }
}

/// Whether anything of a type is generated for proxies of a role.
pub(crate) fn generated(role: Role, ty: TypeUrl) -> bool {
    match (role, ty) {
        (
            Role::Sidecar | Role::Router,
            TypeUrl::Cluster
            | TypeUrl::Endpoint
            | TypeUrl::Listener
            | TypeUrl::Route
            | TypeUrl::NameTable
            | TypeUrl::Secret
            | TypeUrl::Extension
            | TypeUrl::ProxyConfig,
        ) => true,
        (Role::Waypoint | Role::Ztunnel, _) => false,
    }
}

/// A proxy is of a kind of which nothing can be generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} proxies are not supported yet; sidecars and gateways (role router) are")]
pub struct UnsupportedRole(pub Role);

/// Whether proxies of a role are served anything.
///
/// # Errors
///
/// When there is nothing that they can be sent.
pub fn supported(role: Role) -> Result<(), UnsupportedRole> {
    let mut types = TypeUrl::ALL.into_iter();
    match types.any(|ty| generated(role, ty)) {
        true => Ok(()),
        false => Err(UnsupportedRole(role)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_served_every_type_or_refused_by_name() {
        for role in [Role::Sidecar, Role::Router] {
            assert_eq!(supported(role), Ok(()));
            assert!(TypeUrl::ALL.into_iter().all(|ty| generated(role, ty)));
        }
        for role in [Role::Waypoint, Role::Ztunnel] {
            let refused = supported(role).expect_err("nothing is generated for it");
            assert!(refused.to_string().starts_with(role.as_str()), "{refused}");
        }
    }
}
