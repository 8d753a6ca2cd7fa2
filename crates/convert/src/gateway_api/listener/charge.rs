//! What Gateways and ListenerSets are charged to the budget of their namespace: each listener becomes an Istio Gateway, a
//! listener or filter chain of proxies with its own configuration of routes, and a part of a status.

use model::budget::rounded;
use model::kinds::gateway_api::{Gateway, ListenerSet};
use model::{Kind, ObjectKey, ObjectName};

use super::owner::{Owner, controller_of};
use crate::budget::{self, Charge, Charging};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What a listener is charged.
const LISTENER_BYTES: usize = 8 << 10;

/// Whether nothing of the namespace's budget is left for a Gateway or ListenerSet: none of its listeners is served.
pub(super) fn is_over(read: &Reader<'_, '_, Routes>, object: &ObjectKey) -> bool {
    match object.kind {
        Kind::KubeGateway => budget::is_over::<GatewayCharge>(read, &object.name),
        _ => budget::is_over::<ListenerSetCharge>(read, &object.name),
    }
}

/// What a Gateway is charged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct GatewayCharge(ObjectName);

/// What a ListenerSet is charged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ListenerSetCharge(ObjectName);

macro_rules! charges {
    ($($charge:ident: $kind:expr, $spec:ty;)+) => {$(
        impl Charging for $charge {
            type Spec = $spec;

            fn of(object: ObjectName) -> Self {
                Self(object)
            }
        }

        impl Derive for $charge {
            type Stratum = Routes;
            type Value = Charge;

            fn derive(&self, read: &Reader<'_, '_, Routes>) -> Charge {
                let (kind, name) = ($kind, self.0.clone());
                charge(read, &ObjectKey { kind, name })
            }
        }
    )+};
}

charges! {
    GatewayCharge: Kind::KubeGateway, Gateway;
    ListenerSetCharge: Kind::ListenerSet, ListenerSet;
}

/// What an object is charged for its listeners, from the first; nothing where it is not ours.
fn charge(read: &Reader<'_, '_, Routes>, object: &ObjectKey) -> Charge {
    let owner = Owner::find(read, object);
    let Some(owner) = owner.filter(|o| controller_of(read, o.gateway()).is_some()) else {
        return Charge::default();
    };
    let (meta, listeners) = owner.listeners();
    Charge {
        created: meta.created,
        bytes: rounded(listeners.len().saturating_mul(LISTENER_BYTES)),
    }
}
