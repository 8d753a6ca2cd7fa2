//! Which Gateways a backend is reached through.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::gateway_api::{
    Gateway, GrpcRoute, HttpRoute, ListenerSet, ParentRef, TcpRoute, TlsRoute, UdpRoute,
};
use model::{Kind, Namespace, ObjectKey, ObjectName};
use store::index::{ObjectIndex, reference_value};

use super::super::class::ClassOf;
use super::super::route::{WrittenRoute, of_any_kind_by, with_route_type};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The Gateways of ours that routes to a backend name as parents, themselves or through a ListenerSet; sorted.
///
/// Istio: pilot/pkg/config/kube/gateway/route_collections.go extractAncestorBackends, 1.32, where ListenerSets and the
/// class do not count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in super::super) struct GatewaysOf(pub ObjectKey);

impl Derive for GatewaysOf {
    type Stratum = Routes;
    type Value = Vec<ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let mut gateways = BTreeSet::new();
        for route in of_any_kind_by(read, ObjectIndex::Target, &reference_value(&self.0)) {
            gateways.extend(read.derived(GatewaysOfRoute(route)).iter().cloned());
        }
        let ours = gateways
            .into_iter()
            .filter(|gateway| *read.derived(IsOurs(gateway.clone())));
        ours.collect()
    }
}

/// The Gateways that a route names; a query, so that what else is edited of routes ends here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GatewaysOfRoute(ObjectKey);

impl Derive for GatewaysOfRoute {
    type Stratum = Routes;
    type Value = BTreeSet<ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        with_route_type!(self.0.kind, gateways(read, &self.0), BTreeSet::new())
    }
}

fn gateways<T: WrittenRoute>(
    read: &Reader<'_, '_, Routes>,
    key: &ObjectKey,
) -> BTreeSet<ObjectName> {
    let route = read.get::<T>(&key.name);
    let refs = route.iter().flat_map(|route| route.spec.parent_refs());
    let namespace = &key.name.namespace;
    refs.filter_map(|parent| gateway_of(read, namespace, parent))
        .collect()
}

/// The Gateway of a parent, or that a ListenerSet adds to.
fn gateway_of(
    read: &Reader<'_, '_, Routes>,
    namespace: &Namespace,
    parent: &ParentRef,
) -> Option<ObjectName> {
    let parent = parent.key(namespace)?;
    match parent.kind {
        Kind::KubeGateway => Some(parent.name),
        Kind::ListenerSet => {
            let set = read.get::<ListenerSet>(&parent.name)?;
            Some(set.spec.parent_ref.key(set.namespace())?.name)
        }
        _ => None,
    }
}

/// Whether a Gateway is there and of a class of ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IsOurs(ObjectName);

impl Derive for IsOurs {
    type Stratum = Routes;
    type Value = bool;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> bool {
        let Some(gateway) = read.get::<Gateway>(&self.0) else {
            return false;
        };
        let class: Arc<str> = gateway.spec.gateway_class_name.clone();
        read.derived(ClassOf(class)).is_some()
    }
}
