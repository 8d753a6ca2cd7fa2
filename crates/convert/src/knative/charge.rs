//! What Ingresses are charged to the budget of their namespace: each path of each host is a route, and one more for probes.

use model::budget::{ROUTE_BYTES, charge};
use model::kinds::knative::Ingress;
use model::{Age, Diagnostic, ObjectName};

use super::key;
use super::rules::RulesOf;
use crate::budget::{self, Charge, Charging};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// Whether nothing of the namespace's budget is left for an Ingress.
pub(super) fn is_over(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> bool {
    budget::is_over::<IngressCharge>(read, ingress)
}

/// What is reported of an Ingress that is over the budget.
pub(super) fn excess(ingress: &ObjectName) -> Diagnostic {
    budget::finding_of(&key(ingress), "spec.rules")
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
        let Some(rules) = rules.as_ref() else {
            return Charge::default();
        };
        let made = rules.by_place.values().map(|rules| {
            let routes = rules.paths.len().saturating_mul(2 * ROUTE_BYTES);
            rules.weight.saturating_add(routes)
        });
        let first = rules.by_place.values().next();
        Charge {
            created: first.map_or_else(Age::default, |rules| rules.created),
            bytes: charge(made.fold(0, usize::saturating_add), || {
                read.is_crowded::<Ingress>(&self.0.namespace)
            }),
        }
    }
}
