//! What Ingresses are charged to the budget of their namespace: each path of each host becomes a route, each entry of `tls` a
//! server.

use model::ObjectName;
use model::budget::{ROUTE_BYTES, charge};
use model::kinds::kube::Ingress;

use super::limits;
use super::rules::RulesOf;
use crate::budget::{self, Charge, Charging};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What an entry of `tls` is charged: a filter chain.
const SERVER_BYTES: usize = 4 << 10;

/// Whether nothing of the namespace's budget is left for an Ingress.
pub(super) fn is_over(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> bool {
    budget::is_over::<IngressCharge>(read, ingress)
}

/// What an Ingress is charged; nothing where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IngressCharge(ObjectName);

impl Charging for IngressCharge {
    type Spec = Ingress;

    fn of(object: ObjectName) -> Self {
        Self(object)
    }
}

impl Derive for IngressCharge {
    type Stratum = Routes;
    type Value = Charge;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Charge {
        let rules = read.derived(RulesOf(self.0.clone()));
        let Some(rules) = rules.as_ref().as_ref().filter(|rules| !rules.is_refused) else {
            return Charge::default();
        };
        let routes = rules
            .paths()
            .saturating_mul(ROUTE_BYTES + limits::ROUTE_BYTES);
        let servers = rules.servers.saturating_mul(SERVER_BYTES);
        Charge {
            created: rules.created,
            bytes: charge(routes.saturating_add(servers), || {
                read.is_crowded::<Ingress>(&self.0.namespace)
            }),
        }
    }
}
