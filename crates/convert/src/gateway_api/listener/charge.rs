//! What Gateways and ListenerSets are charged to the budget of their namespace: each listener becomes an Istio Gateway, a
//! listener or filter chain of proxies with its own configuration of routes, and a part of a status.

use std::collections::BTreeSet;

use model::budget::rounded;
use model::kinds::gateway_api::{Gateway, ListenerSet};
use model::{Kind, Namespace, ObjectKey, ObjectName};

use super::owner::{Owner, controller_of};
use crate::budget::{Charge, outside};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What a listener is charged.
const LISTENER_BYTES: usize = 8 << 10;

/// Whether nothing of the namespace's budget is left for a Gateway or ListenerSet.
pub(super) fn is_over(read: &Reader<'_, '_, Routes>, object: &ObjectKey) -> bool {
    let over = ListenersOver {
        kind: object.kind,
        namespace: object.name.namespace.clone(),
    };
    read.derived(over).contains(&object.name)
}

/// The Gateways, or ListenerSets, of a namespace that are over its budget: none of their listeners is served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ListenersOver {
    kind: Kind,
    namespace: Namespace,
}

impl Derive for ListenersOver {
    type Stratum = Routes;
    type Value = BTreeSet<ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let names = match self.kind {
            Kind::KubeGateway => read.names_in::<Gateway>(&self.namespace),
            _ => read.names_in::<ListenerSet>(&self.namespace),
        };
        let charges = names.into_iter().map(|name| {
            let object = ObjectKey {
                kind: self.kind,
                name: name.clone(),
            };
            (name, *read.derived(ListenersCharge(object)))
        });
        outside(read, charges)
    }
}

/// What a Gateway or ListenerSet is charged, from its first listener; nothing where it is not ours.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ListenersCharge(ObjectKey);

impl Derive for ListenersCharge {
    type Stratum = Routes;
    type Value = Charge;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Charge {
        let owner = Owner::find(read, &self.0);
        let Some(owner) = owner.filter(|o| controller_of(read, o.gateway()).is_some()) else {
            return Charge::default();
        };
        let (created, listeners) = match &owner {
            Owner::Gateway(gateway) => (gateway.meta.created, gateway.spec.listeners.len()),
            Owner::Set(set, _) => (set.meta.created, set.spec.listeners.len()),
        };
        Charge {
            created,
            bytes: rounded(listeners.saturating_mul(LISTENER_BYTES)),
        }
    }
}
