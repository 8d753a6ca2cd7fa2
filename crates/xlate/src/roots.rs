//! The queries that streams hold alive: one for each view and type.

use std::sync::Arc;

use incr::{Cx, Query};
use model::node::Role;
use store::Snapshot;

use crate::{clusters, ecds, endpoints, listeners, name_table, routes, secrets};
use mesh::view::View;
use xds::ResourceSet;
use xds::TypeUrl;

/// Every resource of one type that proxies of a view may ask for.
///
/// For endpoints and routes that is what the view's clusters and listeners name; streams send the names subscribed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TypeSet {
    /// For whom.
    pub view: Arc<View>,
    /// What.
    pub ty: TypeUrl,
}

impl Query<Snapshot> for TypeSet {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        match generator(self.view.role, self.ty) {
            Some(generate) => generate(cx, &self.view),
            None => ResourceSet::default(),
        }
    }
}

/// Makes every resource of a type for the proxies of a view.
type Generator = fn(&Cx<'_, Snapshot>, &Arc<View>) -> ResourceSet;

/// What serves a type to proxies of a role; `None` where such proxies get nothing of the type.
fn generator(role: Role, ty: TypeUrl) -> Option<Generator> {
    Some(match (role, ty) {
        (Role::Sidecar | Role::Router, TypeUrl::Cluster) => clusters::set,
        (Role::Sidecar | Role::Router, TypeUrl::Endpoint) => endpoints::set,
        (Role::Sidecar, TypeUrl::Listener) => listeners::of_sidecar,
        (Role::Router, TypeUrl::Listener) => listeners::of_gateway,
        (Role::Sidecar, TypeUrl::Route) => routes::of_sidecar,
        (Role::Router, TypeUrl::Route) => routes::of_gateway,
        (Role::Sidecar | Role::Router, TypeUrl::NameTable) => name_table::set,
        (Role::Sidecar | Role::Router, TypeUrl::Secret) => secrets::set,
        (Role::Sidecar | Role::Router, TypeUrl::Extension) => ecds::set,
        (Role::Waypoint | Role::Ztunnel, _) => return None,
    })
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
    match types.any(|ty| generator(role, ty).is_some()) {
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
            assert!(
                TypeUrl::ALL
                    .into_iter()
                    .all(|ty| generator(role, ty).is_some())
            );
        }
        for role in [Role::Waypoint, Role::Ztunnel] {
            let refused = supported(role).expect_err("nothing is generated for it");
            assert!(refused.to_string().starts_with(role.as_str()), "{refused}");
        }
    }
}
