//! What Ingresses are charged to the budget of their namespace: each path of each host has all that annotations say, and each
//! canary of a path all that its base says.

use std::collections::BTreeMap;
use std::sync::Arc;

use annotations::{HeaderValue, Takes};
use model::budget::{CLUSTER_BYTES, Charged, over as over_budget};
use model::edge::{EdgeRoute, Rpc};
use model::kinds::kube::Ingress;
use model::{Namespace, ObjectName};
use prost::Message;

use super::annotated::AnnotatedBy;
use super::policy::{Policy, PolicyOf};
use super::rules::RulesOf;
use super::tls::IngressesOf;
use super::{elsewhere, limits};
use crate::budget::{Charge, outside};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// What a range of addresses takes of a route.
const RANGE_BYTES: usize = 48;

/// The Ingresses of a namespace that are over its budget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IngressesOver(Namespace);

/// What is closed of an Ingress that is over the budget, if it protects something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// Each of its paths.
    Paths,
    /// What its namespace has on its hosts: there is no room for routes of its paths.
    Hosts,
}

/// Whether nothing of the namespace's budget is left for an Ingress. Who pays nothing does not depend on what others pay.
pub(super) fn is_over(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> bool {
    left(read, ingress).is_some()
}

/// What remains of an Ingress for which nothing of the budget is left; none where something is.
pub(super) fn left(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> Option<Left> {
    if read.derived(IngressCharge(ingress.clone())).bytes == 0 {
        return None;
    }
    let over = read.derived(IngressesOver(ingress.namespace.clone()));
    over.get(ingress).copied()
}

/// What an Ingress is charged; nothing where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct IngressCharge(ObjectName);

/// What the annotations of an Ingress add to each of its routes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RouteWeight(ObjectName);

impl Derive for IngressesOver {
    type Stratum = Routes;
    type Value = Arc<BTreeMap<ObjectName, Left>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let names = read.names_in::<Ingress>(&self.0).into_iter();
        let charges = names.map(|name| (name.clone(), *read.derived(IngressCharge(name))));
        let over = outside(read, charges).into_iter();
        let paths = over.map(|name| {
            let rules = read.derived(RulesOf(name.clone()));
            let rules = rules.as_ref().as_ref();
            let paths = rules.map_or(0, |rules| {
                rules.by_host().map(|(_, r)| r.paths.len()).sum::<usize>()
            });
            Charged {
                created: rules.map(|rules| rules.created()).unwrap_or_default(),
                name,
                bytes: usize::saturating_mul(paths, limits::ROUTE_BYTES),
            }
        });
        let paths: Vec<Charged> = paths.collect();
        let without = over_budget(limits::CLOSED_NAMESPACE_BYTES, paths.clone(), |_| 0);
        let left = paths
            .into_iter()
            .map(|of| match without.contains(&of.name) {
                true => (of.name, Left::Hosts),
                false => (of.name, Left::Paths),
            });
        Arc::new(left.collect())
    }
}

impl Derive for IngressCharge {
    type Stratum = Routes;
    type Value = Charge;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Charge {
        let annotated = read.derived(AnnotatedBy(self.0.clone()));
        let rules = read.derived(RulesOf(self.0.clone()));
        let (Some(annotated), Some(rules)) = (annotated.as_ref(), rules.as_ref()) else {
            return Charge::default();
        };
        let own = *read.derived(RouteWeight(self.0.clone()));
        let canary = annotated.annotations.canary.as_ref();
        let made = rules.by_host().map(|(host, rules)| {
            let each = match canary {
                None => own,
                Some(canary) => {
                    let base = heaviest_base(read, host, &self.0.namespace).saturating_add(own);
                    let routes = canary.takes.iter().map(routes_of);
                    base.saturating_mul(routes.sum())
                }
            };
            each.saturating_mul(rules.paths.len())
        });
        let clusters = clusters(read, &self.0).saturating_mul(CLUSTER_BYTES);
        Charge {
            created: rules.created(),
            bytes: model::budget::charge(made.fold(clusters, usize::saturating_add), || {
                read.is_crowded::<Ingress>(&self.0.namespace)
            }),
        }
    }
}

/// How many clusters gateways have because of an Ingress: those of external names that its paths lead to, for each port, and that of
/// a service outside which is asked about its requests.
fn clusters(read: &Reader<'_, '_, Routes>, ingress: &ObjectName) -> usize {
    let policy = read.derived(PolicyOf(ingress.clone()));
    let asks_outside = policy.as_ref().as_ref().is_some_and(|policy| {
        let asked = policy.asked.as_ref();
        let behind_host = asked.is_some_and(|asked| asked.is_secure && asked.host.is_some());
        behind_host
            || policy
                .edge
                .external
                .as_ref()
                .is_some_and(|external| external.tls)
    });
    let Some(object) = read.get::<Ingress>(ingress) else {
        return usize::from(asks_outside);
    };
    let services = object.spec.services().into_iter();
    let of_names = services.map(|service| {
        let service = ObjectName::new(ingress.namespace.clone(), service.clone());
        elsewhere::clusters(read, &service.in_cluster(ingress.cluster.as_ref()))
    });
    of_names.fold(usize::from(asks_outside), usize::saturating_add)
}

impl Derive for RouteWeight {
    type Stratum = Routes;
    type Value = usize;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> usize {
        let annotated = read.derived(AnnotatedBy(self.0.clone()));
        let policy = read.derived(PolicyOf(self.0.clone()));
        let (Some(annotated), Some(policy)) = (annotated.as_ref(), policy.as_ref()) else {
            return 0;
        };
        let destinations = annotated.annotations.backend.destinations.len();
        let destinations = destinations.saturating_mul(limits::DESTINATION_BYTES);
        model::budget::ROUTE_BYTES + weight(policy) + destinations
    }
}

/// What a policy adds to each route.
fn weight(policy: &Policy) -> usize {
    let EdgeRoute {
        users,
        rpc,
        addresses,
        limits,
        ..
    } = &policy.edge;
    let users = users.as_ref().map_or(0, |users| users.lines.len());
    let calls = rpc.as_ref().map_or(0, Rpc::bytes);
    let ranges = addresses.as_ref().map_or(0, |rules| {
        rules.allowed.len().saturating_add(rules.denied.len())
    });
    let ranges = limits
        .iter()
        .fold(ranges, |sum, limit| sum + limit.except.len());
    policy.route.encoded_len() + users + calls + ranges * RANGE_BYTES
}

/// The most that a rule of the namespace about a host adds to each of its routes, which canaries of it repeat.
fn heaviest_base(read: &Reader<'_, '_, Routes>, host: &Arc<str>, namespace: &Namespace) -> usize {
    let ingresses = read.derived(IngressesOf(host.clone()));
    let bases = ingresses.all().iter().filter(|(name, rules)| {
        name.namespace == *namespace && rules.annotated.annotations.canary.is_none()
    });
    let weights = bases.map(|(name, _)| *read.derived(RouteWeight(name.clone())));
    weights.max().unwrap_or(0)
}

/// How many routes a canary has for each path of what it takes: requests that are told to stay have one as well.
fn routes_of(takes: &Takes) -> usize {
    match takes {
        Takes::Weight { .. } => 1,
        Takes::Header { value, .. } if *value != HeaderValue::Always => 1,
        Takes::Header { .. } | Takes::Cookie(_) => 2,
    }
}
