//! What DestinationRules are charged to the budget of their namespace.

use incr::{Cx, Query};
use model::budget::{CLUSTER_BYTES, ENDPOINT_BYTES, charge};
use model::change::ServiceKey;
use model::host::matches;
use model::kinds::istio::DestinationRule;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::Service;
use prost::Message;
use proto_istio::networking::Subset;
use store::{Reads, Snapshot};

use super::resolve;
use crate::budget::{Charge, Names, outside};
use crate::limits::product;
use crate::services::{EndpointsOf, OfHost, VisibleTo};

/// The DestinationRules of a namespace that are over its budget: their subsets cannot be reached.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SettingsOver(pub Namespace);

impl Query<Snapshot> for SettingsOver {
    type Value = Names;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Names {
        let names = cx.names_in::<DestinationRule>(&self.0).into_iter();
        let charges = names.map(|name| (*cx.query(&SettingsCharge(name.clone())), name));
        outside(cx, charges, |_| 0)
    }
}

/// Whether a DestinationRule is over the budget.
pub(super) fn settings_are_over(cx: &Cx<'_, Snapshot>, name: &ObjectName) -> bool {
    cx.query(&SettingsCharge(name.clone())).bytes > 0
        && cx
            .query(&SettingsOver(name.namespace.clone()))
            .contains(name)
}

/// What a DestinationRule is charged: a cluster for each subset and port of each service that it is about, and the endpoints of
/// these.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SettingsCharge(ObjectName);

impl Query<Snapshot> for SettingsCharge {
    type Value = Charge;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Charge {
        let Some(rule) = cx.get::<DestinationRule>(&self.0) else {
            return Charge::default();
        };
        let subsets = &rule.spec.subsets;
        if subsets.is_empty() || rule.meta.derived.is_some() {
            return Charge::default();
        }
        let host = resolve(&rule, &cx.settings().domain);
        let services = match host.is_wildcard() {
            true => cx.query(&VisibleTo(self.0.namespace.clone())),
            false => cx.query(&OfHost(host.clone())),
        };
        let about = services
            .iter()
            .filter(|service| matches(&service.host, &host));
        let policy = |subset: &Subset| {
            subset
                .traffic_policy
                .as_ref()
                .map_or(0, Message::encoded_len)
        };
        let base = rule
            .spec
            .traffic_policy
            .as_ref()
            .map_or(0, Message::encoded_len);
        let each = product([base + CLUSTER_BYTES, subsets.len()]);
        let each = each.saturating_add(subsets.iter().map(policy).sum());
        let made = about.fold(0_usize, |made, service| {
            let clusters = product([each, service.ports.len()]);
            let listed = product([listed(cx, service, subsets), ENDPOINT_BYTES]);
            made.saturating_add(clusters).saturating_add(listed)
        });
        let crowded = || cx.is_crowded::<DestinationRule>(&self.0.namespace);
        Charge::of(&rule, charge(made, crowded))
    }
}

/// As many subsets list few endpoints more than there are.
const FEW_SUBSETS: usize = 8;
/// As many endpoints are compared with all subsets; of more all are taken to be in each.
const FEW_STEPS: usize = 1_000_000;

/// How many endpoints the subsets of a service list.
fn listed(cx: &Cx<'_, Snapshot>, service: &Service, subsets: &[Subset]) -> usize {
    if subsets.len() < FEW_SUBSETS {
        return 0;
    }
    let endpoints = cx.query(&EndpointsOf(key_of(service)));
    let steps = product([subsets.len(), endpoints.len()]);
    if steps > FEW_STEPS {
        return steps;
    }
    let of = |subset: &Subset| {
        let labels = &subset.labels;
        endpoints
            .iter()
            .filter(|e| e.labels.matches_map(labels))
            .count()
    };
    subsets.iter().map(of).sum()
}

fn key_of(service: &Service) -> ServiceKey {
    ServiceKey {
        namespace: service.namespace.clone(),
        host: service.host.clone(),
    }
}
