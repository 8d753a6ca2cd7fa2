//! What Ingresses are charged to the budget of their namespace: each path of each host becomes a route, each entry of `tls` a
//! server.

use std::collections::BTreeSet;

use model::budget::{ROUTE_BYTES, charge};
use model::kinds::kube::Ingress;
use model::{Namespace, ObjectName};

use super::limits;
use super::rules::RulesOf;
use crate::budget::{Charge, outside};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What an entry of `tls` is charged: a filter chain.
const SERVER_BYTES: usize = 4 << 10;

/// Whether nothing of the namespace's budget is left for an Ingress. Who pays nothing does not depend on what others pay.
pub(super) fn is_over(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> bool {
    read.derived(IngressCharge(ingress.clone())).bytes > 0
        && read
            .derived(IngressesOver(ingress.namespace.clone()))
            .contains(ingress)
}

/// The Ingresses of a namespace that are over its budget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IngressesOver(Namespace);

impl Derive for IngressesOver {
    type Stratum = Routes;
    type Value = BTreeSet<ObjectName>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let names = read.names_in::<Ingress>(&self.0).into_iter();
        let charges = names.map(|name| (name.clone(), *read.derived(IngressCharge(name))));
        outside(read, charges)
    }
}

/// What an Ingress is charged; nothing where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IngressCharge(ObjectName);

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
